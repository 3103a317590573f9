//! Gated lightning attention: a layer's lightning attention with its projections, its norm and its gate.
//!
//! ```text
//! (q, k, v)(h) = silu(linear(x; W))(h)        a = lightning_attention(q, k, v)
//! y = linear(ρ(ρ(σ(linear(x; U))) · rms_norm(a; w)); O)
//! ```
//!
//! - Shapes: x and y \[n, m\], W \[3·H·d, m\], whose rows are a head's q, k and v side by side, head by head, w \[H·d\], U \[H·d, m\],
//!   O \[m, H·d\].
//! - Dtypes: as the parts.
//! - Rounding: those of the parts; R1 and R2 at ρ, of the gate and of its product with the norm.
//! - Errors: C1 rows of W = 3·H·d; C2 those of U = H·d; and those of the parts.
//! - Variants: those of `lightning_attention`.
//! - Source: spec A34; `MiniMaxLightningAttention.forward` in transformers 5.23: the layers of document 000's CH1.4 that are
//!   no softmax attention. No model from M2 on has them.

use ndarray::{Array2, ArrayView1, ArrayView2, Zip, s};

use super::lightning_attention::{LightningAttention, lightning_attention};
use super::linear::{Linear, linear};
use super::rms_norm::{RmsNorm, rms_norm};
use super::swiglu::{Swiglu, swiglu};
use crate::bound::elementary::EXPONENTIAL;
use crate::bound::{ErrorBound, together};
use crate::error::require;
use crate::matrix::Matrix;
use crate::semantics::{EpsPlace, Expert};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedLightning {
    /// Of the four projections.
    pub linear: Linear,
    /// SiLU of the first.
    pub activation: Swiglu,
    /// Of q, k and v.
    pub attention: LightningAttention,
    /// Of all heads together.
    pub norm: RmsNorm,
    /// R1 and R2.
    pub gated: Rounding,
    /// u of the gate.
    pub unit: f64,
}

/// W, w, U and O.
#[derive(Debug)]
pub struct LightningWeights<'w> {
    /// Of q, k and v.
    pub qkv: Matrix<'w>,
    /// Of the norm.
    pub norm: ArrayView1<'w, f64>,
    /// Of the gate.
    pub gate: Matrix<'w>,
    /// Of y.
    pub out: Matrix<'w>,
}

/// y of x.
pub fn gated_lightning<T: Real>(
    p: &GatedLightning,
    x: ArrayView2<'_, T>,
    w: &LightningWeights<'_>,
) -> Result<Array2<T>, ContractError> {
    p.check(w)?;
    let projected = linear(&p.linear, x, &w.qkv)?;
    let all = swiglu(&p.activation, projected.view(), projected.view())?;
    let [q, k, v] = [0, 1, 2].map(|third| p.third(all.view(), third));
    let a = lightning_attention(&p.attention, q.view(), k.view(), v.view())?;
    let normed = rms_norm(&p.norm, a.view(), w.norm.mapv(T::of).view())?;
    let gate = linear(&p.linear, x, &w.gate)?.mapv(|z| p.gated.round(z.sigmoid())); // R1
    let product = Zip::from(&gate).and(&normed).map_collect(|&g, &a| p.gated.round(g * a)); // R2
    linear(&p.linear, product.view(), &w.out)
}

impl GatedLightning {
    /// Under a contract, of such slopes, d and ε.
    pub fn under(contract: &RoundingContract, slopes: Vec<f64>, head_dim: usize, eps: f64) -> Self {
        GatedLightning {
            linear: Linear::under(contract),
            activation: Swiglu::under(contract, Expert::Nongated),
            attention: LightningAttention::under(contract, slopes, head_dim),
            norm: RmsNorm::under(contract, eps, EpsPlace::Inside),
            gated: contract.stored(),
            unit: contract.unit(),
        }
    }

    /// C1 and C2.
    pub fn check(&self, w: &LightningWeights<'_>) -> Result<(), ContractError> {
        let (heads, d) = (self.attention.slopes.len(), self.attention.head_dim);
        let (expected, found) = (3 * heads * d, w.qkv.dim().0);
        require(found == expected, "gated_lightning C1", "rows of W", found, format!("{expected}: 3·{heads}·{d}"))?;
        let (expected, found) = (heads * d, w.gate.dim().0);
        require(found == expected, "gated_lightning C2", "rows of U", found, format!("{expected}: {heads}·{d}"))
    }

    /// q, k or v: of each head's 3·d columns a third.
    fn third<T: Clone>(&self, all: ArrayView2<'_, T>, third: usize) -> Array2<T> {
        let (n, heads, d) = (all.nrows(), self.attention.slopes.len(), self.attention.head_dim);
        let all = all.into_shape_with_order((n, heads, 3, d)).expect("C1");
        let own = all.slice(s![.., .., third, ..]).to_owned();
        own.into_shape_with_order((n, heads * d)).expect("as many")
    }

    /// The parts' bounds, each the input error of the next. What x is off by is in q, k and v alike: their product is then off by
    /// more than independent errors would have it, and nothing less than the certain bound is probable of it.
    pub fn bound(
        &self,
        x: &Tracked<f64>,
        w: &LightningWeights<'_>,
        y: &Array2<f64>,
    ) -> Result<ErrorBound, ContractError> {
        let ideal = GatedLightning::under(
            &RoundingContract::IDEAL,
            self.attention.slopes.clone(),
            self.attention.head_dim,
            self.norm.eps,
        );
        let project = |w: &Matrix<'_>| -> Result<Tracked<f64>, ContractError> {
            let value = linear(&ideal.linear, x.view(), w)?;
            Ok(Tracked { error: Some(self.linear.bound(x, w, &value)), value })
        };
        let projected = project(&w.qkv)?;
        let value = swiglu(&ideal.activation, projected.view(), projected.view())?;
        let error = self.activation.bound(&projected, &projected, &value);
        let [q, k, v] = [0, 1, 2].map(|third| {
            let part = |of: &Array2<f64>| self.third(of.view(), third);
            let error = ErrorBound { certain: part(&error.certain), sigma: part(&error.sigma), carried: error.carried };
            Tracked { value: part(&value), error: Some(error) }
        });
        let value = lightning_attention(&ideal.attention, q.view(), k.view(), v.view())?;
        let mut error = self.attention.bound(&q, &k, &v, &value);
        if !x.error.as_ref().is_none_or(ErrorBound::is_exact) {
            error.sigma.clone_from(&error.certain);
        }
        let a = Tracked { error: Some(error), value };
        let value = rms_norm(&ideal.norm, a.view(), w.norm)?;
        let normed = Tracked { error: Some(self.norm.bound(&a, w.norm, &value)), value };
        let product = self.product(&project(&w.gate)?, &normed);
        Ok(self.linear.bound(&product, &w.out, y))
    }

    /// σ(z)·a and its bound. σ is moved by at most a quarter of what z is off by; its own roundings are those of an exponential,
    /// of whose error and argument 1 − σ arrives, and 3·u for sum and quotient.
    fn product(&self, z: &Tracked<f64>, a: &Tracked<f64>) -> Tracked<f64> {
        let (mut gate, of_z, of_a) = (ErrorBound::exact(z.dim()), z.error_or_exact(), a.error_or_exact());
        gate.carried = of_z.carried;
        let value = z.value.mapv(f64::sigmoid);
        for (at, certain) in gate.certain.indexed_iter_mut() {
            let (moved, argument) = (of_z.certain[at] / 4.0, z.value[at].abs() + of_z.certain[at]);
            let own = self.unit * ((1.0 - value[at] + moved) * (EXPONENTIAL + argument) + 3.0);
            *certain = moved + own * (value[at] + moved) + FLUSHED;
            gate.sigma[at] = together(of_z.sigma[at] / 4.0, own * value[at] / 3.0_f64.sqrt() + FLUSHED).min(*certain);
        }
        let gate = gate.rounded(value.view(), self.gated.storage); // R1
        let product = &value * &a.value;
        let mut error = ErrorBound::exact(product.dim());
        error.carried = gate.carried.max(of_a.carried);
        for (at, certain) in error.certain.indexed_iter_mut() {
            let (g, x) = (value[at], a.value[at].abs());
            let moved = gate.certain[at] * (x + of_a.certain[at]) + g * of_a.certain[at];
            let own = self.unit * (g * x + moved) + FLUSHED;
            *certain = moved + own;
            let spread = together(gate.sigma[at] * together(x, of_a.sigma[at]), g * of_a.sigma[at]);
            error.sigma[at] = together(spread, own / 3.0_f64.sqrt()).min(*certain);
        }
        Tracked { error: Some(error.rounded(product.view(), self.gated.storage)), value: product } // R2
    }
}
