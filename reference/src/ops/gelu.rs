//! GELU: each value times the share of a normal distribution that lies below it.
//!
//! ```text
//! aᵢⱼ = xᵢⱼ · Φ(xᵢⱼ)        Φ(x) = ½·(1 + erf(x/√2))
//! ```
//!
//! - Shapes: x and a \[n, d\].
//! - Dtypes: x and a bf16; all steps f32.
//! - Rounding: R1 at a.
//! - Errors: none.
//! - Variants: D50 Φ(x) = ½·(1 + tanh(√(2/π)·(x + κ·x³))), κ = 0.044715. A slip of ports: Φ(x) = σ(α·x), α = 1.702,
//!   which `steps` has with each step stored in bf16.
//! - Source: spec A22, A24; `nn.functional.gelu`, exact.

pub mod steps;

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use ndarray::{Array2, ArrayView2, Zip};

use crate::bound::ErrorBound;
use crate::bound::elementary::steepest;
use crate::parallel::{self, ELEMENT};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{Real, Rounding, RoundingContract};

/// Φ, or what approximates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// ½·(1 + erf(x/√2)).
    Erf,
    /// ½·(1 + tanh(√(2/π)·(x + κ·x³))).
    Tanh,
    /// σ(α·x).
    Sigmoid,
}

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gelu {
    /// D50.
    pub share: Share,
    /// R1.
    pub output: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// κ of the approximation.
const CUBE: f64 = 0.044_715;

/// α of the quicker one.
const QUICK: f64 = 1.702;

/// √(2/π).
const SLOPE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// A device's erf and tanh are within so many u of 1. tanh: two ulps. erf: PyTorch on a processor takes Abramowitz &
/// Stegun 7.1.26 (`Vectorized<float>::erf` in its source), 1 − P(t)·exp(−x²) with t = 1/(1 + px), which is off by
/// 1.5·10⁻⁷ or 2.6·u; t by 3·u, and P by 10.4·u for that; Horner's scheme by 10·u of Σ|aᵢ|tⁱ ≤ 4.48; the exponential and
/// its argument by 4.8·u; product and difference by 2·u. σ: the exponential by 4·u, sum and quotient by 2·u, twice.
const FUNCTION: [f64; 3] = [65.0, 4.0, 12.0];

/// erf's argument is a product with a constant that is rounded; the cubic's has five products, a sum and two constants.
const ARGUMENT: [f64; 3] = [2.0, 8.0, 2.0];

/// Where the slope is steepest, on either side of 0: √2, and the like for the approximations.
const TURNING: [f64; 3] = [std::f64::consts::SQRT_2, 1.418_504_008_790_828_4, 1.409_728_131_912_730_4];

/// a of x.
pub fn gelu<T: Real>(p: &Gelu, x: ArrayView2<'_, T>) -> Array2<T> {
    Zip::from(&x).par_map_collect(|&x| p.output.round(x * p.share.of(x))) // R1
}

impl Gelu {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, share: Share) -> Self {
        Gelu { share, output: contract.stored(), unit: contract.unit() }
    }

    /// By δ and its own roundings; then R1.
    pub fn bound(&self, x: &Tracked<f64>, a: &Array2<f64>) -> ErrorBound {
        let input = x.error_or_exact();
        let mut error = ErrorBound::exact(a.dim());
        error.carried = input.carried;
        let rows = error.certain.rows_mut().into_iter().zip(error.sigma.rows_mut());
        parallel::for_each(rows.zip(x.value.rows()).zip(a.rows()).enumerate(), ELEMENT * a.len(), |(i, rows)| {
            let (((certain, sigma), x), a) = rows;
            Zip::indexed(certain).and(sigma).and(x).and(a).for_each(|j, certain, sigma, &x, &a| {
                let (delta, deviation) = (input.certain[[i, j]], input.sigma[[i, j]]);
                let Off { steepest, own } = self.share.off(x, delta, a, self.unit);
                *certain = steepest * delta + own;
                *sigma = (steepest * deviation).hypot(own / 3.0_f64.sqrt()).min(*certain);
            });
        });
        error.rounded(a.view(), self.output.storage)
    }
}

/// How far x·Φ(x) may be off, of an x that may be off by δ: by δ times the steepest slope, and its own roundings.
pub(super) struct Off {
    pub(super) steepest: f64,
    pub(super) own: f64,
}

impl Share {
    /// Φ. All are written without 1 − 1, which is nothing far below 0.
    pub(super) fn of<T: Real>(self, x: T) -> T {
        match self {
            Self::Erf => T::of(0.5) * (-x * T::of(FRAC_1_SQRT_2)).map_once(libm::erfc),
            Self::Sigmoid => T::of(((-QUICK * x.wide()).exp() + 1.0).recip()),
            Self::Tanh => T::of(((-2.0 * argument(x.wide())).exp() + 1.0).recip()),
        }
    }

    /// Φ + x·Φ′.
    fn slope(self, x: f64) -> f64 {
        self.of(x) + x * self.density(x)
    }

    /// Φ′.
    fn density(self, x: f64) -> f64 {
        let of_sigmoid = |share: f64| share * (1.0 - share);
        match self {
            Self::Erf => FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0 * (-x * x / 2.0).exp(),
            Self::Sigmoid => QUICK * of_sigmoid(self.of(x)),
            Self::Tanh => 2.0 * of_sigmoid(self.of(x)) * SLOPE * (1.0 + 3.0 * CUBE * x * x),
        }
    }

    fn one_of(self, [erf, tanh, sigmoid]: [f64; 3]) -> f64 {
        match self {
            Self::Erf => erf,
            Self::Tanh => tanh,
            Self::Sigmoid => sigmoid,
        }
    }

    /// An error δ of x moves a by no more than δ times the steepest slope in between. Own roundings: the function's argument
    /// is off by a few u of itself, which moves Φ by up to Φ′·|x| times that, and Φ′ falls with |x|; the function is off by
    /// so many u of 1, and 1 + it, up to 2, is rounded; then the product. So Φ's error is one of 1, not of what a small Φ is:
    /// a device may make it of 1 − 1.
    pub(super) fn off(self, x: f64, delta: f64, a: f64, u: f64) -> Off {
        let off = self.one_of(ARGUMENT) * u;
        let steepest = steepest(|x| self.slope(x), self.one_of(TURNING), x - delta, x + delta);
        let (size, nearest) = (x.abs() + delta, ((x.abs() - delta) * (1.0 - off)).max(0.0));
        let moved = size * self.density(nearest) * off;
        let share = 0.5 * (self.one_of(FUNCTION) + 2.0) * u + moved;
        let own = size * share + u * (a.abs() + steepest * delta + size * share) + (1.0 + size) * FLUSHED;
        Off { steepest, own }
    }
}

/// √(2/π)·(x + κ·x³).
fn argument(x: f64) -> f64 {
    SLOPE * (x + CUBE * x * x * x)
}
