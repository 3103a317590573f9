//! A small model in memory, with every structural feature of a large one (SPEC G20).

use std::collections::BTreeMap;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::Storage;
use reference::config::Blocks;
use reference::config::Coefficients;
use reference::config::m2::M2;
use reference::config::m3::M3;
use reference::config::{Attention, Config, FeedForward, Index, Layer};
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::semantics::{MtpTopology, NormWeight, QkNorm};
use reference::weights::{LayerWeight, MtpWeight, Weight, Weights, inventory, mtp_inventory};

/// Weights by name, each kept in a storage of its own.
#[derive(Debug, Clone)]
pub struct Memory {
    weights: BTreeMap<Weight, Matrix<'static>>,
}

/// Two layers, three query heads to a key head, partial rotation, eight experts of which three are chosen.
pub fn tiny() -> Config {
    Config {
        architecture: M2,
        vocab_size: 40,
        hidden_size: 48,
        intermediate_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 6,
        num_key_value_heads: 2,
        head_dim: 8,
        rotary_dim: 4,
        rope_theta: 10_000.0,
        rms_norm_eps: 1e-6,
        num_local_experts: 8,
        num_experts_per_tok: 3,
        max_position_embeddings: 64,
        tie_word_embeddings: false,
        eos_token_id: Vec::new(),
        norm_weight: NormWeight::Plain,
        qk_norm: QkNorm::FullProjection,
        swiglu_oai: None,
        layers: Vec::new(),
        dense_intermediate_size: 0,
        shared_intermediate_size: 0,
        routed_scaling_factor: 1.0,
        index: None,
        vision: None,
        num_mtp_modules: 0,
        choosing: BTreeMap::new(),
        module: None,
        quantization: None,
    }
}

/// The same as M3 has it: each kind of attention with each kind of network, blocks of two keys of which three are chosen.
pub fn tiny_m3() -> Config {
    let kinds = [
        (Attention::Full, FeedForward::Dense),
        (Attention::Full, FeedForward::Experts),
        (Attention::BlockSparse, FeedForward::Dense),
        (Attention::BlockSparse, FeedForward::Experts),
    ];
    let blocks = Blocks { size: 2, top_k: 3, local: 1, init: 0 };
    Config {
        architecture: M3,
        num_hidden_layers: 4,
        norm_weight: NormWeight::OnePlus,
        qk_norm: QkNorm::PerHead,
        swiglu_oai: Some(Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 }),
        layers: kinds.map(|(attention, feed_forward)| Layer { attention, feed_forward }).to_vec(),
        dense_intermediate_size: 30,
        shared_intermediate_size: 20,
        routed_scaling_factor: 2.0,
        index: Some(Index { heads: 2, head_dim: 6, choices: 2, blocks }),
        ..tiny()
    }
}

impl Memory {
    /// Random weights: norms about 1, biases about 0, gate and bias in f32, the rest in bf16.
    pub fn random(config: &Config, seed: u64) -> Self {
        Memory::drawn(config, inventory(config), seed)
    }

    /// The same with modules of multi-token prediction.
    pub fn with_modules(config: &Config, (topology, modules): (MtpTopology, usize), seed: u64) -> Self {
        let all = inventory(config).into_iter().chain(mtp_inventory(config, topology, modules));
        Memory::drawn(config, all.collect(), seed)
    }

    fn drawn(config: &Config, all: Vec<(Weight, (usize, usize))>, seed: u64) -> Self {
        use LayerWeight::{CorrectionBias, Gate};
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let weights = all.into_iter().map(|(weight, dim)| {
            let one = unit(config);
            let (mean, width) = match weight {
                Weight::Embedding => (0.0, 1.0),
                _ if weight.is_norm() => (one, 0.3),
                _ => (0.0, 0.3),
            };
            // Three uniform numbers between −1 and 1 have a variance of 1 together.
            let mut draw = |_| mean + width * (0..3).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>();
            let storage = match weight {
                Weight::Layer(_, Gate | CorrectionBias) | Weight::Mtp(_, MtpWeight::Layer(Gate | CorrectionBias)) => {
                    Storage::F32
                }
                _ => Storage::Bf16,
            };
            (weight, Matrix::stored(Array2::from_shape_fn(dim, &mut draw).view(), storage))
        });
        Memory { weights: weights.collect() }
    }

    /// Norms of one, everything else zero: the head of the normalised embedding.
    pub fn blank(config: &Config) -> Self {
        let mut memory = Memory::random(config, 0);
        for (weight, dim) in inventory(config) {
            let value = if weight.is_norm() { unit(config) } else { 0.0 };
            memory.set(weight, &Array2::from_elem(dim, value));
        }
        memory
    }

    /// One weight, widened.
    pub fn dense(&self, weight: Weight) -> Array2<f64> {
        self.weights[&weight].dense()
    }

    /// Puts other values in the place of a weight, in the same storage.
    pub fn set(&mut self, weight: Weight, values: &Array2<f64>) {
        let storage = self.weights[&weight].storage();
        self.weights.insert(weight, Matrix::stored(values.view(), storage));
    }

    /// Takes a weight away.
    pub fn remove(&mut self, weight: Weight) {
        self.weights.remove(&weight);
    }
}

/// The weight of a norm that leaves what it normed.
fn unit(config: &Config) -> f64 {
    match config.norm_weight {
        NormWeight::Plain => 1.0,
        NormWeight::OnePlus => 0.0,
    }
}

impl Weights for Memory {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        let found = self.weights.get(&weight).map(Matrix::view);
        found.ok_or_else(|| WeightError { tensor: weight.to_string(), problem: "not in memory".into(), help: None })
    }
}
