//! What a gated network makes of its gate.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::Real;
use crate::semantics::Activation;

/// A function of the gate g.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateFunction {
    /// g·σ(g).
    Silu,
    /// g·Φ(g).
    Gelu,
    /// The same by tanh.
    GeluTanh,
    /// g·σ(1.702·g).
    Quick,
    /// max(g, 0).
    Relu,
}

/// α of the quick approximation.
const QUICK: f64 = 1.702;

/// κ of that by tanh.
const CUBE: f64 = 0.044_715;

/// √(2/π).
const SLOPE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// A device's erf and tanh are within so many u of 1, as `gelu` has it.
const FUNCTION: f64 = 80.0;

/// No slope is steeper.
const LARGEST: f64 = 1.13;

impl GateFunction {
    /// Of an activation; that of SwiGLU-OAI is no function of the gate alone, and has SiLU where it lost its numbers.
    pub(crate) fn of(activation: Activation) -> Self {
        match activation {
            Activation::Swiglu | Activation::SwigluOai => GateFunction::Silu,
            Activation::Geglu => GateFunction::Gelu,
            Activation::GegluTanh => GateFunction::GeluTanh,
            Activation::GegluQuick => GateFunction::Quick,
            Activation::Reglu => GateFunction::Relu,
        }
    }

    /// Its value; 0, not NaN, where SiLU's exponential overflows.
    pub(super) fn of_gate<T: Real>(self, g: T) -> T {
        let sigmoid_of = |alpha: f64| T::one() + (-(T::of(alpha) * g)).map_once(f64::exp);
        match self {
            GateFunction::Silu => g / (T::one() + (-g).map_once(f64::exp)),
            GateFunction::Quick => g / sigmoid_of(QUICK),
            GateFunction::Gelu => g * T::of(0.5) * (-g * T::of(FRAC_1_SQRT_2)).map_once(libm::erfc),
            GateFunction::GeluTanh => {
                let x = g.wide();
                g / T::of((-2.0 * SLOPE * (x + CUBE * x * x * x)).exp() + 1.0)
            }
            GateFunction::Relu => g.max(T::zero()),
        }
    }

    /// No slope up to `high` is steeper: those of GELU and its like are 1.129 at most.
    pub(super) fn steepest(self, high: f64) -> f64 {
        match self {
            GateFunction::Relu if high <= 0.0 => 0.0,
            GateFunction::Relu => 1.0,
            _ => LARGEST,
        }
    }

    /// What its own roundings leave beside those of SiLU: its argument, and a function that is within so many u of 1.
    pub(super) fn own(self, size: f64, unit: f64) -> f64 {
        match self {
            GateFunction::Silu | GateFunction::Relu => 0.0,
            GateFunction::Quick => 4.0 * unit * size,
            GateFunction::Gelu | GateFunction::GeluTanh => FUNCTION / 2.0 * unit * size,
        }
    }
}
