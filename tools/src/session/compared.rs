//! What is compared of a model with a candidate, before its precision is known.

use reference::Semantics;
use reference::media::Media;

use super::model::Model;
use crate::judge::candidate::Candidate;
use crate::judge::compared::Compared;

/// A candidate that was given the tokens of these forward passes, so many of them its prompt's, next to a model in one reading.
pub(super) fn compared<'a>(
    (model, semantics): (&'a Model, Semantics),
    candidate: &'a dyn Candidate,
    (steps, prompt): (&'a [Vec<u32>], usize),
    media: Option<&'a Media>,
) -> Compared<'a> {
    Compared {
        config: model.checkpoint.config(),
        weights: &model.checkpoint,
        semantics,
        candidate,
        steps,
        prompt,
        media,
        hidden: None,
    }
}
