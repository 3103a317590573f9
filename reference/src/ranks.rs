//! What each rank of a group has of a model under tensor parallelism, as document 002 shares it out (SPEC A32).
//!
//! Query heads are padded to a multiple of R, group by group: those of a key head stay together, zeros behind them. Key
//! heads are shared where there are enough, else each is on R/G ranks. Experts are whole, E/R on a rank; the
//! vocabulary, dense networks and the shared expert are shared in equal parts.

pub mod share;
pub mod weights;

use std::ops::Range;

use crate::ContractError;
use crate::config::{Config, FeedForward, Index};
use crate::error::require;

/// R ranks, and how many heads they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranks {
    /// R.
    pub count: usize,
    /// Query heads.
    queries: usize,
    /// Query heads with those of zeros.
    padded: usize,
    /// G: key heads.
    keys: usize,
}

impl Ranks {
    /// R ranks that share a model; refused where something cannot be shared out evenly.
    pub fn of(config: &Config, count: usize) -> Result<Self, ContractError> {
        let ranks = Ranks::of_attention(config, count)?;
        let divides = |label, what: &str, size: usize| {
            let holds = size.is_multiple_of(count);
            require(holds, label, what, size, format!("a multiple of the {count} ranks that share it"))
        };
        divides("ranks C3", "num_local_experts", config.num_local_experts)?;
        divides("ranks C4", "vocab_size", config.vocab_size)?;
        let layers = 0..config.num_hidden_layers;
        if layers.clone().any(|layer| config.layer(layer).feed_forward == FeedForward::Dense) {
            divides("ranks C5", "dense_intermediate_size", config.dense_intermediate_size)?;
        }
        if layers.clone().any(|layer| config.is_shared(layer)) {
            divides("ranks C6", "shared_intermediate_size", config.shared_intermediate_size)?;
        }
        Ok(ranks)
    }

    /// R ranks that share the heads of attention, and whatever else they can share evenly.
    pub fn of_attention(config: &Config, count: usize) -> Result<Self, ContractError> {
        require(count >= 1, "ranks C1", "R", count, "at least 1")?;
        let (queries, keys) = (config.num_attention_heads, config.num_key_value_heads);
        let padded = Ranks::heads_of(config, count);
        require(padded.is_some(), "ranks C2", "R", count, format!("a divisor or a multiple of the {keys} key heads"))?;
        Ok(Ranks { count, queries, padded: padded.expect("C2"), keys })
    }

    /// How many query heads so many ranks have with those of zeros; none, if they cannot share the key heads.
    pub fn heads_of(config: &Config, count: usize) -> Option<usize> {
        let (queries, keys) = (config.num_attention_heads, config.num_key_value_heads);
        let shared = count >= 1 && (keys.is_multiple_of(count) || count.is_multiple_of(keys));
        shared.then(|| queries.next_multiple_of(count))
    }

    /// How many query heads there are with those of zeros.
    pub fn padded_heads(&self) -> usize {
        self.padded
    }

    /// On how many ranks each key head is.
    pub fn replicas(&self) -> usize {
        (self.count / self.keys).max(1)
    }

    /// The query heads of a rank; none where it has zeros.
    pub fn query_heads(&self, rank: usize) -> Vec<Option<usize>> {
        let [padded, real] = [self.padded, self.queries].map(|heads| heads / self.keys);
        let head = |place: usize| {
            let (group, slot) = (place / padded, place % padded);
            (slot < real).then_some(group * real + slot)
        };
        self.part(self.padded, rank).map(head).collect()
    }

    /// The key heads of a rank.
    pub fn key_heads(&self, rank: usize) -> Range<usize> {
        if self.count <= self.keys {
            return self.part(self.keys, rank);
        }
        let head = rank / self.replicas();
        head..head + 1
    }

    /// A rank's part of what all share evenly.
    pub fn part(&self, size: usize, rank: usize) -> Range<usize> {
        let each = size / self.count;
        rank * each..(rank + 1) * each
    }

    /// The channels of each rank's query heads, d of a head, where it has any but zeros.
    pub fn query_channels(&self, d: usize) -> Vec<Range<usize>> {
        let heads = (0..self.count).map(|rank| self.query_heads(rank).into_iter().flatten().collect::<Vec<_>>());
        heads.filter_map(|heads| Some(heads.first()? * d..(heads.last()? + 1) * d)).collect()
    }

    /// The parts of what all share evenly, in the order of ranks; the whole, if it cannot be.
    pub fn even_parts(size: usize, count: usize) -> Vec<Range<usize>> {
        let count = if size.is_multiple_of(count) { count } else { 1 };
        let each = size / count;
        (0..count).map(|rank| rank * each..(rank + 1) * each).collect()
    }

    /// What a rank's decoder is of: the model with the rank's heads and its widths of dense networks.
    pub fn config_of(&self, config: &Config, rank: usize) -> Config {
        let keys = self.key_heads(rank).len();
        let index = config.index.map(|index| Index { heads: keys, choices: keys, ..index });
        Config {
            num_attention_heads: self.query_heads(rank).len(),
            num_key_value_heads: keys,
            dense_intermediate_size: config.dense_intermediate_size / self.count,
            shared_intermediate_size: config.shared_intermediate_size / self.count,
            index,
            ..config.clone()
        }
    }
}
