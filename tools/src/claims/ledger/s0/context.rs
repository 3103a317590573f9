//! S0 CH2.5, CH3.1, CH3.5: cache and context.

use super::premises::{CONTEXT, MILLION, s0};
use crate::claims::claim::Claim;
use crate::claims::flops::{linear_attention, softmax_attention};
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::memory::BF16;
use crate::claims::unit::{GB, MB, ONE_IN, TIMES};

/// V4-Flash's cache at 1M, in bytes, as S0 quotes it.
const V4_FLASH: f64 = 17e9;

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let all = m.cache(CONTEXT, BF16);
    let layer = all / m.config.num_hidden_layers as f64;
    let whole = m.config.max_position_embeddings as f64;
    let d = m.config.head_dim as f64;
    let doubled = |operations: fn(f64, f64) -> f64| operations(2.0 * CONTEXT, d) / operations(CONTEXT, d);
    vec![
        s0("E0-26", "CH2.5", "K cache of a layer: 192K × 8 × 128 × 2 bytes = 393 MB").rounded("393", MB, layer / 2.0),
        s0("E0-27", "CH2.5", "K and V cache of a layer: 786 MB").rounded("786", MB, layer),
        s0("E0-28", "CH2.5", "62 layers: 48.8 GB").rounded("48.8", GB, all).note(format!(
            "of 192,000 tokens; {:.2} GB at the 204,800 that the model takes",
            m.cache(whole, BF16) / 1e9
        )),
        s0("E0-29", "CH2.5", "the cache is 2.9 times V4-Flash's ~17 GB").rounded("2.9", TIMES, all / V4_FLASH),
        s0("E0-30", "CH2.5", "192K is 1/5 of 1M context").rounded("5", ONE_IN, MILLION / CONTEXT),
        s0("E0-32", "CH3.5", "K cache of a layer at 192K: 393 MB").rounded("393", MB, layer / 2.0),
        s0("E0-39", "CH3.1", "linear attention takes O(T²·d) to O(T·d²)")
            .exact("4", TIMES, doubled(softmax_attention))
            .exact("2", TIMES, doubled(linear_attention))
            .note(format!(
                "recomputed: growth where T is doubled; as much is computed either way where T = d = {d}, in a head"
            )),
    ]
}
