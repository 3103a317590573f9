//! Patch merge: the rows of the patches in a square, side by side in one row.
//!
//! ```text
//! yᵢ = [x₍ₛᵢ₎, x₍ₛᵢ₊₁₎, …, x₍ₛᵢ₊ₛ₋₁₎]        s = r²
//! ```
//!
//! - Shapes: x \[n, d\], y \[n/s, s·d\]; a square has r patches to a side, and patches come square by square.
//! - Dtypes: x and y alike.
//! - Rounding: none.
//! - Errors: C1 n = Σ t·h·w of the grids; C2 h and w multiples of r.
//! - Variants: slips of ports: the rows are those of the square if patches came row by row; a square comes column by column, or
//!   with its rows, its columns or both in reverse.
//! - Source: spec A24; `MiniMaxM3VLMultiModalProjector.forward` in transformers 5.23.

use ndarray::{Array2, ArrayView2, Axis};

use crate::bound::ErrorBound;
use crate::grid::{Grid, require_patches};
use crate::semantics::MergeOrder;
use crate::{ContractError, Real};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchMerge {
    /// r.
    pub side: usize,
    /// Where the patches of a square are taken from.
    pub order: MergeOrder,
}

/// y of x, whose rows are the patches of the grids.
pub fn patch_merge<T: Real>(p: &PatchMerge, x: ArrayView2<'_, T>, grids: &[Grid]) -> Result<Array2<T>, ContractError> {
    p.check(x.nrows(), grids)?;
    Ok(p.merged(x, grids))
}

impl PatchMerge {
    /// C1 and C2.
    pub fn check(&self, n: usize, grids: &[Grid]) -> Result<(), ContractError> {
        require_patches(n, grids, "patch_merge C1", "rows of x")?;
        grids.iter().try_for_each(|grid| grid.require_squares(self.side, "patch_merge C2"))
    }

    /// For each place of y, the row of x.
    fn rows(&self, grids: &[Grid]) -> Vec<usize> {
        let (side, mut first) = (self.side, 0);
        let of = |grid: &Grid| {
            let before = first;
            first += grid.patches().expect("as many as rows of x");
            let Grid { h, w, .. } = *grid;
            let (order, square) = (self.order, side * side);
            grid.coordinates(side).enumerate().map(move |(i, [t, y, x])| {
                let in_square = place(order, i % square, side).map(|place| i / square * square + place);
                before + in_square.unwrap_or((t * h + y) * w + x)
            })
        };
        grids.iter().flat_map(of).collect()
    }

    fn merged<A: Clone>(&self, x: ArrayView2<'_, A>, grids: &[Grid]) -> Array2<A> {
        let (n, d) = x.dim();
        let square = self.side * self.side;
        let rows = x.select(Axis(0), &self.rows(grids));
        rows.into_shape_with_order((n / square, square * d)).expect("squares divide the patches of each grid")
    }

    /// Rows are moved, and their errors with them.
    pub fn bound(&self, error: &ErrorBound, grids: &[Grid]) -> ErrorBound {
        ErrorBound {
            certain: self.merged(error.certain.view(), grids),
            sigma: self.merged(error.sigma.view(), grids),
            carried: error.carried,
        }
    }
}

/// Which patch of a square stands in a place of it; `None` where squares are not kept together.
fn place(order: MergeOrder, i: usize, side: usize) -> Option<usize> {
    let (row, column, last) = (i / side, i % side, side - 1);
    Some(match order {
        MergeOrder::RowMajor => return None,
        MergeOrder::Block => i,
        MergeOrder::ColumnMajor => column * side + row,
        MergeOrder::RowsReversed => (last - row) * side + column,
        MergeOrder::ColumnsReversed => row * side + last - column,
        MergeOrder::Reversed => last * side + last - i,
    })
}
