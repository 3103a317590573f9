//! SwiGLU: the gate's SiLU times the up projection.
//!
//! ```text
//! aᵢⱼ = ρ(gᵢⱼ / (1 + e^(−gᵢⱼ))) · uᵢⱼ
//! ```
//!
//! - Shapes: g, u and a \[n, d\].
//! - Dtypes: g, u and a bf16; the SiLU f32.
//! - Rounding: R1 at ρ, where a precision stores every step; where SiLU's sigmoid is one of its own, ρ(gᵢⱼ · ρ(1 / (1 + e^(−gᵢⱼ))))
//!   in its place; R2 at a.
//! - Errors: C1 the shapes of g and u are equal.
//! - Variants: D31 without u. Slips of ports: any kind of `gelu`, or max(g, 0), in SiLU's place.
//! - Source: spec A11; `MiniMaxM2Experts.forward` in transformers 5.23.

mod function;

use ndarray::{Array2, ArrayView2, Zip};

pub use self::function::GateFunction;
use self::function::Off;
use crate::bound::{ErrorBound, together};
use crate::error::require;
use crate::semantics::Expert;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract, Storage};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swiglu {
    /// D31.
    pub expert: Expert,
    /// Of g.
    pub function: GateFunction,
    /// R1 of SiLU's sigmoid.
    pub sigmoid: Rounding,
    /// R1.
    pub activated: Rounding,
    /// R2.
    pub output: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// a of g and u.
pub fn swiglu<T: Real>(p: &Swiglu, g: ArrayView2<'_, T>, u: ArrayView2<'_, T>) -> Result<Array2<T>, ContractError> {
    require(g.dim() == u.dim(), "swiglu C1", "shape of u", format!("{:?}", u.dim()), format!("{:?}", g.dim()))?;
    let mut a = Array2::zeros(g.dim());
    Zip::from(&mut a).and(&g).and(&u).for_each(|a, &g, &u| {
        let activated = p.activated.round(p.of_gate(g)); // R1
        *a = p.output.round(match p.expert {
            Expert::Gated => activated * u,
            Expert::Nongated => activated,
        }); // R2
    });
    Ok(a)
}

impl Swiglu {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, expert: Expert) -> Self {
        let (sigmoid, activated, output) = (contract.within_silu(), contract.within_activation(), contract.stored());
        Swiglu { expert, function: GateFunction::Silu, sigmoid, activated, output, unit: contract.unit() }
    }

    /// Whether the gate is multiplied by a sigmoid that is stored.
    fn stores_sigmoid(&self) -> bool {
        self.function == GateFunction::Silu && self.sigmoid.storage != Storage::Real
    }

    /// What is made of the gate, before it is stored.
    fn of_gate<T: Real>(&self, g: T) -> T {
        if self.stores_sigmoid() { g * self.sigmoid.round(g.sigmoid()) } else { self.function.of_gate(g) }
    }

    /// The gate's function, R1, and the product with u; then R2. A sigmoid that is stored is rounded, and so is its product with the
    /// gate: by R1 and u more.
    pub fn bound(&self, g: &Tracked<f64>, u: &Tracked<f64>, a: &Array2<f64>) -> ErrorBound {
        let (ge, ue) = (g.error_or_exact(), u.error_or_exact());
        let up = |i: (usize, usize)| match self.expert {
            Expert::Gated => (u.value[i], ue.certain[i], ue.sigma[i]),
            Expert::Nongated => (1.0, 0.0, 0.0),
        };
        let mut error = ErrorBound::exact(a.dim());
        error.carried = ge.carried.max(ue.carried);
        let u1 = self.activated.storage.unit_roundoff();
        let (of_sigmoid, lost) = if self.stores_sigmoid() {
            (self.sigmoid.storage.unit_roundoff() + self.unit, FLUSHED + self.sigmoid.storage.underflow())
        } else {
            (0.0, FLUSHED)
        };
        for (i, certain) in error.certain.indexed_iter_mut() {
            let (gate, delta) = (g.value[i], ge.certain[i]);
            let (up, up_delta, up_sigma) = up(i);
            let activated = self.function.of_gate(gate);
            let Off { steepest, relative, absolute } = self.function.off(gate, delta, self.unit);
            let size = up.abs() + up_delta;
            let carried = (steepest * delta + absolute) * size + activated.abs() * up_delta;
            let own = relative + of_sigmoid + u1;
            let floor = size * (self.activated.storage.underflow() + (1.0 + gate.abs() + delta) * lost);
            *certain = carried + own * (1.0 + own) * ((activated * up).abs() + carried) + floor;
            let spread = together(steepest * ge.sigma[i] * together(up, up_sigma), activated * up_sigma);
            let roundings = own * (activated * up).abs() + absolute * size + floor;
            error.sigma[i] = together(spread, roundings / 3.0_f64.sqrt()).min(*certain);
        }
        match self.expert {
            // R2 finds what R1 has left.
            Expert::Nongated if self.activated.storage == self.output.storage => error,
            _ => error.rounded(a.view(), self.output.storage),
        }
    }
}
