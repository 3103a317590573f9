//! Embedding: the row of a table that a token names.
//!
//! ```text
//! yᵢⱼ = E[tᵢ, j]
//! ```
//!
//! - Shapes: t \[n\], E \[v, d\], y \[n, d\].
//! - Dtypes: E as stored; y bf16.
//! - Rounding: R1 at y, to the activations' type.
//! - Errors: C1 n ≥ 1; C2 tᵢ < v.
//! - Source: spec A1; `MiniMaxM2Model.embed_tokens` in transformers 5.23. Nothing is scaled, no position is added.

use ndarray::Array2;

use crate::bound::ErrorBound;
use crate::error::require;
use crate::matrix::Matrix;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Embedding {
    /// R1.
    pub output: Rounding,
}

/// y of t and E.
pub fn embedding<T: Real>(p: &Embedding, t: &[u32], table: &Matrix<'_>) -> Result<Array2<T>, ContractError> {
    p.check(t, table.dim().0)?;
    let mut y = Array2::zeros((t.len(), table.dim().1));
    for (&token, mut row) in t.iter().zip(y.rows_mut()) {
        table.row_into(token as usize, row.as_slice_mut().expect("rows of a new array are contiguous"));
        row.mapv_inplace(|x| p.output.round(x)); // R1
    }
    Ok(y)
}

impl Embedding {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        Embedding { output: contract.stored() }
    }

    /// C1 and C2.
    pub fn check(&self, t: &[u32], v: usize) -> Result<(), ContractError> {
        require(!t.is_empty(), "embedding C1", "number of tokens", t.len(), "at least 1")?;
        match t.iter().position(|&token| token as usize >= v) {
            None => Ok(()),
            Some(i) => require(false, "embedding C2", &format!("token {i}"), t[i], format!("below v = {v}")),
        }
    }

    /// A row is copied: nothing but R1.
    pub fn bound(&self, y: &Array2<f64>) -> ErrorBound {
        ErrorBound::exact(y.dim()).rounded(y.view(), self.output.storage)
    }
}
