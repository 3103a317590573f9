//! Routing weights whose experts a candidate does not show.
//!
//! The order in which an engine lists a token's experts means nothing, and without their numbers nothing says which weight belongs
//! to which of them. By size they pair off: no other pairing brings the furthest of two rows' values nearer to one another.

use ndarray::{Array2, ArrayView1};
use reference::bound::ErrorBound;
use reference::{LayerSite, Site, Tracked};

use crate::judge::loaded::Loaded;

/// Whether a site's columns follow the order of experts that the candidate does not show.
pub(super) fn are_unknown(site: Site, loaded: &Loaded<'_>) -> bool {
    matches!(site, Site::Layer(layer, LayerSite::GateWeights) if !loaded.has(Site::Layer(layer, LayerSite::GateExperts)))
}

/// A value whose rows are in the order in which another's are, by size.
pub(super) fn in_order_of(other: &Array2<f64>, value: Tracked<f64>) -> Tracked<f64> {
    let from = sources(other, &value.value);
    let moved = |values: &Array2<f64>| Array2::from_shape_fn(values.dim(), |at| values[[at.0, from[at]]]);
    let error = value.error.map(|error| ErrorBound {
        certain: moved(&error.certain),
        sigma: moved(&error.sigma),
        carried: error.carried,
    });
    Tracked { value: moved(&value.value), error }
}

/// For each place of `other`, the column of `values` in its row that has the same rank there.
fn sources(other: &Array2<f64>, values: &Array2<f64>) -> Array2<usize> {
    let mut from = Array2::zeros(other.dim());
    for ((mut from, other), values) in from.rows_mut().into_iter().zip(other.rows()).zip(values.rows()) {
        ranked(other).into_iter().zip(ranked(values)).for_each(|(to, column)| from[to] = column);
    }
    from
}

/// Columns by the size of their values.
fn ranked(row: ArrayView1<'_, f64>) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..row.len()).collect();
    columns.sort_by(|&a, &b| row[a].total_cmp(&row[b]));
    columns
}
