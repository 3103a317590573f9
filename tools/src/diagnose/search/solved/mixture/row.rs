//! A token's experts.

use std::collections::BTreeSet;

use ndarray::Array1;

/// The weights of all experts in a token's sum.
pub(super) struct Row {
    pub(super) token: usize,
    /// As the router has them; 0 where it did not choose.
    pub(super) right: Array1<f64>,
    /// As values have them, those that are the right ones but for rounding as these.
    pub(super) used: Array1<f64>,
    /// The same of all experts that the router chose, whatever rounding leaves.
    pub(super) exact: Array1<f64>,
    /// Below which a weight is none.
    pub(super) none: f64,
    /// How far one that is used may be off, as a share.
    pub(super) same: f64,
}

impl Row {
    /// The experts whose weight counts.
    pub(super) fn counting(&self) -> BTreeSet<usize> {
        counting(&self.used, self.none)
    }

    /// The same of those that should.
    pub(super) fn chosen(&self) -> BTreeSet<usize> {
        counting(&self.right, self.none)
    }
}

fn counting(weights: &Array1<f64>, none: f64) -> BTreeSet<usize> {
    weights.indexed_iter().filter(|(_, weight)| weight.abs() > none).map(|(expert, _)| expert).collect()
}
