//! All known mistakes.

use super::mistake::Mistake;
use super::{attention, experts, feed_forward, indexer, loading, norms, residual, rotary, router, vision};

/// Every mistake.
pub fn all() -> impl Iterator<Item = &'static Mistake> {
    let of_layers = [rotary::MISTAKES, attention::MISTAKES, indexer::MISTAKES, norms::MISTAKES, router::MISTAKES];
    let others = [residual::MISTAKES, experts::MISTAKES, feed_forward::MISTAKES, loading::MISTAKES, vision::MISTAKES];
    of_layers.into_iter().chain(others).flatten()
}
