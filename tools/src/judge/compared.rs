//! What is compared: a candidate with a model, on one request.

use ndarray::Array2;
use reference::Semantics;
use reference::config::Config;
use reference::media::Media;
use reference::weights::Weights;

use super::candidate::Candidate;

/// A candidate, and the model and the request that it is compared on, before its precision is known.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    /// The model's configuration.
    pub config: &'a Config,
    /// Its weights, as they are stored.
    pub weights: &'a dyn Weights,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// The candidate.
    pub candidate: &'a dyn Candidate,
    /// The tokens of each forward pass.
    pub steps: &'a [Vec<u32>],
    /// Tokens of the prompt. What follows them in the first pass was decoded, and is no place of an image.
    pub prompt: usize,
    /// The images and videos of the prompt.
    pub media: Option<&'a Media>,
    /// Of a module of multi-token prediction, the hidden states that it read beside the tokens, a row each.
    pub hidden: Option<&'a Array2<f64>>,
}
