//! Every number in the documents that follows from hyperparameters (spec E), with what it is recomputed from.
//!
//! What is stated is a quotation. What is recomputed is computed from the configurations that the models are released with
//! (spec B); where a claim has a premise of its own, such as 192K for 192 000 tokens, it is judged under that, and the note
//! says what is otherwise.

mod others;
mod s0;
mod s1;

use super::claim::Claim;
use super::hyperparameters::Releases;

/// All claims, in the specification's order.
pub fn ledger(releases: &Releases) -> Vec<Claim> {
    [s0::claims(releases), s1::claims(releases), others::claims(releases)].concat()
}
