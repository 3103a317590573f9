//! How a device adds up the products of a dot product, as far as an error bound needs to know.
//!
//! With A = Σ|aₖ||bₖ| over `terms` products, a sum ŝ of s = Σ aₖbₖ keeps |ŝ − s| ≤ c·A. For additions that round to
//! nearest, c = γ = nu / (1 − nu) in any order (Higham, section 3.1, products fused or rounded). Tensor cores align all
//! addends of a step to the largest exponent and truncate (MMA-Sim), so their errors add with one sign, and no law
//! with √n holds.

use std::fmt;
use std::str::FromStr;

use crate::Real;
use crate::error::ParseError;
use crate::storage::{Mode, uniform};

/// An accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// f64 additions.
    F64,
    /// f32 additions in any order, to nearest.
    F32,
    /// A tensor core that sums k products and the accumulator in one step.
    TensorCore(TensorCore),
}

/// The parameters of a tensor core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorCore {
    /// Products summed in one step.
    pub k: u32,
    /// F: bits kept below the largest addend's exponent; what is below is cut off.
    pub fraction: i32,
    /// f: fraction bits of the step's result; what is below is cut off.
    pub result: i32,
    /// After so many products the sum is added to an f32, to nearest, and starts anew.
    pub promote: u32,
}

impl Accumulator {
    /// bf16 on a Hopper tensor core, chunks of 512 products added in f32: what our kernels do.
    pub const HOPPER_BF16: Accumulator =
        Accumulator::TensorCore(TensorCore { k: 16, fraction: 25, result: 23, promote: 512 });

    /// c of |ŝ − s| ≤ c·A.
    pub fn certain(self, terms: usize) -> f64 {
        match self {
            Accumulator::F64 => gamma(terms, f64::UNIT_ROUNDOFF),
            Accumulator::F32 => gamma(terms, f32::UNIT_ROUNDOFF),
            Accumulator::TensorCore(core) => {
                let chunks = terms.div_ceil(core.promote as usize);
                let steps = terms.min(core.promote as usize).div_ceil(core.k as usize) as f64;
                let per_step = f64::from(core.k + 1) * 2.0_f64.powi(-core.fraction) + 2.0_f64.powi(-core.result);
                let chain = steps * per_step / (1.0 - steps * per_step);
                chain + gamma(chunks, f32::UNIT_ROUNDOFF) * (1.0 + chain)
            }
        }
    }

    /// v of Var(ŝ) ≤ v·(Σ(aₖbₖ)² + s²), for roundings that are independent and centred; `None` where they are not.
    ///
    /// A partial sum sₜ of a random walk with drift has E Σsₜ² ≤ n/2·(Σ(aₖbₖ)² + s²), and a rounding to nearest has a
    /// variance of at most u²sₜ²/3.
    pub fn variance(self, terms: usize) -> Option<f64> {
        let unit = match self {
            Accumulator::F64 => f64::UNIT_ROUNDOFF,
            Accumulator::F32 => f32::UNIT_ROUNDOFF,
            Accumulator::TensorCore(_) => return None,
        };
        Some(unit * unit / 3.0 * (terms as f64 / 2.0 + 1.0))
    }

    /// A draw of what a correct device may compute instead of y = Σ aₖbₖ: off by a centred error of the variance above
    /// (that of f32 additions for a tensor core). Exactly y unless the mode is stochastic.
    pub fn drawn<T: Real>(self, mode: Mode, terms: usize, squares: T, y: T) -> T {
        let (Mode::Stochastic(seed) | Mode::Sums(seed)) = mode else { return y };
        let variance = match self {
            Accumulator::F64 => return y,
            Accumulator::F32 | Accumulator::TensorCore(_) => Accumulator::F32.variance(terms).unwrap_or(0.0),
        };
        let y = y.wide();
        let width = (12.0 * variance * (squares.wide() + y * y)).sqrt();
        T::of(y + width * (uniform(seed, y) - 0.5))
    }

    /// Below this a product or a sum may be flushed to zero.
    pub fn smallest_normal(self) -> f64 {
        match self {
            Accumulator::F64 => f64::MIN_POSITIVE,
            Accumulator::F32 | Accumulator::TensorCore(_) => f64::from(f32::MIN_POSITIVE),
        }
    }
}

/// γₙ = nu / (1 − nu).
pub fn gamma(n: usize, unit: f64) -> f64 {
    let nu = n as f64 * unit;
    nu / (1.0 - nu)
}

impl fmt::Display for Accumulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Accumulator::F64 => f.write_str("f64"),
            Accumulator::F32 => f.write_str("f32"),
            Accumulator::TensorCore(core) => {
                write!(f, "tensor:{}:{}:{}:{}", core.k, core.fraction, core.result, core.promote)
            }
        }
    }
}

impl FromStr for Accumulator {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("accumulator", s, "f64, f32, hopper or tensor:K:FRACTION:RESULT:PROMOTE");
        match s {
            "f64" => return Ok(Accumulator::F64),
            "f32" => return Ok(Accumulator::F32),
            "hopper" => return Ok(Accumulator::HOPPER_BF16),
            _ => {}
        }
        let numbers: Vec<i32> = s
            .strip_prefix("tensor:")
            .ok_or_else(error)?
            .split(':')
            .map(|n| n.parse().ok().filter(|n| (1..=1 << 20).contains(n)))
            .collect::<Option<_>>()
            .ok_or_else(error)?;
        let [k, fraction, result, promote] = numbers[..] else { return Err(error()) };
        let positive = |n: i32| u32::try_from(n).expect("at least 1");
        Ok(Accumulator::TensorCore(TensorCore { k: positive(k), fraction, result, promote: positive(promote) }))
    }
}
