//! What a gated network makes of its gate.

use crate::Real;
use crate::bound::elementary::{EXPONENTIAL, silu_slope, steepest_silu};
use crate::ops::gelu::{self, Share};
use crate::semantics::Activation;

/// A function of the gate g.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateFunction {
    /// g·σ(g).
    Silu,
    /// g·Φ(g), as `gelu` has it.
    Gelu(Share),
    /// max(g, 0).
    Relu,
}

/// How far a function may be off, of a gate that may be off by δ: by δ times the steepest slope, and its own roundings.
pub(super) struct Off {
    /// Where the gate may be.
    pub(super) steepest: f64,
    /// Roundings in shares of the value, among them that of the product with the up projection.
    pub(super) relative: f64,
    /// All others.
    pub(super) absolute: f64,
}

impl GateFunction {
    /// Of an activation; that of SwiGLU-OAI is no function of the gate alone, and has SiLU where it lost its numbers.
    pub(crate) fn of(activation: Activation) -> Self {
        match activation {
            Activation::Swiglu | Activation::SwigluOai => GateFunction::Silu,
            Activation::Geglu => GateFunction::Gelu(Share::Erf),
            Activation::GegluTanh => GateFunction::Gelu(Share::Tanh),
            Activation::GegluQuick => GateFunction::Gelu(Share::Sigmoid),
            Activation::Reglu => GateFunction::Relu,
        }
    }

    /// Its value; 0, not NaN, where SiLU's exponential overflows.
    pub(super) fn of_gate<T: Real>(self, g: T) -> T {
        match self {
            GateFunction::Silu => g / (T::one() + (-g).map_once(f64::exp)),
            GateFunction::Gelu(share) => g * share.of(g),
            // Not a maximum, which would be 0 of NaN.
            GateFunction::Relu if g <= T::zero() => T::zero(),
            GateFunction::Relu => g,
        }
    }

    /// An error δ of g moves silu by at most |silu'(g)|·δ + δ²/4, because |silu''| ≤ 1/2, and by at most δ times the
    /// largest |silu'| within δ of g. SiLU's own roundings: (1 − σ)·(e + u·|g|) for the exponential, of relative error e,
    /// and 5·u for sum, quotient and product.
    pub(super) fn off(self, g: f64, delta: f64, unit: f64) -> Off {
        match self {
            GateFunction::Silu => {
                let slope = silu_slope(g).abs() + delta / 4.0;
                let sigmoid = 1.0 / (1.0 + (-(g + delta)).exp());
                let exponential = (1.0 - sigmoid + delta) * unit * (EXPONENTIAL + g.abs() + delta);
                let steepest = slope.min(steepest_silu(g - delta, g + delta));
                Off { steepest, relative: exponential + 5.0 * unit, absolute: 0.0 }
            }
            GateFunction::Gelu(share) => {
                let gelu::Off { steepest, own } = share.off(g, delta, self.of_gate(g), unit);
                Off { steepest, relative: unit, absolute: own }
            }
            GateFunction::Relu => {
                let steepest = if g + delta <= 0.0 { 0.0 } else { 1.0 };
                Off { steepest, relative: unit, absolute: 0.0 }
            }
        }
    }
}
