//! What S0 computes with.

use crate::claims::claim::{Claim, claim};
use crate::claims::document::Document;

/// 192K, in tokens.
pub(super) const CONTEXT: f64 = 192e3;
/// 1M, in tokens.
pub(super) const MILLION: f64 = 1e6;
/// `num_mtp_modules` of `config.json`; no weights of them are released.
pub(super) const MTP_MODULES: usize = 3;

/// A claim of this document.
pub(super) fn s0(id: &'static str, place: &'static str, text: &'static str) -> Claim {
    claim(id, Document::S0, place, text)
}
