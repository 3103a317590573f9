//! Masked scatter: puts rows of features, one after the other, in the places of the rows that are marked.
//!
//! ```text
//! yᵢ = f₍ᵣ₍ᵢ₎₎ where mᵢ, else xᵢ        r(i) = how many of m are true before i
//! ```
//!
//! - Shapes: x \[n, d\], m \[n\], f \[k, d\], y \[n, d\].
//! - Dtypes: x, f and y bf16.
//! - Rounding: R1 at f, to x's type.
//! - Errors: C1 len(m) = n; C2 columns of f = d; C3 as many of m are true as f has rows.
//! - Variants: slips of ports: m is a row early or late, the last row being before the first; f has the last image first, or the
//!   last video.
//! - Source: spec A28; `MiniMaxM3VLModel.get_placeholder_mask` in transformers 5.23. Nothing is scaled or added.

use ndarray::{Array2, ArrayView2, Axis, Zip};

use crate::bound::ErrorBound;
use crate::error::require;
use crate::grid::Grid;
use crate::semantics::FeaturePlaces;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskedScatter {
    /// R1.
    pub features: Rounding,
}

/// y of x, m and f.
pub fn masked_scatter<T: Real>(
    p: &MaskedScatter,
    x: ArrayView2<'_, T>,
    m: &[bool],
    f: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    p.check(x.dim(), m, f.dim())?;
    let f = f.mapv(|f| p.features.round(f)); // R1
    Ok(scattered(x, m, f.view()))
}

/// m as it is taken.
pub fn marked(places: FeaturePlaces, mut m: Vec<bool>) -> Vec<bool> {
    let by = usize::from(!m.is_empty());
    match places {
        FeaturePlaces::Early => m.rotate_left(by),
        FeaturePlaces::Late => m.rotate_right(by),
        FeaturePlaces::Own
        | FeaturePlaces::Reversed
        | FeaturePlaces::ReversedImages
        | FeaturePlaces::ReversedVideos => {}
    }
    m
}

/// The rows of f in the order in which they are taken, of the last grid first or not; so many patches of a grid are a row.
pub fn order(is_reversed: bool, grids: &[Grid], merged: usize) -> Vec<usize> {
    let mut first = 0;
    let mut of_grids: Vec<Vec<usize>> = Vec::new();
    for grid in grids {
        let rows = grid.patches().expect("as many as rows of pixels") / merged;
        of_grids.push((first..first + rows).collect());
        first += rows;
    }
    if is_reversed {
        of_grids.reverse();
    }
    of_grids.concat()
}

impl MaskedScatter {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        MaskedScatter { features: contract.stored() }
    }

    /// C1 to C3.
    pub fn check(&self, (n, d): (usize, usize), m: &[bool], f: (usize, usize)) -> Result<(), ContractError> {
        require(m.len() == n, "masked_scatter C1", "len(m)", m.len(), format!("n = {n}"))?;
        require(f.1 == d, "masked_scatter C2", "columns of f", f.1, format!("d = {d}"))?;
        let marked = m.iter().filter(|&&m| m).count();
        require(marked == f.0, "masked_scatter C3", "rows that are marked", marked, format!("{}, the rows of f", f.0))
    }

    /// Rows keep their errors; those of f are rounded.
    pub fn bound(&self, x: &Tracked<f64>, m: &[bool], f: &Tracked<f64>) -> ErrorBound {
        let (kept, put) = (x.error_or_exact(), f.error_or_exact().rounded(f.view(), self.features.storage));
        ErrorBound {
            certain: scattered(kept.certain.view(), m, put.certain.view()),
            sigma: scattered(kept.sigma.view(), m, put.sigma.view()),
            carried: kept.carried.max(put.carried),
        }
    }
}

fn scattered<A: Copy>(x: ArrayView2<'_, A>, m: &[bool], f: ArrayView2<'_, A>) -> Array2<A> {
    let mut y = x.to_owned();
    let mut places = y.axis_iter_mut(Axis(0)).zip(m).filter(|(_, m)| **m).map(|(row, _)| row);
    for f in f.rows() {
        let row = places.next().expect("as many are marked as there are rows");
        Zip::from(row).and(f).for_each(|y, &f| *y = f);
    }
    drop(places);
    y
}
