//! Floating-point operations, two for each multiply-add. Norms, activations and the softmax are left out: they are
//! less than a hundredth of the products.
//!
//! T: keys that a token sees, itself among them. K·b: keys of the blocks that are chosen.

use reference::config::{Attention, FeedForward};
use reference::weights::{LayerWeight, Weight};
use serde::Serialize;
use strum::{Display, EnumIter, IntoEnumIterator};

use super::hyperparameters::Hyperparameters;
use super::parameters::{Part, is_projection};

/// A multiply-add is two operations.
pub const PER_PRODUCT: f64 = 2.0;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display, EnumIter)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Projections to queries, keys and values, and from the heads back.
    #[strum(to_string = "attention's projections")]
    Projections,
    /// q·k and p·v of layers that attend to all keys.
    #[strum(to_string = "attention to all keys")]
    FullAttention,
    /// q·k and p·v of layers that attend to chosen blocks.
    #[strum(to_string = "attention to chosen blocks")]
    SparseAttention,
    /// The index branch's projections.
    #[strum(to_string = "index projections")]
    IndexProjections,
    /// The index branch's q·k.
    #[strum(to_string = "index scores")]
    IndexScores,
    /// Routers.
    #[strum(to_string = "routers")]
    Routers,
    /// The k experts of a token.
    #[strum(to_string = "routed experts")]
    RoutedExperts,
    /// The expert that all tokens share.
    #[strum(to_string = "shared experts")]
    SharedExperts,
    /// Networks of dense layers.
    #[strum(to_string = "dense layers")]
    Dense,
    /// LM head.
    #[strum(to_string = "LM head")]
    LmHead,
}

impl Work {
    /// All of it.
    pub fn all() -> impl Iterator<Item = Work> {
        Work::iter()
    }
}

/// Keys of a prompt's T tokens on average: Σₜ t and Σₜ min(t, few) over t = 1, …, T, by T.
pub fn average_keys(tokens: f64, few: f64) -> [f64; 2] {
    let triangle = |n: f64| n * (n + 1.0) / 2.0;
    [triangle(tokens), triangle(few) + (tokens - few) * few].map(|keys| keys / tokens)
}

/// The multiply-adds of T queries and T keys in one head of softmax attention: q·k and p·v, 2·T²·d.
pub fn softmax_attention(tokens: f64, head_dim: f64) -> f64 {
    2.0 * tokens * tokens * head_dim
}

/// Those of linear attention: kᵀ·v and q·(kᵀ·v), 2·T·d².
pub fn linear_attention(tokens: f64, head_dim: f64) -> f64 {
    2.0 * tokens * head_dim * head_dim
}

impl Hyperparameters {
    /// q·k of one query with so many keys, over all query heads of a layer: `2·n_q·d·T`. As much again is p·v.
    pub fn scores(&self, keys: f64) -> f64 {
        PER_PRODUCT * self.config.query_width() as f64 * keys
    }

    /// q·k and p·v of one query of a layer: `4·n_q·d·T`.
    pub fn core(&self, keys: f64) -> f64 {
        2.0 * self.scores(keys)
    }

    /// The index branch's q·k of one query of a layer: `2·n_i·d_i·T`; 0 without such a branch.
    pub fn index_scores(&self, keys: f64) -> f64 {
        let width = self.config.index.map_or(0, |index| index.heads * index.head_dim);
        PER_PRODUCT * width as f64 * keys
    }

    /// Index scores and attention of one query of a block-sparse layer: `2·n_i·d_i·T + 4·n_q·d·min(T, K·b)`.
    pub fn sparse_core(&self, keys: f64) -> f64 {
        self.index_scores(keys) + self.core(self.attended(keys))
    }

    /// min(T, K·b): keys that a token of a block-sparse layer attends to. Its own block, which is always chosen, is not
    /// full, so it may be up to b − 1 fewer.
    fn attended(&self, keys: f64) -> f64 {
        self.chosen_keys().map_or(keys, |chosen| keys.min(chosen as f64))
    }

    /// Projections of attention in a layer, for a token.
    pub fn projection(&self, layer: usize) -> f64 {
        PER_PRODUCT * self.projections(layer) as f64
    }

    /// The router of a layer, for a token: 2·E·H.
    pub fn router(&self) -> f64 {
        PER_PRODUCT * (self.config.num_local_experts * self.config.hidden_size) as f64
    }

    /// Router, the k routed experts and the shared expert of a layer, for a token.
    pub fn experts(&self, layer: usize) -> f64 {
        let shared = self.in_layer(layer, |weight| matches!(weight, LayerWeight::Shared(_)));
        let routed = self.config.num_experts_per_tok * self.expert(layer);
        self.router() + PER_PRODUCT * (routed + shared) as f64
    }

    /// All work of one token in a layer, which sees so many keys and, in a block-sparse one, attends to so many.
    pub fn layer_work(&self, layer: usize, [seen, attended]: [f64; 2]) -> f64 {
        let products = |is_chosen: fn(LayerWeight) -> bool| PER_PRODUCT * self.in_layer(layer, is_chosen) as f64;
        let index = |weight| matches!(weight, LayerWeight::IndexQProj | LayerWeight::IndexKProj);
        let attention = match self.config.layer(layer).attention {
            Attention::Full => self.core(seen),
            Attention::BlockSparse => self.index_scores(seen) + self.core(attended),
        };
        let network = match self.config.layer(layer).feed_forward {
            FeedForward::Experts => self.experts(layer),
            FeedForward::Dense => products(|weight| matches!(weight, LayerWeight::Dense(_))),
        };
        self.projection(layer) + products(index) + attention + network
    }

    /// One kind of work of one token that sees so many keys, in all layers; with the head.
    pub fn decode(&self, work: Work, keys: f64) -> f64 {
        self.work(work, keys, self.attended(keys))
    }

    /// All work of one token that sees so many keys.
    pub fn decode_total(&self, keys: f64) -> f64 {
        Work::all().map(|work| self.decode(work, keys)).sum()
    }

    /// One kind of work of a prompt of so many tokens, for each of them on average: each sees itself and those before it,
    /// and the head is run on the last.
    pub fn prefill(&self, work: Work, tokens: f64) -> f64 {
        if work == Work::LmHead {
            return self.decode(work, tokens) / tokens;
        }
        let [seen, attended] = average_keys(tokens, self.attended(tokens));
        self.work(work, seen, attended)
    }

    /// All work of a prompt, for each of its tokens on average.
    pub fn prefill_total(&self, tokens: f64) -> f64 {
        Work::all().map(|work| self.prefill(work, tokens)).sum()
    }

    /// One kind of work of a token that sees so many keys and, in block-sparse layers, attends to so many.
    fn work(&self, work: Work, seen: f64, attended: f64) -> f64 {
        let [full, sparse] = self.attention_layers().map(|layers| layers as f64);
        let [expert_layers, _] = self.feed_forward_layers().map(|layers| layers as f64);
        let products = |part: Part| PER_PRODUCT * self.active_part(part) as f64;
        let all = |is_chosen: fn(LayerWeight) -> bool| {
            let is_chosen = |weight| matches!(weight, Weight::Layer(_, weight) if is_chosen(weight));
            PER_PRODUCT * self.count(is_chosen) as f64
        };
        match work {
            Work::Projections => all(is_projection),
            Work::FullAttention => full * self.core(seen),
            Work::SparseAttention => sparse * self.core(attended),
            Work::IndexProjections => all(|weight| matches!(weight, LayerWeight::IndexQProj | LayerWeight::IndexKProj)),
            Work::IndexScores => sparse * self.index_scores(seen),
            Work::Routers => expert_layers * self.router(),
            Work::RoutedExperts => products(Part::RoutedExperts),
            Work::SharedExperts => products(Part::SharedExperts),
            Work::Dense => products(Part::Dense),
            Work::LmHead => PER_PRODUCT * (self.config.vocab_size * self.config.hidden_size) as f64,
        }
    }
}
