//! A prompt that reaches what a short one leaves out: every expert, more blocks of keys than are chosen, long positions.
//!
//! Reading order: [`need`], how long it has to be, and why; [`reach`], which experts tokens were sent to; `search`, the tokens.

pub mod need;
pub mod reach;
mod search;

use std::ops::Range;

use reference::config::{Config, FeedForward};
use reference::models::decoder::Decoder;
use reference::{LayerSite, Semantics};

use self::need::{Length, blocks_seen};
use self::reach::{Reach, Short};
use self::search::Search;
use super::model::Model;
use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::significance::rows_needed_among;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// How many tokens; as many as the model needs, if not given.
    pub length: Option<usize>,
    /// The tokens that it begins with, as `--tokens` has them.
    pub start: Option<String>,
    /// Of the draws.
    pub seed: u64,
    /// The layers whose experts are to be reached.
    pub layers: Selection,
}

/// A prompt, and what it reaches.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The tokens.
    pub tokens: Vec<u32>,
    /// How long it has to be.
    pub length: Length,
    /// Experts of the layers that were looked at.
    pub experts: usize,
    /// Tokens that each of them needs.
    pub needed: usize,
    /// Those that fewer tokens chose.
    pub short: Vec<Short>,
    /// Blocks of keys that the last token sees, and how many it chooses, where layers are block-sparse.
    pub blocks: Option<(usize, usize)>,
}

/// Looks for a prompt; `semantics` is how the model is read.
pub fn propose(model: &Model, semantics: Semantics, wish: &Wish, watch: &mut Watcher<'_>) -> Result<Proposal, Failure> {
    let config = &model.checkpoint.config().under(&semantics);
    let start = match &wish.start {
        Some(text) => Prompt::parse(text)?.tokens,
        None => Vec::new(),
    };
    let layers = wish.layers.layers(config.num_hidden_layers);
    if layers.is_empty() {
        let problem = format!("{}: the model has {} layers", wish.layers, config.num_hidden_layers);
        return Err(Failure::new(problem).help("layers count from 0"));
    }
    let needed = rows_needed_among(tests(config, &layers));
    let length = Length::of(config, needed, wish.length)?;
    if start.len() > length.tokens {
        let problem = format!("--tokens has {} tokens, and the prompt is to have {}", start.len(), length.tokens);
        return Err(Failure::new(problem).help("give a larger --length, or fewer tokens to begin with"));
    }
    Prompt { tokens: start.clone(), decoded: Vec::new() }.check(config, 0)?;
    let decoder = Decoder::new(model.checkpoint.config(), semantics, &model.checkpoint)?;
    let with_experts = layers.filter(|layer| config.layer(*layer).feed_forward == FeedForward::Experts).collect();
    let reach = Reach::new(with_experts, config.num_local_experts, needed);
    let mut search = Search::new(&decoder, reach, wish.seed)?;
    watch(Progress::Begins { what: "looking for tokens", steps: Search::steps(start.len(), length.tokens) });
    let tokens = search.run(start, length.tokens, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(Proposal {
        blocks: config.index.map(|index| blocks_seen(&index.blocks, tokens.len())),
        tokens,
        length,
        experts: search.reach().experts(),
        needed,
        short: search.reach().short(&decoder)?,
    })
}

/// How many structures are looked for in a whole dump of these layers, at most.
fn tests(config: &Config, layers: &Range<usize>) -> usize {
    let groups = 1 + config.num_local_experts + config.num_attention_heads;
    2 * groups * LayerSite::ALL.len() * layers.len()
}
