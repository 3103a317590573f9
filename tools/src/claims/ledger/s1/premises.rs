//! What S1 computes with.

use crate::claims::claim::{Claim, claim};
use crate::claims::document::Document;

/// A layer of a dense network, with full attention.
pub(super) const DENSE: usize = 0;
/// A layer of experts, with block-sparse attention.
pub(super) const SPARSE: usize = 3;
/// 1M tokens, as CH3.6 computes with it; elsewhere it is 1,048,576.
pub(super) const MILLION: f64 = 1e6;

/// A claim of this document.
pub(super) fn s1(id: &'static str, place: &'static str, text: &'static str) -> Claim {
    claim(id, Document::S1, place, text)
}
