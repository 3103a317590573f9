//! What is measured, in the order in which a step of decoding does it, and the floor of each.
//!
//! n: tokens of the step, which follow others of their sequence. Weights of products are as the CUDA path keeps them; the router's
//! f32, and the embedding's and the head's bf16.

use fixtures::convert::types::Types;
use globset::{Glob, GlobSetBuilder};
use reference::config::{Attention, Config, FeedForward, Layer};

use super::floor::{Floor, Unit};
use super::weights::{NARROW, WIDE, bytes};
use crate::failure::Failure;

/// A step of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// n.
    pub tokens: usize,
    /// Tokens of the sequence, the step's among them.
    pub context: usize,
    /// Of the layers.
    pub weights: Types,
}

impl Step {
    /// Tokens before the step's.
    pub fn first(&self) -> usize {
        self.context - self.tokens
    }

    /// Keys that the step's tokens see, of all of them.
    fn seen(&self) -> f64 {
        let [n, first] = [self.tokens, self.first()].map(|count| count as f64);
        n * first + n * (n + 1.0) / 2.0
    }
}

/// What depends on values: how many experts the tokens choose, and what they attend to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Chosen {
    /// Different experts.
    pub experts: usize,
    /// Keys of one head that are read, over all key heads: those in blocks that any token chose.
    pub keys_read: usize,
    /// Keys that tokens attend to, over all tokens and key heads.
    pub keys_attended: usize,
}

/// An operator of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Projections to queries, keys and values, and the index branch's.
    LinearQkv,
    /// Norms and rotation of queries and keys, and the cache's rows.
    QkNormRope,
    /// Choice of blocks.
    Indexer,
    /// Attention to them.
    BlockSparseAttention,
    /// Attention to all keys.
    Attention,
    /// Projection from the heads back.
    LinearO,
    /// Residual, and the norm of what follows.
    AddRmsNorm,
    /// Choice of experts.
    Router,
    /// A network for all tokens: a dense layer's, or the shared expert.
    DenseFfn,
    /// Routed experts, and their sum.
    Moe,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// The tokens' embedding.
    Embedding,
    /// The first layer's norm.
    RmsNorm,
    /// An operator of a layer of the n-th kind.
    Part(usize, Part),
    /// All of a layer of the n-th kind.
    Layer(usize),
    /// Logits.
    LinearHead,
    /// The largest of them.
    Sampling,
    /// A step with one layer of each kind.
    Step,
}

/// A model's layers, those that are alike as one, and how many there are.
pub fn kinds(config: &Config) -> Vec<(Layer, usize)> {
    let mut kinds: Vec<(Layer, usize)> = Vec::new();
    for layer in (0..config.num_hidden_layers).map(|layer| config.layer(layer)) {
        match kinds.iter_mut().find(|(kind, _)| *kind == layer) {
            Some((_, count)) => *count += 1,
            None => kinds.push((layer, 1)),
        }
    }
    kinds
}

/// What a kind of layer is called.
fn name_of(kind: Layer) -> &'static str {
    match (kind.attention, kind.feed_forward) {
        (Attention::Full, FeedForward::Experts) => "experts",
        (Attention::Full, FeedForward::Dense) => "dense",
        (Attention::BlockSparse, FeedForward::Experts) => "sparse",
        (Attention::BlockSparse, FeedForward::Dense) => "sparse_dense",
    }
}

/// The operators of a layer, in order.
fn parts(config: &Config, kind: Layer) -> Vec<Part> {
    let attention: &[Part] = match kind.attention {
        Attention::Full => &[Part::Attention],
        Attention::BlockSparse => &[Part::Indexer, Part::BlockSparseAttention],
    };
    let network: &[Part] = match kind.feed_forward {
        FeedForward::Dense => &[Part::DenseFfn],
        FeedForward::Experts if config.shared_intermediate_size > 0 => &[Part::DenseFfn, Part::Router, Part::Moe],
        FeedForward::Experts => &[Part::Router, Part::Moe],
    };
    let before = [Part::LinearQkv, Part::QkNormRope];
    [&before[..], attention, &[Part::LinearO, Part::AddRmsNorm], network].concat()
}

/// All that is measured of a model.
pub fn all(config: &Config) -> Vec<Work> {
    let of_kind = |(number, (kind, _)): (usize, (Layer, usize))| {
        let parts = parts(config, kind).into_iter().map(move |part| Work::Part(number, part));
        parts.chain([Work::Layer(number)])
    };
    let layers = kinds(config).into_iter().enumerate().flat_map(of_kind);
    let first = [Work::Embedding, Work::RmsNorm].into_iter();
    first.chain(layers).chain([Work::LinearHead, Work::Sampling, Work::Step]).collect()
}

/// Those of them whose names fit a pattern; all, without one.
pub fn chosen(config: &Config, patterns: &[String]) -> Result<Vec<Work>, Failure> {
    let all = all(config);
    if patterns.is_empty() {
        return Ok(all);
    }
    let names: Vec<String> = all.iter().map(|work| work.name(config)).collect();
    let list = || format!("expected one of {}, or a pattern such as *.attention", names.join(", "));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern).map_err(|error| Failure::new(format!("{pattern}: {error}")).help(list()))?;
        let matcher = glob.compile_matcher();
        if !names.iter().any(|name| matcher.is_match(name)) {
            return Err(Failure::new(format!("{pattern}: nothing of this model has such a name")).help(list()));
        }
        set.add(glob);
    }
    let set = set.build().map_err(|error| Failure::new(error.to_string()))?;
    Ok(all.into_iter().zip(names).filter(|(_, name)| set.is_match(name)).map(|(work, _)| work).collect())
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::LinearQkv => "linear_qkv",
            Part::QkNormRope => "qk_norm_rope",
            Part::Indexer => "indexer",
            Part::BlockSparseAttention => "block_sparse_attention",
            Part::Attention => "attention",
            Part::LinearO => "linear_o",
            Part::AddRmsNorm => "add_rms_norm",
            Part::Router => "router",
            Part::DenseFfn => "dense_ffn",
            Part::Moe => "moe",
        }
    }
}

impl Work {
    /// What it is called: an operator of a layer behind the layer's kind.
    pub fn name(self, config: &Config) -> String {
        let of = |number: usize, what: &str| format!("{}.{what}", name_of(kinds(config)[number].0));
        match self {
            Work::Embedding => "embedding".to_owned(),
            Work::RmsNorm => "rms_norm".to_owned(),
            Work::Part(number, part) => of(number, part.name()),
            Work::Layer(number) => of(number, "layer"),
            Work::LinearHead => "linear_head".to_owned(),
            Work::Sampling => "sampling".to_owned(),
            Work::Step => "step".to_owned(),
        }
    }

    /// Whether it is done in a layer of the n-th kind.
    pub fn needs(self, kind: usize) -> bool {
        match self {
            Work::Part(number, _) | Work::Layer(number) => number == kind,
            Work::Step => true,
            Work::Embedding | Work::RmsNorm | Work::LinearHead | Work::Sampling => false,
        }
    }

    /// What it consists of, each as often as it is done; nothing of an operator alone.
    pub fn pieces(self, config: &Config) -> Vec<Work> {
        match self {
            Work::Layer(number) => {
                let mut pieces: Vec<Work> =
                    parts(config, kinds(config)[number].0).into_iter().map(|part| Work::Part(number, part)).collect();
                // Once more, behind the network.
                pieces.push(Work::Part(number, Part::AddRmsNorm));
                pieces
            }
            Work::Step => {
                let layers = (0..kinds(config).len()).flat_map(|number| Work::Layer(number).pieces(config));
                let first = [Work::Embedding, Work::RmsNorm].into_iter();
                first.chain(layers).chain([Work::LinearHead, Work::Sampling]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The floor of an operator alone; `None` of what consists of others.
    pub fn floor(self, config: &Config, step: Step, chosen: &[Chosen]) -> Option<Floor> {
        let [n, h, v] = [step.tokens, config.hidden_size, config.vocab_size].map(|count| count as f64);
        Some(match self {
            Work::Embedding => {
                let read = n * (NARROW * h + WIDE);
                Floor { read, written: NARROW * n * h, operations: 0.0, unit: Unit::Scalar }
            }
            Work::RmsNorm => elementwise(n * h, h, n * h, 4.0 * n * h),
            Work::LinearHead => linear(n, h, v, Types::Bf16),
            Work::Sampling => {
                Floor { read: NARROW * n * v, written: 2.0 * WIDE * n, operations: n * v, unit: Unit::Scalar }
            }
            Work::Part(number, part) => part.floor(config, kinds(config)[number].0, step, chosen[number]),
            Work::Layer(_) | Work::Step => return None,
        })
    }
}

impl Part {
    fn floor(self, config: &Config, kind: Layer, step: Step, chosen: Chosen) -> Floor {
        let [n, h] = [step.tokens, config.hidden_size].map(|count| count as f64);
        let sizes = Sizes::of(config, kind);
        let [keys, d] = [step.context, config.head_dim].map(|count| count as f64);
        let heads = sizes.queries / d;
        let queries = NARROW * n * sizes.queries;
        match self {
            Part::LinearQkv => linear(n, h, sizes.projected(), step.weights),
            Part::LinearO => linear(n, sizes.queries, h, step.weights),
            Part::QkNormRope => {
                let values = n * sizes.projected();
                let norms: usize = config.qk_norm_widths().iter().sum();
                let table = 2.0 * WIDE * n * config.rotary_dim as f64;
                let floor = elementwise(values, norms as f64, values, 8.0 * values);
                Floor { read: floor.read + table, ..floor }
            }
            Part::Attention => Floor {
                read: queries + 2.0 * NARROW * keys * sizes.keys,
                written: queries,
                operations: 4.0 * sizes.queries * step.seen(),
                unit: Unit::Tensor,
            },
            Part::BlockSparseAttention => Floor {
                read: queries + 2.0 * NARROW * d * chosen.keys_read as f64,
                written: queries,
                operations: 4.0 * d * heads / (sizes.keys / d) * chosen.keys_attended as f64,
                unit: Unit::Tensor,
            },
            Part::Indexer => {
                let Some(index) = config.index else { return elementwise(0.0, 0.0, 0.0, 0.0) };
                let chosen =
                    n * (index.choices * index.blocks.top_k.min(step.context.div_ceil(index.blocks.size))) as f64;
                Floor {
                    read: NARROW * (n * sizes.index_queries + keys * index.head_dim as f64),
                    written: WIDE * chosen,
                    operations: 2.0 * sizes.index_queries * step.seen(),
                    unit: Unit::Tensor,
                }
            }
            Part::AddRmsNorm => elementwise(2.0 * n * h, h, 2.0 * n * h, 5.0 * n * h),
            Part::Router => {
                let [experts, k] = [config.num_local_experts, config.num_experts_per_tok].map(|count| count as f64);
                Floor {
                    read: WIDE * experts * (h + 1.0) + NARROW * n * h,
                    written: 2.0 * WIDE * n * k,
                    operations: 2.0 * n * experts * h,
                    unit: Unit::Scalar,
                }
            }
            Part::DenseFfn => network(n, h, sizes.dense, (1.0, step.weights)),
            Part::Moe => {
                let [k, experts] = [config.num_experts_per_tok, chosen.experts].map(|count| count as f64);
                let m = config.intermediate_size as f64;
                let floor = network(n * k, h, m, (experts, step.weights));
                let shared = if config.shared_intermediate_size > 0 { NARROW * n * h } else { 0.0 };
                let read = experts * of_network(h, m, step.weights);
                let routed = 2.0 * WIDE * n * k;
                Floor { read: read + NARROW * n * h + shared + routed, written: NARROW * n * h, ..floor }
            }
        }
    }
}

/// Widths of a layer.
struct Sizes {
    queries: f64,
    keys: f64,
    index_queries: f64,
    index_keys: f64,
    dense: f64,
}

impl Sizes {
    fn of(config: &Config, kind: Layer) -> Self {
        let index = config.index.filter(|_| kind.attention == Attention::BlockSparse);
        let [index_queries, index_keys] =
            index.map_or([0, 0], |index| [index.heads * index.head_dim, index.head_dim]).map(|width| width as f64);
        Sizes {
            queries: config.query_width() as f64,
            keys: config.key_width() as f64,
            index_queries,
            index_keys,
            dense: match kind.feed_forward {
                FeedForward::Dense => config.dense_intermediate_size,
                FeedForward::Experts => config.shared_intermediate_size,
            } as f64,
        }
    }

    /// Of all projections before attention.
    fn projected(&self) -> f64 {
        self.queries + 2.0 * self.keys + self.index_queries + self.index_keys
    }
}

/// x·wᵀ of x \[n, k\] and w \[m, k\].
fn linear(n: f64, k: f64, m: f64, weights: Types) -> Floor {
    let read = NARROW * n * k + bytes(weights, m, k);
    Floor { read, written: NARROW * n * m, operations: 2.0 * n * k * m, unit: Unit::Tensor }
}

/// Bytes of gate, up and down.
fn of_network(h: f64, m: f64, weights: Types) -> f64 {
    2.0 * bytes(weights, m, h) + bytes(weights, h, m)
}

/// Gate, up and down of so many rows in so many networks.
fn network(rows: f64, h: f64, m: f64, (networks, weights): (f64, Types)) -> Floor {
    let read = networks * of_network(h, m, weights) + NARROW * rows * h;
    Floor { read, written: NARROW * rows * h, operations: 6.0 * rows * h * m, unit: Unit::Tensor }
}

/// So many elements read, and so many weights; so many written.
fn elementwise(elements: f64, weights: f64, written: f64, operations: f64) -> Floor {
    let read = NARROW * (elements + weights);
    Floor { read, written: NARROW * written, operations, unit: Unit::Scalar }
}
