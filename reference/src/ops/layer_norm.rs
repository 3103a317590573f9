//! Layer norm: takes the mean off each row, scales it to unit variance, then by a learned weight, and adds a learned bias.
//!
//! ```text
//! yᵢⱼ = bⱼ + wⱼ · (xᵢⱼ − μᵢ) · rᵢ        μᵢ = (1/d)·Σₖ xᵢₖ        rᵢ = 1 / √(ε + (1/d)·Σₖ (xᵢₖ − μᵢ)²)
//! ```
//!
//! - Shapes: x \[n, d\], w and b \[d\], y \[n, d\].
//! - Dtypes: x, w, b and y bf16; the sums, μ and r f32.
//! - Rounding: R1 at y; nothing else leaves f32. The squares are those of deviations, never of x. A stochastic run draws what
//!   f32 makes of μ, of r, of (x − μ)·r, and of the product with w and the sum with b.
//! - Errors: C1 n, d ≥ 1; C2 len(w) = d; C3 len(b) = d; C4 ε > 0.
//! - Source: spec A22; `nn.LayerNorm`, whose variance has no Bessel's correction.

use ndarray::{Array2, ArrayView1, ArrayView2, Zip};

use crate::accumulator::gamma;
use crate::bound::ErrorBound;
use crate::bound::elementary::euclidean;
use crate::error::require;
use crate::order::{self, Order};
use crate::parallel::{self, ELEMENT};
use crate::reduction::Reduction;
use crate::storage::{FLUSHED, Mode};
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// ε, inside the root.
    pub eps: f64,
    /// R1.
    pub output: Rounding,
    /// u of the sums and of r.
    pub unit: f64,
    /// Of the sums.
    pub reduction: Reduction,
    /// Of the sums, where it is fixed.
    pub order: Order,
    /// Whether the errors of the arithmetic are drawn.
    pub mode: Mode,
}

/// In u, the error of 1/√ on the device.
const ROOT: f64 = 4.0;

/// y of x, w and b.
pub fn layer_norm<T: Real>(
    p: &LayerNorm,
    x: ArrayView2<'_, T>,
    w: ArrayView1<'_, T>,
    b: ArrayView1<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), w.len(), b.len())?;
    let h = p.reduction.depth_of_moments(x.ncols()) as f64;
    let mut y = Array2::zeros(x.dim());
    parallel::for_each(y.rows_mut().into_iter().zip(x.rows()), ELEMENT * x.len(), |(mut yi, xi)| {
        let strayed = |y: T, size: T, squares: f64| p.mode.strayed(y, size.wide(), p.unit, squares);
        let (mean, r) = p.moments(xi);
        let mean = strayed(mean, T::one(), p.squares_of_mean(xi, mean.wide()));
        let r = strayed(r, r, h / 4.0 + ROOT * ROOT);
        Zip::from(&mut yi).and(&xi).and(&w).and(&b).for_each(|y, &x, &w, &b| {
            let (z, size) = ((x - mean) * r, (x.abs() + mean.abs()) * r);
            let z = strayed(z, size, 1.0);
            let product = w * z;
            *y = p.output.round(strayed(w.mul_add(z, b), product.abs() + b.abs(), 1.0)); // R1
        });
    });
    Ok(y)
}

impl LayerNorm {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, eps: f64) -> Self {
        let (reduction, order) = (contract.reduction, contract.lanes(order::PARITY.row));
        LayerNorm { eps, output: contract.stored(), unit: contract.unit(), reduction, order, mode: contract.mode }
    }

    /// C1 to C4.
    pub fn check(&self, (n, d): (usize, usize), w: usize, b: usize) -> Result<(), ContractError> {
        require(1 <= n.min(d), "layer_norm C1", "min(n, d)", n.min(d), "at least 1")?;
        require(w == d, "layer_norm C2", "len(w)", w, format!("d = {d}"))?;
        require(b == d, "layer_norm C3", "len(b)", b, format!("d = {d}"))?;
        require(0.0 < self.eps, "layer_norm C4", "ε", self.eps, "above 0")
    }

    /// μ and r.
    fn moments<T: Real>(&self, x: ArrayView1<'_, T>) -> (T, T) {
        let d = T::of(x.len() as f64);
        let mean = self.order.sum(x.len(), |sum: T, k| sum + x[k]) / d;
        let squares = self.order.sum(x.len(), |sum, k| (x[k] - mean).mul_add(x[k] - mean, sum));
        (mean, (T::of(self.eps) + squares / d).reciprocal_root())
    }

    /// In u²/3, the variance of μ: that of its sum, in parts that are a random walk, and of the division.
    fn squares_of_mean<T: Real>(&self, x: ArrayView1<'_, T>, mean: f64) -> f64 {
        let (d, h) = (x.len() as f64, self.reduction.depth_of_moments(x.len()) as f64);
        (h.min(d / 2.0) + 1.0) * (euclidean(x.iter().map(|x| x.wide())).powi(2) / d / d + mean * mean)
    }

    /// Own roundings: with h the [`Reduction`]'s depth, in any order d, the sum's are within M = γ(h)·mean|x| of the mean. Deviations from another mean, m off,
    /// have a mean square that is m² larger, because they sum to 0. Their squares' sum has positive terms only: h·u, and 5·u
    /// of differences, squares, /d and + ε, of which the root takes half; 1/√ is within 4·u. (x − μ)·r may be x·r − μ·r:
    /// 3·u of |x|·r and |μ|·r. Then w's product and b's sum, u each, and R1.
    ///
    /// An error δ of the inputs moves μ by at most its mean; and 1/r, a norm of deviations, of which taking the mean off
    /// makes no longer ones, by at most D = ‖δ‖/√d.
    pub fn bound(&self, x: &Tracked<f64>, w: ArrayView1<'_, f64>, y: &Array2<f64>) -> ErrorBound {
        let (d, u) = (y.ncols() as f64, self.unit);
        let depth = self.reduction.depth_of_moments(y.ncols());
        let h = depth as f64;
        let first_order = (h + 5.0) * u / 2.0 + ROOT * u;
        let own = first_order / (1.0 - first_order);
        let input = x.error_or_exact();
        let mut error = ErrorBound::exact(y.dim());
        error.carried = input.carried;
        for i in 0..y.nrows() {
            let (xi, delta, sigma) = (x.value.row(i), input.certain.row(i), input.sigma.row(i));
            let (mean, r) = self.moments(xi);
            let (size, moved) = (xi.iter().map(|x| x.abs()).sum::<f64>() / d, delta.sum() / d);
            let summed = gamma(depth + 1, u) * (size + moved);
            let stretched = euclidean(delta.iter().copied()) / d.sqrt();
            let largest = 1.0 / (1.0 / r - stretched).max(self.eps.sqrt());
            // From ‖deviations‖ to the hypotenuse with M.
            let longer = ((summed * largest).powi(2) / 2.0).min(1.0);
            let scale = largest * (stretched * r + longer + own * (1.0 + longer));
            let largest = largest * (1.0 + own);
            let z = |j: usize| (xi[j] - mean) * r;
            let spread = euclidean(sigma.iter().copied()) / d;
            let aligned = euclidean((0..y.ncols()).map(|j| z(j) * sigma[j])) / d;
            let mean_spread = u * (self.squares_of_mean(xi, mean) / 3.0).sqrt();
            let own_spread = u * ((h / 4.0 + 36.0) / 3.0).sqrt();
            for j in 0..y.ncols() {
                let deviation = (xi[j] - mean).abs();
                let cancelled = 3.0 * u * (xi[j].abs() + delta[j] + mean.abs() + moved + summed) * largest;
                let off = (delta[j] + moved + summed) * largest + deviation * scale + cancelled + FLUSHED;
                let product = w[j].abs() * off;
                let size = w[j].abs() * z(j).abs() + product + FLUSHED;
                let certain =
                    product + u * size + u * (1.0 + u) * (y[[i, j]].abs() + product + u * size) + 2.0 * FLUSHED;
                let carried = r * sigma[j].hypot(spread + z(j).abs() * aligned);
                let rounded = (mean_spread * r).hypot(own_spread * z(j)).hypot(cancelled / 3.0_f64.sqrt());
                let last = u * size.hypot(y[[i, j]]) / 3.0_f64.sqrt() + w[j].abs() * deviation * largest * longer;
                error.sigma[[i, j]] = (w[j].abs() * carried.hypot(rounded)).hypot(last + FLUSHED).min(certain);
                error.certain[[i, j]] = certain;
            }
        }
        error.rounded(y.view(), self.output.storage)
    }
}
