//! Dense FFN: a feed-forward network that every token goes through.
//!
//! ```text
//! g = linear(x; w₁)        u = linear(x; w₃)        y = linear(activation(g, u); w₂)
//! ```
//!
//! - Shapes: x \[n, d\], w₁ and w₃ \[m, d\], g and u \[n, m\], w₂ \[d, m\], y \[n, d\].
//! - Dtypes: as `linear`, `swiglu` and `swiglu_oai`.
//! - Rounding: R1 at g and u, R2 at the activation and in it, R3 at y.
//! - Errors: those of the parts.
//! - Variants: the activation is `swiglu` or `swiglu_oai`, and theirs.
//! - Source: spec A13; `MiniMaxM3VLDenseMLP` in transformers 5.23: M3's dense layers, and its shared expert.

use ndarray::{Array2, ArrayView2};

use super::linear::{Linear, linear};
use super::swiglu::{GateFunction, Swiglu, swiglu};
use super::swiglu_oai::{SwigluOai, swiglu_oai};
use crate::bound::ErrorBound;
use crate::config::Coefficients;
use crate::matrix::Matrix;
use crate::semantics::{self, Semantics};
use crate::tracked::Tracked;
use crate::{ContractError, Real, RoundingContract};

/// Which function of gate and up projection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// Of M2.
    Swiglu(Swiglu),
    /// Of M3.
    SwigluOai(SwigluOai),
}

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DenseFfn {
    /// Of g and u.
    pub gate_up: Linear,
    /// Of both.
    pub activation: Activation,
    /// Of y.
    pub down: Linear,
}

/// y of x, w₁, w₃ and w₂.
pub fn dense_ffn<T: Real>(
    p: &DenseFfn,
    x: ArrayView2<'_, T>,
    [w1, w3, w2]: [&Matrix<'_>; 3],
) -> Result<Array2<T>, ContractError> {
    let (g, u) = (linear(&p.gate_up, x, w1)?, linear(&p.gate_up, x, w3)?); // R1
    let a = p.activation.of(g.view(), u.view())?; // R2
    linear(&p.down, a.view(), w2) // R3
}

impl DenseFfn {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, activation: Activation) -> Self {
        let linear = Linear::under(contract);
        DenseFfn { gate_up: linear, activation, down: linear }
    }

    /// The parts' bounds, each the input error of the next.
    pub fn bound(
        &self,
        x: &Tracked<f64>,
        [w1, w3, w2]: [&Matrix<'_>; 3],
        y: &Array2<f64>,
    ) -> Result<ErrorBound, ContractError> {
        let ideal = Linear::under(&RoundingContract::IDEAL);
        let project = |w: &Matrix<'_>| -> Result<_, ContractError> {
            let value = linear(&ideal, x.view(), w)?;
            Ok(Tracked { error: Some(self.gate_up.bound(x, w, &value)), value })
        };
        let (g, u) = (project(w1)?, project(w3)?);
        let value = self.activation.unrounded().of(g.view(), u.view())?;
        let a = Tracked { error: Some(self.activation.bound(&g, &u, &value)), value };
        Ok(self.down.bound(&a, w2, y))
    }
}

impl Activation {
    /// Under a contract: SwiGLU-OAI where there are coefficients.
    pub fn under(contract: &RoundingContract, semantics: &Semantics, oai: Option<Coefficients>) -> Self {
        match (oai, semantics.activation) {
            (Some(coefficients), None | Some(semantics::Activation::SwigluOai)) => {
                let alpha = semantics.gate_alpha.unwrap_or(coefficients.alpha);
                let beta = semantics.up_beta.unwrap_or(coefficients.beta);
                let limit = semantics.swiglu_limit.unwrap_or(coefficients.limit);
                let coefficients = Coefficients { alpha, limit, beta };
                let oai = SwigluOai::under(contract, coefficients, semantics.gate_clamp);
                Activation::SwigluOai(oai.slipping(semantics))
            }
            (_, activation) => {
                let function = activation.map_or(GateFunction::Silu, GateFunction::of);
                Activation::Swiglu(Swiglu { function, ..Swiglu::under(contract, semantics.expert) })
            }
        }
    }

    /// a of g and u.
    pub fn of<T: Real>(&self, g: ArrayView2<'_, T>, u: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
        match self {
            Activation::Swiglu(p) => swiglu(p, g, u),
            Activation::SwigluOai(p) => swiglu_oai(p, g, u),
        }
    }

    /// Of a.
    pub fn bound(&self, g: &Tracked<f64>, u: &Tracked<f64>, a: &Array2<f64>) -> ErrorBound {
        match self {
            Activation::Swiglu(p) => p.bound(g, u, a),
            Activation::SwigluOai(p) => p.bound(g, u, a),
        }
    }

    /// The truth.
    fn unrounded(&self) -> Self {
        let ideal = RoundingContract::IDEAL;
        match self {
            Activation::Swiglu(p) => {
                Activation::Swiglu(Swiglu { function: p.function, ..Swiglu::under(&ideal, p.expert) })
            }
            Activation::SwigluOai(p) => {
                let SwigluOai { up_clamp, activated_limit, .. } = *p;
                let oai = SwigluOai::under(&ideal, p.coefficients, p.gate_clamp);
                Activation::SwigluOai(SwigluOai { up_clamp, activated_limit, ..oai })
            }
        }
    }
}
