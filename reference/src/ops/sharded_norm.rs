//! Sharded norm: RMSNorm of a row that ranks have parts of, by the sum of squares of all of them.
//!
//! ```text
//! y(r)ᵢⱼ = mⱼ · ρ(x(r)ᵢⱼ · sᵢ)        sᵢ = 1 / √(ε + (1/D)·Σᵣ Σₖ x(r)ᵢₖ²)
//! ```
//!
//! - Shapes: x(r) \[n, c\], w(r) \[c\], y(r) \[n, c\], r < R; mⱼ of w(r)ⱼ as `rms_norm` has it.
//! - Dtypes: x(r), w(r) and y(r) bf16; each rank's sum, the sum of these and s f32.
//! - Rounding: R1 and R2 of `rms_norm`.
//! - Errors: C1 R ≥ 1; C2 the shapes of all x(r) are equal; C3 len(w(r)) = c; C4 D ≥ 1; and `rms_norm`'s, of each part.
//! - Bound: that of `rms_norm` over the whole row of d channels, whose sum may be in any order, where c + R − 1 ≤ d. D is
//!   how many channels are counted: heads of zeros are not, and a head that is on several ranks is once for each, so
//!   that the sum over D is the mean square of the row.
//! - Variants: those of `rms_norm`, but for what the sum is divided by, which is D.
//! - Source: spec A32; document 002, sections 2.2 and 4; `MiniMaxText01RMSNormTP` in vLLM 0.33.

use ndarray::{Array2, ArrayView1};

use super::rms_norm::RmsNorm;
use crate::error::require;
use crate::{ContractError, Real};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShardedNorm {
    /// Of the norm.
    pub norm: RmsNorm,
    /// D.
    pub divisor: usize,
}

/// All y(r) of all x(r) and w(r).
pub fn sharded_norm<T: Real>(
    p: &ShardedNorm,
    parts: &[Array2<T>],
    weights: &[ArrayView1<'_, T>],
) -> Result<Vec<Array2<T>>, ContractError> {
    p.check(&parts.iter().map(Array2::dim).collect::<Vec<_>>(), weights)?;
    let scale = |row: usize| {
        let sum = parts.iter().fold(T::zero(), |sum, part| sum + p.norm.squares(part.row(row)));
        p.norm.scale_of(sum, p.divisor as f64)
    };
    let scales: Vec<T> = (0..parts[0].nrows()).map(scale).collect();
    let normed = |(x, w): (&Array2<T>, &ArrayView1<'_, T>)| {
        Array2::from_shape_fn(x.dim(), |(i, j)| {
            let normalized = p.norm.normalized.round(x[[i, j]] * scales[i]); // R1
            p.norm.output.round(p.norm.factor(w[j]) * normalized) // R2
        })
    };
    Ok(parts.iter().zip(weights).map(normed).collect())
}

impl ShardedNorm {
    /// C1 to C4.
    pub fn check<T>(&self, parts: &[(usize, usize)], weights: &[ArrayView1<'_, T>]) -> Result<(), ContractError> {
        require(!parts.is_empty(), "sharded_norm C1", "R", 0, "at least 1")?;
        let other = parts.iter().find(|part| **part != parts[0]).unwrap_or(&parts[0]);
        require(
            *other == parts[0],
            "sharded_norm C2",
            "shape of a part",
            format!("{other:?}"),
            format!("{:?}", parts[0]),
        )?;
        let widths: Vec<usize> = weights.iter().map(ArrayView1::len).collect();
        let fit = widths.len() == parts.len() && widths.iter().all(|width| *width == parts[0].1);
        require(
            fit,
            "sharded_norm C3",
            "len(w(r))",
            format!("{widths:?}"),
            format!("c = {} for each rank", parts[0].1),
        )?;
        require(self.divisor >= 1, "sharded_norm C4", "D", self.divisor, "at least 1")?;
        self.norm.check(parts[0], parts[0].1)
    }
}
