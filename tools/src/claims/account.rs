//! What a deployment costs, place by place: layers, and what stands before and behind them.
//!
//! A step is one of decoding: the next token of each of B sequences, all of which have T tokens. It reads each weight
//! once that it needs, and of experts those that B independent, equal choices of k of E are expected to reach: E·(1 −
//! (1 − k/E)^B).

use std::fmt;

use fixtures::synth::Synthesis;
use reference::config::{Attention, Config, FeedForward};
use reference::semantics::Module;
use reference::weights::{LayerWeight, MtpWeight, Weight};
use serde::Serialize;

use super::flops::{PER_PRODUCT, average_keys};
use super::hyperparameters::Hyperparameters;
use super::memory::BF16;

/// What a deployment is asked to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// T: tokens of each sequence.
    pub context: usize,
    /// B: sequences.
    pub batch: usize,
    /// Modules of multi-token prediction, each of which drafts a token a step.
    pub modules: usize,
}

/// A model's account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// Of what load.
    pub load: Load,
    /// Places in the order of a pass.
    pub places: Vec<Row>,
    /// All together.
    pub total: Costs,
}

/// A place, and what it costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Where.
    pub place: Place,
    /// What is there.
    pub kind: String,
    /// What it costs.
    pub costs: Costs,
}

/// Where weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Vision tower and projector.
    Vision,
    /// Token embedding.
    Embedding,
    /// A layer of the decoder.
    Layer(usize),
    /// Last norm and LM head.
    Head,
    /// A module of multi-token prediction.
    Module(usize),
}

/// What a place costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// Parameters.
    pub parameters: u128,
    /// Those that a token of text is computed with.
    pub active: u128,
    /// Bytes of the weights, as the configuration stores them, scales included.
    pub weights: f64,
    /// Operations of all B prompts of T tokens; text alone.
    pub prefill: f64,
    /// Operations of a step.
    pub step: f64,
    /// Bytes that a step reads: of weights, and of the cache in bf16.
    pub read: f64,
    /// Those of the cache among them.
    pub read_of_cache: f64,
    /// Bytes of the cache of B sequences in bf16.
    pub cache: f64,
    /// Bytes of weights and cache.
    pub memory: f64,
}

/// Keys on average: that a token of a layer sees, and that one of a block-sparse layer attends to.
#[derive(Clone, Copy)]
struct Keys {
    seen: f64,
    attended: f64,
}

impl Account {
    /// That of a model under a load.
    pub fn of(config: &Config, load: Load) -> Self {
        let sizes = Synthesis { modules: load.modules, ..Synthesis::default() }.sizes(config);
        let model = Hyperparameters::of(config.clone());
        let module = Hyperparameters::of(config.mtp_module(Module { topology: config.architecture.mtp, number: 0 }));
        let layers = (0..config.num_hidden_layers).map(Place::Layer);
        let places = [Place::Vision, Place::Embedding].into_iter().chain(layers).chain([Place::Head]);
        let places = places.chain((0..load.modules).map(Place::Module));
        let row = |place: Place| {
            let own: Vec<Size> = sizes.iter().filter(|(weight, ..)| Place::of(*weight) == place).copied().collect();
            let layer = match place {
                Place::Layer(layer) => Some((&model, layer)),
                Place::Module(_) => Some((&module, 0)),
                Place::Vision | Place::Embedding | Place::Head => None,
            };
            Row { place, kind: layer.map_or_else(String::new, kind), costs: costs(config, load, place, layer, &own) }
        };
        let places: Vec<Row> = places.map(row).filter(|row| row.costs.parameters > 0).collect();
        let total = Costs::of_all(&places);
        Account { load, places, total }
    }
}

/// A weight, its elements and its bytes.
type Size = (Weight, u128, u128);

impl Place {
    /// Where a weight is.
    fn of(weight: Weight) -> Self {
        match weight {
            Weight::Vision(_) => Place::Vision,
            Weight::Embedding => Place::Embedding,
            Weight::Layer(layer, _) => Place::Layer(layer),
            Weight::FinalNorm | Weight::LmHead => Place::Head,
            Weight::Mtp(module, _) => Place::Module(module),
        }
    }
}

/// What a layer is made of.
fn kind((model, layer): (&Hyperparameters, usize)) -> String {
    let layer = model.config.layer(layer);
    let attention = match layer.attention {
        Attention::Full => "all keys",
        Attention::BlockSparse => "chosen blocks",
    };
    let network = match layer.feed_forward {
        FeedForward::Experts => "experts",
        FeedForward::Dense => "dense",
    };
    format!("{attention}, {network}")
}

/// What a place costs that has these weights, and is a layer or has one.
fn costs(config: &Config, load: Load, place: Place, layer: Option<(&Hyperparameters, usize)>, own: &[Size]) -> Costs {
    let [tokens, batch] = [load.context, load.batch].map(|count| count as f64);
    let elements = |is: &dyn Fn(Weight) -> bool| {
        own.iter().filter(|(weight, ..)| is(*weight)).map(|(_, elements, _)| elements).sum::<u128>()
    };
    let bytes = |is: &dyn Fn(Weight) -> bool| {
        own.iter().filter(|(weight, ..)| is(*weight)).map(|(.., bytes)| *bytes as f64).sum::<f64>()
    };
    let (parameters, weights, routed) = (elements(&|_| true), bytes(&|_| true), elements(&is_routed));
    let [chosen, experts] = [config.num_experts_per_tok, config.num_local_experts.max(1)].map(|count| count as u128);
    // A head that is the embedding is computed with, and read, all the same.
    let tied = if place == Place::Head && config.tie_word_embeddings {
        (config.vocab_size * config.hidden_size) as u128
    } else {
        0
    };
    let [last, average] = keys(layer, tokens);
    let of_head = PER_PRODUCT * (elements(&is_head) + tied) as f64;
    let of_token = |keys: Keys| {
        let joining = PER_PRODUCT * elements(&is_joining) as f64;
        joining + layer.map_or(0.0, |(model, layer)| model.layer_work(layer, [keys.seen, keys.attended]))
    };
    let [cached, seen] = layer.map_or([0.0; 2], |(model, layer)| {
        [[tokens; 2], [last.seen, last.attended]].map(|keys| BF16 * batch * model.cached_in_layer(layer, keys))
    });
    let reached = 1.0 - (1.0 - chosen as f64 / experts as f64).powf(batch);
    let read = match place {
        Place::Vision => 0.0,
        Place::Embedding => weights * (batch / config.vocab_size as f64).min(1.0),
        _ => weights - bytes(&is_routed) * (1.0 - reached) + tied as f64 * BF16,
    };
    Costs {
        parameters,
        active: match place {
            Place::Vision => 0,
            Place::Embedding if !config.tie_word_embeddings => config.hidden_size as u128,
            _ => parameters - routed + routed / experts * chosen,
        },
        weights,
        prefill: batch * (tokens * of_token(average) + of_head),
        step: batch * (of_token(last) + of_head),
        read: read + seen,
        read_of_cache: seen,
        cache: cached,
        memory: weights + cached,
    }
}

/// Keys of the last of so many tokens, and of all on average.
fn keys(layer: Option<(&Hyperparameters, usize)>, tokens: f64) -> [Keys; 2] {
    let few = layer.and_then(|(model, _)| model.chosen_keys()).map_or(tokens, |chosen| tokens.min(chosen as f64));
    let [seen, attended] = average_keys(tokens, few);
    [Keys { seen: tokens, attended: few }, Keys { seen, attended }]
}

fn is_routed(weight: Weight) -> bool {
    use LayerWeight::Expert;
    matches!(weight, Weight::Layer(_, Expert(..)) | Weight::Mtp(_, MtpWeight::Layer(Expert(..))))
}

fn is_head(weight: Weight) -> bool {
    matches!(weight, Weight::LmHead | Weight::Mtp(_, MtpWeight::Head))
}

/// What a module makes its stream with.
fn is_joining(weight: Weight) -> bool {
    matches!(weight, Weight::Mtp(_, MtpWeight::BothProj | MtpWeight::HiddenProj))
}

impl Costs {
    /// Those of all places together.
    fn of_all(places: &[Row]) -> Self {
        let count = |of: fn(&Costs) -> u128| places.iter().map(|row| of(&row.costs)).sum();
        let sum = |of: fn(&Costs) -> f64| places.iter().map(|row| of(&row.costs)).sum();
        Costs {
            parameters: count(|costs| costs.parameters),
            active: count(|costs| costs.active),
            weights: sum(|costs| costs.weights),
            prefill: sum(|costs| costs.prefill),
            step: sum(|costs| costs.step),
            read: sum(|costs| costs.read),
            read_of_cache: sum(|costs| costs.read_of_cache),
            cache: sum(|costs| costs.cache),
            memory: sum(|costs| costs.memory),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Vision => f.write_str("vision tower"),
            Place::Embedding => f.write_str("embedding"),
            Place::Layer(layer) => write!(f, "layer {layer}"),
            Place::Head => f.write_str("LM head"),
            Place::Module(module) => write!(f, "MTP module {module}"),
        }
    }
}
