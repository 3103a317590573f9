//! How long a prompt has to be.

use reference::config::{Blocks, Config, FeedForward};

use crate::failure::Failure;

/// Tokens of a proposal, at most, unless more are asked for: a dump of them has to be made, too.
pub const MOST: usize = 4096;

/// How many times as many choices as experts need are made: no search evens them out.
const SPARE: f64 = 1.5;

/// Positions that bf16 does not tell apart begin here; a few beyond show it.
const POSITIONS: usize = 256 + 16;

/// Blocks of keys beyond those that a token chooses.
const MORE_BLOCKS: usize = 2;

/// The length of a prompt, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Length {
    /// The length.
    pub tokens: usize,
    /// What asks for how many.
    pub asked: Vec<(usize, &'static str)>,
    /// What keeps it below the largest of these.
    pub limited_by: Option<String>,
}

impl Length {
    /// As it is given, or as a model needs it whose experts are each to be chosen by so many tokens.
    pub fn of(config: &Config, tokens_of_expert: usize, given: Option<usize>) -> Result<Self, Failure> {
        let limit = config.max_position_embeddings;
        if given.is_some_and(|given| given == 0 || given > limit) {
            let problem = format!("--length {}: expected 1 to {limit}", given.unwrap_or_default());
            return Err(Failure::new(problem).help("the model has no more max_position_embeddings"));
        }
        let mut asked = vec![(POSITIONS, "positions that bf16 does not tell apart")];
        if (0..config.num_hidden_layers).any(|layer| config.layer(layer).feed_forward == FeedForward::Experts) {
            let of_each = config.num_local_experts as f64 / config.num_experts_per_tok as f64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let tokens = (SPARE * tokens_of_expert as f64 * of_each).ceil() as usize;
            asked.push((tokens, "each expert to be chosen often enough"));
        }
        if let Some(index) = config.index {
            let Blocks { size, top_k, .. } = index.blocks;
            asked.push(((top_k + MORE_BLOCKS) * size + size.div_ceil(2), "more blocks of keys than are chosen"));
        }
        let mut most = asked.iter().map(|(tokens, _)| *tokens).max().unwrap_or(1);
        // A last block that is not full.
        if let Some(index) = config.index.filter(|index| most.is_multiple_of(index.blocks.size)) {
            most += index.blocks.size.div_ceil(2);
        }
        let (tokens, by) = match given {
            Some(given) => (given, "--length".to_owned()),
            None if limit < MOST => (most.min(limit), format!("max_position_embeddings = {limit}")),
            None => (most.min(MOST), format!("the default's limit of {MOST}, beyond which --length goes")),
        };
        Ok(Length { tokens, asked, limited_by: (tokens < most).then_some(by) })
    }
}

/// Blocks that the last of so many tokens sees, and how many it chooses.
pub(super) fn blocks_seen(blocks: &Blocks, tokens: usize) -> (usize, usize) {
    (tokens.div_ceil(blocks.size), blocks.top_k)
}
