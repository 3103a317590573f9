//! All lessons.

use super::lesson::Lesson;
use super::{attention, experts, feed_forward, indexer, loading, norms, residual, rotary, router, vision};

/// All lessons, in the catalogue's order of operators.
pub fn lessons() -> impl Iterator<Item = &'static Lesson> {
    let of_layers = [rotary::LESSONS, attention::LESSONS, indexer::LESSONS, norms::LESSONS, router::LESSONS];
    let others = [residual::LESSONS, experts::LESSONS, feed_forward::LESSONS, loading::LESSONS, vision::LESSONS];
    of_layers.into_iter().chain(others).flatten()
}
