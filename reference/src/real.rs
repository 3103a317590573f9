//! The arithmetic type that the reference computes in.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{AddAssign, MulAssign};

use ndarray::{LinalgScalar, ScalarOperand};
use num_traits::Float;

/// `f64`, in which the truth is computed, or `f32`, which models a device's arithmetic.
pub trait Real:
    Float + LinalgScalar + ScalarOperand + Sum + AddAssign + MulAssign + Debug + Display + Default + Send + Sync
{
    /// u: the largest relative error of one rounding to nearest.
    const UNIT_ROUNDOFF: f64;

    /// The nearest value of this type.
    fn of(x: f64) -> Self;

    /// The same value in f64, exactly.
    fn wide(self) -> f64;

    /// A function of the value, taken in f64 and rounded once.
    #[must_use]
    fn map_once(self, f: impl Fn(f64) -> f64) -> Self {
        Self::of(f(self.wide()))
    }

    /// σ(x).
    #[must_use]
    fn sigmoid(self) -> Self {
        (Self::one() + (-self).map_once(f64::exp)).recip()
    }

    /// 1/√x.
    #[must_use]
    fn reciprocal_root(self) -> Self {
        self.map_once(|x| x.sqrt().recip())
    }
}

impl Real for f64 {
    const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;

    #[inline]
    fn of(x: f64) -> Self {
        x
    }

    #[inline]
    fn wide(self) -> f64 {
        self
    }
}

impl Real for f32 {
    const UNIT_ROUNDOFF: f64 = f32::EPSILON as f64 / 2.0;

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is what is asked for")]
    fn of(x: f64) -> Self {
        x as f32
    }

    #[inline]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}
