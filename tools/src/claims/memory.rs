//! Bytes: of weights as they are stored, and of the cache of keys and values.

use fixtures::synth::Synthesis;
use reference::config::Attention;

use super::hyperparameters::Hyperparameters;

/// Bytes of a value in bf16.
pub const BF16: f64 = 2.0;
/// Bytes of a value in FP8.
pub const FP8: f64 = 1.0;
/// Bytes of a value in four bits.
pub const FOUR_BITS: f64 = 0.5;

impl Hyperparameters {
    /// Cached keys and values of a token, in values: `2·L·n_kv·d`.
    pub fn cached_values(&self) -> f64 {
        (2 * self.config.num_hidden_layers * self.config.key_width()) as f64
    }

    /// Cached keys of the index branch of a token, in values: one head in each block-sparse layer, `L_sparse·d_i`.
    pub fn cached_index_keys(&self) -> f64 {
        let [_, sparse] = self.attention_layers();
        (sparse * self.config.index.map_or(0, |index| index.head_dim)) as f64
    }

    /// Values that a layer has of a sequence in its cache, of so many index keys, and so many keys and as many values.
    pub fn cached_in_layer(&self, layer: usize, [seen, attended]: [f64; 2]) -> f64 {
        let of_token = (2 * self.config.key_width()) as f64;
        let index = self.config.index.map_or(0, |index| index.head_dim) as f64;
        match self.config.layer(layer).attention {
            Attention::Full => of_token * seen,
            Attention::BlockSparse => of_token * attended + index * seen,
        }
    }

    /// Bytes that the cache grows by with each token.
    pub fn cache_of_token(&self, bytes_of_value: f64) -> f64 {
        (self.cached_values() + self.cached_index_keys()) * bytes_of_value
    }

    /// Bytes of the cache of a context of so many tokens.
    pub fn cache(&self, tokens: f64, bytes_of_value: f64) -> f64 {
        tokens * self.cache_of_token(bytes_of_value)
    }

    /// Bytes of the weights, all of them in one type.
    pub fn weights_in(&self, bytes_of_value: f64) -> f64 {
        self.total() as f64 * bytes_of_value
    }

    /// Bytes of the weights as the configuration stores them, scales included: what is quantized in FP8, routers in f32, the
    /// rest in bf16.
    pub fn stored(&self) -> f64 {
        self.stored_of(|_| true)
    }

    /// The same of the tensors whose names are chosen.
    pub fn stored_of(&self, is_chosen: impl Fn(&str) -> bool) -> f64 {
        let tensors = Synthesis::default().tensors(&self.config);
        tensors.iter().filter(|tensor| is_chosen(&tensor.name)).map(|tensor| tensor.size() as f64).sum()
    }
}
