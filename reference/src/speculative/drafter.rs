//! What makes drafts for speculative decoding.

use rand_chacha::ChaCha8Rng;

use crate::ops::sampling::Sampling;

/// A token that may come next.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The token.
    pub token: u32,
    /// Q \[v\]: the probabilities that it was drawn by; `None` where it was not drawn, and counts as certain.
    pub probabilities: Option<Vec<f64>>,
}

/// What the model has computed since drafts were last asked for.
pub struct Verified<'a, P> {
    /// The prompt and all that was chosen. The last token is yet to be read by the model.
    pub text: &'a [u32],
    /// The first token of the text that the pass is over.
    pub first: usize,
    /// A row for each token from there to the last but one.
    pub pass: &'a P,
}

/// Makes drafts of a model whose passes are P.
pub trait Drafter<P, E = crate::Error> {
    /// Up to `most` tokens that may follow the text, chosen as `sampling` says. It is asked once after the prompt and once after
    /// each verification.
    fn draft(
        &mut self,
        verified: &Verified<'_, P>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, E>;
}
