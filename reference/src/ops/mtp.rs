//! MTP input: what a module of multi-token prediction makes its residual stream from.
//!
//! ```text
//! uᵢ = Wₕ·hᵢ + eᵢ        or  uᵢ = Wₑₕ·[norm(eᵢ; wₑ); norm(hᵢ; wₕ)],  e₀ = 0
//! ```
//!
//! - Shapes: e and h \[n, H\]; \[e; h\] \[n, 2·H\]; Wₕ \[H, H\], Wₑₕ \[H, 2·H\]; u \[n, H\]. Row i has the embedding of a later token
//!   than the one of which h is the hidden state.
//! - Dtypes: the activations'.
//! - Rounding: none here; norms, projection and sum round as they do elsewhere.
//! - Errors: C1 the shapes of e and h are equal.
//! - Variants: D17 the sum, or the projection of both side by side; e₀ kept; slips of ports: h first.
//! - Source: spec A18, A19; document 000 CH6.2; `MiniMaxM3MTP` in vLLM 0.33, `MtpLayer` in transformers 5.23.

use crate::error::require;
use crate::semantics::{MtpConcat, MtpFirstEmbedding};
use crate::tracked::Tracked;
use crate::{ContractError, Real};

/// e, whose row of position 0 is among those from position `first` on.
pub fn embedded<T: Real>(at_0: MtpFirstEmbedding, mut e: Tracked<T>, first: usize) -> Tracked<T> {
    if at_0 == MtpFirstEmbedding::Zeroed && first == 0 && e.dim().0 > 0 {
        e.clear(0);
    }
    e
}

/// \[e; h\], of both as they are normed.
pub fn concatenated<T: Real>(order: MtpConcat, e: &Tracked<T>, h: &Tracked<T>) -> Result<Tracked<T>, ContractError> {
    check(e.dim(), h.dim())?;
    Ok(match order {
        MtpConcat::EmbeddingFirst => e.beside(h),
        MtpConcat::HiddenFirst => h.beside(e),
    })
}

/// C1.
pub fn check(e: (usize, usize), h: (usize, usize)) -> Result<(), ContractError> {
    require(e == h, "mtp C1", "shape of h", format!("{h:?}"), format!("{e:?}"))
}
