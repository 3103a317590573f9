//! S1 CH1, CH2, CH3, CH5, CH7, CH10: ratios, widths and counts.

use super::premises::s1;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::{Hyperparameters, Releases};
use crate::claims::parameters::Part;
use crate::claims::unit::{B, M, PERCENT, TIMES, TO_ONE};

/// `num_mtp_modules` of the BF16 release; the MXFP8 release's says 1.
const MTP_MODULES: usize = 7;

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    [attention(m), others(m)].concat()
}

fn attention(m: &Hyperparameters) -> Vec<Claim> {
    let c = &m.config;
    let Some((index, vision)) = c.index.zip(c.vision.as_ref()) else { return Vec::new() };
    let positions = c.max_position_embeddings;
    let chosen = m.chosen_keys().unwrap_or(positions);
    vec![
        s1("E1-31", "CH2.2", "GQA 16:1; the vision tower's head_dim is 1280/16 = 80")
            .exact("16", TO_ONE, c.num_attention_heads as f64 / c.num_key_value_heads as f64)
            .count("80", vision.head_dim()),
        s1("E1-32", "CH3.1", "16 × 128 = 2048 tokens are attended to").count("2048", chosen),
        s1("E1-33", "CH3.2", "index projections: 6144 → 512 and 6144 → 128")
            .count("512", index.heads * index.head_dim)
            .count("128", index.head_dim),
        s1("E1-34", "CH3.6", "T/K ≈ 512× at 1M").exact("512", TIMES, positions as f64 / chosen as f64),
        s1("E1-81", "CH2.4", "32 pairs of frequencies from 64 channels").count("32", c.rotary_dim / 2),
        s1("E1-82", "CH3.1, 6.1", "⌈T/128⌉ blocks: 8192 at 1M").count("8192", positions.div_ceil(index.blocks.size)),
    ]
}

fn others(m: &Hyperparameters) -> Vec<Claim> {
    let c = &m.config;
    let [layers, _] = m.feed_forward_layers();
    let index = m.part(Part::Index) as f64;
    // Gate and up as two matrices, and as one of twice the rows of which each takes half.
    let [apart, fused] =
        [[c.intermediate_size * c.hidden_size; 2].iter().sum(), 2 * c.intermediate_size * c.hidden_size];
    let total = m.total() as f64;
    vec![
        s1("E1-74", "CH5.4", "a token uses 4/128 ≈ 3.1 % of the experts").rounded(
            "3.1",
            PERCENT,
            c.num_experts_per_tok as f64 / c.num_local_experts as f64,
        ),
        s1("E1-75", "CH5.2, 10.2", "gate and up from one linear map save 50 % of the gate's parameters")
            .rounded("50", PERCENT, 1.0 - fused as f64 / apart as f64)
            .note("one matrix of 2 × 3072 rows has as many elements as two of 3072"),
        s1("E1-76", "CH7.1, 7.2", "1 + 7 = 8 candidates; 1 to 8 are accepted").count("8", 1 + MTP_MODULES),
        s1("E1-77", "CH10.1", "the indexer adds ~3.9M parameters a layer, 0.001 % of the total")
            .rounded("3.9", M, index / layers as f64)
            .rounded("0.001", PERCENT, index / layers as f64 / total)
            .note(format!("a layer's; that of all {layers} is {:.3} %", 100.0 * index / total)),
    ]
}

/// What S1 says of M2.7.
pub(super) fn against_m27(releases: &Releases) -> Vec<Claim> {
    let (m27, m3) = (&releases.m27, &releases.m3);
    let grown = |of: fn(&Hyperparameters) -> f64| of(m3) / of(m27);
    let [layers, _] = m27.feed_forward_layers();
    vec![
        s1("E1-30", "CH1.3", "from M2.7 to M3: hidden_size 2 times, context 4 times, RoPE theta 10 times")
            .rounded("2", TIMES, grown(|m| m.config.hidden_size as f64))
            .rounded("4", TIMES, grown(|m| m.config.max_position_embeddings as f64))
            .rounded("10", TIMES, grown(|m| m.config.rope_theta))
            .note("M2.7 takes 204,800 tokens, not 262K, and its theta is 5M, not 500K"),
        s1("E1-80", "CH1.2", "M2.7: ~275B in all, ~17B active, 46 layers of experts")
            .rounded("275", B, m27.total() as f64)
            .rounded("17", B, m27.active_in_layers() as f64)
            .count("46", layers)
            .note(format!(
                "another model's: M2.7 has {} of {} experts in each layer",
                m27.config.num_experts_per_tok, m27.config.num_local_experts
            )),
        grows(m3),
    ]
}

/// What a decoded token's attention costs as the context doubles.
fn grows(m: &Hyperparameters) -> Claim {
    let context = m.config.max_position_embeddings as f64;
    let growth = m.sparse_core(2.0 * context) / m.sparse_core(context);
    let scores = m.index_scores(1.0);
    s1("E1-79", "CH1.3", "MSA takes attention from O(T) to O(1) in decoding").exact("1", TIMES, growth).note(format!(
        "recomputed: growth where T is doubled from {context}; the index branch scores every key, {scores} · T operations"
    ))
}
