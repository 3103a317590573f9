//! A token's experts.

use ndarray::Array1;

/// The weights of all experts in a token's sum.
pub(super) struct Row {
    pub(super) token: usize,
    /// As the router has them; 0 where it did not choose.
    pub(super) right: Array1<f64>,
    /// As values have them.
    pub(super) used: Array1<f64>,
    /// Below which a weight is none.
    pub(super) none: f64,
}
