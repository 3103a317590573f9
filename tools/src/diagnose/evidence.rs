//! What is known of a candidate whose mistake is looked for.

use reference::config::Config;
use reference::media::Media;
use reference::weights::Weights;
use reference::{RoundingContract, Semantics};

use crate::judge::candidate::Candidate;

/// What is known of a candidate.
pub struct Evidence<'a> {
    /// The model's configuration.
    pub config: &'a Config,
    /// Its weights.
    pub weights: &'a dyn Weights,
    /// The candidate.
    pub candidate: &'a dyn Candidate,
    /// How it rounds.
    pub contract: RoundingContract,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// The tokens of each forward pass.
    pub steps: &'a [Vec<u32>],
    /// The images and videos of the prompt.
    pub media: Option<&'a Media>,
}
