//! A model as its numbers follow from it: its configuration, and the inventory of its weights.

use fixtures::synth::released::Released;
use reference::config::{Attention, Config, FeedForward};
use reference::weights::{Weight, inventory};

/// A model's hyperparameters.
#[derive(Debug, Clone)]
pub struct Hyperparameters {
    /// The configuration.
    pub config: Config,
    weights: Vec<(Weight, usize)>,
}

/// The two released models that the documents are about.
#[derive(Debug, Clone)]
pub struct Releases {
    /// MiniMax-M2.7.
    pub m27: Hyperparameters,
    /// MiniMax-M3.
    pub m3: Hyperparameters,
}

impl Hyperparameters {
    /// Those of a configuration.
    pub fn of(config: Config) -> Self {
        let kept = |weight| weight != Weight::LmHead || !config.tie_word_embeddings;
        let all = inventory(&config).into_iter().filter(|(weight, _)| kept(*weight));
        let weights = all.map(|(weight, (rows, columns))| (weight, rows * columns)).collect();
        Hyperparameters { config, weights }
    }

    /// Those of a released model's `config.json`.
    fn released(name: &str) -> Self {
        let released = Released::named(name).expect("it is one of the released models");
        Self::of(Config::from_json(&released.config().to_string()).expect("released models are known"))
    }

    /// Every weight with its elements; where the head is the embedding, it is one weight.
    pub fn weights(&self) -> impl Iterator<Item = (Weight, usize)> {
        self.weights.iter().copied()
    }

    /// Layers that attend to all keys, and layers that attend to chosen blocks of keys.
    pub fn attention_layers(&self) -> [usize; 2] {
        self.layers(|config, layer| config.layer(layer).attention == Attention::Full)
    }

    /// Layers of experts, and dense layers.
    pub fn feed_forward_layers(&self) -> [usize; 2] {
        self.layers(|config, layer| config.layer(layer).feed_forward == FeedForward::Experts)
    }

    /// Layers of which something is so, and those of which it is not.
    fn layers(&self, is_so: impl Fn(&Config, usize) -> bool) -> [usize; 2] {
        let all = self.config.num_hidden_layers;
        let those = (0..all).filter(|layer| is_so(&self.config, *layer)).count();
        [those, all - those]
    }

    /// K·b: the keys that a token of a block-sparse layer attends to, at most; none where there is no such layer.
    pub fn chosen_keys(&self) -> Option<usize> {
        self.config.index.map(|index| index.blocks.top_k * index.blocks.size)
    }
}

impl Releases {
    /// Both, from the configurations that they are released with.
    pub fn read() -> Self {
        Releases { m27: Hyperparameters::released("minimax-m2.7"), m3: Hyperparameters::released("minimax-m3") }
    }
}
