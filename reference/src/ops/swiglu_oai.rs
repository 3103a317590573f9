//! SwiGLU-OAI: the clamped gate times its own sigmoid, times one more than the clamped up projection.
//!
//! ```text
//! aᵢⱼ = ρ(u′ᵢⱼ + β) · ρ(g′ᵢⱼ · ρ(σ(ρ(α·g′ᵢⱼ))))        g′ = min(g, ℓ)        u′ = max(min(u, ℓ), −ℓ)
//! ```
//!
//! - Shapes: g, u and a \[n, d\].
//! - Dtypes: g, u and a bf16; all steps f32.
//! - Rounding: R1 at each ρ, where a precision stores every step; R2 at a, which is the product of the last two.
//! - Errors: C1 the shapes of g and u are equal; C2 ℓ > 0.
//! - Variants: D32 g′ is clamped on both sides, or not at all. Slips of ports: another α, ℓ or β; u′ is clamped from above
//!   alone, not at all or with β; the gate is clamped behind its sigmoid.
//! - Source: spec A12; `MiniMaxM3VLDenseMLP` and `MiniMaxM3VLExperts._apply_gate` in transformers 5.23.

use ndarray::{Array2, ArrayView2, Zip};

use crate::bound::elementary::{EXPONENTIAL, steepest_silu};
use crate::bound::{ErrorBound, together};
use crate::config::Coefficients;
use crate::error::require;
use crate::semantics::{GateClamp, Semantics, UpClamp};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwigluOai {
    /// α, ℓ and β.
    pub coefficients: Coefficients,
    /// D32.
    pub gate_clamp: GateClamp,
    /// How u is clamped.
    pub up_clamp: UpClamp,
    /// To what the gate is clamped behind its sigmoid, instead of before.
    pub activated_limit: Option<f64>,
    /// R1.
    pub between: Rounding,
    /// R2.
    pub output: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// α is rounded, α·g′ too, and scaled to base 2: so many u of the exponential's argument.
const ARGUMENT: f64 = 3.0;

/// a of g and u.
pub fn swiglu_oai<T: Real>(
    p: &SwigluOai,
    g: ArrayView2<'_, T>,
    u: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(g.dim(), u.dim())?;
    let alpha = p.coefficients.alpha;
    let step = |x: T| p.between.round(x); // R1
    let mut a = Array2::zeros(g.dim());
    Zip::from(&mut a).and(&g).and(&u).for_each(|a, &g, &u| {
        let (gate, up) = (p.gate(g), p.up(u));
        let activated = p.activated(step(gate * step(step(T::of(alpha) * gate).sigmoid())));
        *a = p.output.round(step(up) * activated); // R2
    });
    Ok(a)
}

/// x up to ℓ; NaN stays.
fn at_most<T: Real>(x: T, limit: T) -> T {
    if x > limit { limit } else { x }
}

impl SwigluOai {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, coefficients: Coefficients, gate_clamp: GateClamp) -> Self {
        let between = contract.within_activation();
        let (up_clamp, activated_limit) = (UpClamp::Symmetric, None);
        let (output, unit) = (contract.stored(), contract.unit());
        SwigluOai { coefficients, gate_clamp, up_clamp, activated_limit, between, output, unit }
    }

    /// As a port reads it that differs.
    #[must_use]
    pub fn slipping(self, semantics: &Semantics) -> Self {
        SwigluOai { up_clamp: semantics.up_clamp, activated_limit: semantics.activated_limit, ..self }
    }

    /// C1 and C2.
    pub fn check(&self, g: (usize, usize), u: (usize, usize)) -> Result<(), ContractError> {
        require(g == u, "swiglu_oai C1", "shape of u", format!("{u:?}"), format!("{g:?}"))?;
        let limit = self.coefficients.limit;
        require(limit > 0.0, "swiglu_oai C2", "ℓ", limit, "above 0")?;
        let behind = self.activated_limit.unwrap_or(limit);
        require(behind > 0.0, "swiglu_oai C2", "ℓ behind the sigmoid", behind, "above 0")
    }

    /// g′.
    fn gate<T: Real>(&self, g: T) -> T {
        let limit = T::of(self.coefficients.limit);
        match self.gate_clamp {
            _ if self.activated_limit.is_some() => g,
            GateClamp::Upper => at_most(g, limit),
            GateClamp::Symmetric => -at_most(-at_most(g, limit), limit),
            GateClamp::None => g,
        }
    }

    /// The gate times its sigmoid, as it is taken.
    fn activated<T: Real>(&self, activated: T) -> T {
        self.activated_limit.map_or(activated, |limit| at_most(activated, T::of(limit)))
    }

    /// u′ + β.
    fn up<T: Real>(&self, u: T) -> T {
        let Coefficients { limit, beta, .. } = self.coefficients;
        let (limit, beta) = (T::of(limit), T::of(beta));
        let symmetric = |u: T| -at_most(-at_most(u, limit), limit);
        match self.up_clamp {
            UpClamp::Symmetric => symmetric(u) + beta,
            UpClamp::Upper => at_most(u, limit) + beta,
            UpClamp::None => u + beta,
            UpClamp::Sum => symmetric(u + beta),
        }
    }

    /// With t = α·g′ and f = g′·σ(t), which is (t·σ(t))/α: an error δ of g takes g′ to somewhere from g′₋ to g′₊, no
    /// further than δ, and f by no more than that times the largest |d f/d g′| in between. Own roundings: t is off by
    /// ε = (3·u + R1)·|t|, so σ by ε times the largest σ′ within ε; then (1 − σ)·e for the exponential, of relative
    /// error e, 3·u for sum, quotient and product, and R1 twice; u′ + β is rounded by u and R1; the product by u and R2. ℓ and
    /// β are rounded, too.
    pub fn bound(&self, g: &Tracked<f64>, u: &Tracked<f64>, a: &Array2<f64>) -> ErrorBound {
        let (ge, ue) = (g.error_or_exact(), u.error_or_exact());
        let mut error = ErrorBound::exact(a.dim());
        error.carried = ge.carried.max(ue.carried);
        for (i, certain) in error.certain.indexed_iter_mut() {
            let gate = self.gate_error(g.value[i], ge.certain[i], ge.sigma[i]);
            let up = self.up_error(u.value[i], ue.certain[i], ue.sigma[i]);
            let product = (gate.value * up.value).abs();
            let moved = gate.moved * (up.value.abs() + up.moved) + gate.value.abs() * up.moved;
            *certain = moved + self.unit * (product + moved) + FLUSHED;
            let spread = together(gate.sigma * together(up.value, up.sigma), gate.value * up.sigma);
            error.sigma[i] = together(spread, (self.unit * product + FLUSHED) / 3.0_f64.sqrt()).min(*certain);
        }
        error.rounded(a.view(), self.output.storage)
    }

    /// Of f.
    fn gate_error(&self, g: f64, delta: f64, sigma: f64) -> Factor {
        let alpha = self.coefficients.alpha;
        let (gate, low, high) = (self.gate(g), self.gate(g - delta), self.gate(g + delta));
        let (stored, underflow) = (self.between.storage.unit_roundoff(), self.between.storage.underflow());
        let [from, to] = if alpha < 0.0 { [alpha * high, alpha * low] } else { [alpha * low, alpha * high] };
        let steepness = steepest_silu(from, to);
        let carried = steepness * (high - gate).max(gate - low);
        let value = self.activated(gate * (alpha * gate).sigmoid());

        let clamped = steepness * self.unit * gate.abs();
        let argument = from.abs().max(to.abs());
        let off = (ARGUMENT * self.unit * (1.0 + stored) + stored) * argument + underflow.max(FLUSHED);
        let nearest = (from - off).max(-(to + off)).max(0.0);
        let tail = (-nearest).sigmoid();
        let scaled = (tail * (1.0 - tail)).min(0.25) * off * low.abs().max(high.abs());
        let share = (off - from).sigmoid();
        let own = (share * EXPONENTIAL + 3.0) * self.unit + 2.0 * stored;
        let size = value.abs() + carried + scaled + clamped;
        let roundings = clamped + scaled + own * (1.0 + own) * size;
        let floor = (1.0 + low.abs().max(high.abs())) * (underflow + FLUSHED);
        let deviation = together(steepness * sigma, (roundings + floor) / 3.0_f64.sqrt());
        let moved = carried + roundings + floor;
        Factor { value, moved, sigma: deviation.min(moved) }
    }

    /// Of u′ + β.
    fn up_error(&self, u: f64, delta: f64, sigma: f64) -> Factor {
        let value = self.up(u);
        let carried = (self.up(u + delta) - self.up(u)).max(self.up(u) - self.up(u - delta));
        let storage = self.between.storage;
        // u′, or what is clamped of the sum, is no larger.
        let constants = value.abs() + 2.0 * self.coefficients.beta.abs();
        let roundings = self.unit * (constants + value.abs() + carried) * (1.0 + storage.unit_roundoff())
            + storage.rounding_error(value.abs() + carried)
            + FLUSHED;
        let moved = carried + roundings;
        Factor { value, moved, sigma: together(sigma.min(carried), roundings / 3.0_f64.sqrt()).min(moved) }
    }
}

/// A factor of the product, how far it may be off, and the standard deviation of that.
struct Factor {
    value: f64,
    moved: f64,
    sigma: f64,
}
