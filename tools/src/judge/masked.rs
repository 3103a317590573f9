//! What is −∞: scores of keys that come after a query's, which engines mask by adding a large negative number, or by putting one in their
//! place, and log-probabilities that are not shown.

use ndarray::Array2;
use reference::site::Extent;
use reference::{LayerSite, Site};

/// How far below a row's largest a score is whose exponential is 0 in f32: half of the least that there is is e^(−103.97).
const NOTHING: f64 = 104.0;

/// The scores with −∞ for those of later keys that weigh nothing, whatever number stands for them.
pub(super) fn with_mask(site: Site, mut scores: Array2<f64>, extent: Extent) -> Array2<f64> {
    let is_of_keys = matches!(site, Site::Layer(_, LayerSite::Scores | LayerSite::TokenScores));
    if !is_of_keys || extent.tokens == 0 || scores.ncols() != extent.positions {
        return scores;
    }
    let first = extent.positions - extent.tokens;
    for (i, mut row) in scores.rows_mut().into_iter().enumerate() {
        let position = first + i % extent.tokens;
        let largest = row.iter().take(position + 1).copied().fold(f64::NEG_INFINITY, f64::max);
        let later = row.iter_mut().skip(position + 1).filter(|score| **score < largest - NOTHING);
        later.for_each(|score| *score = f64::NEG_INFINITY);
    }
    scores
}

/// Whether both are −∞ at a site where that is no value: of logits, what a candidate does not show. Elsewhere an engine masks, rightly
/// or wrongly, and what it masks is a value that is right or wrong.
pub(super) fn are_unshown(site: Site, one: f64, other: f64) -> bool {
    has_logits(site) && are_masked(one, other)
}

/// Whether a site's values are logits, or what is made of them.
pub(super) fn has_logits(site: Site) -> bool {
    matches!(site, Site::LmHead | Site::Logits)
}

/// Whether both are −∞, which has no size that others could be measured by.
pub(super) fn are_masked(one: f64, other: f64) -> bool {
    one == f64::NEG_INFINITY && other == f64::NEG_INFINITY
}
