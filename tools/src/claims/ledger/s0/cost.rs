//! S0 CH2.5: operations of a token that is decoded after 192K others.

use super::premises::{CONTEXT, MILLION, s0};
use crate::claims::claim::Claim;
use crate::claims::flops::PER_PRODUCT;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{GFLOP, MFLOP, PERCENT, PFLOP, TFLOP};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let experts = PER_PRODUCT * (m.config.num_experts_per_tok * m.expert(0)) as f64;
    let layer = m.projection(0) + m.core(CONTEXT) + m.experts(0);
    let layers = m.config.num_hidden_layers as f64 * layer;
    let per_head = m.scores(CONTEXT) / m.config.num_attention_heads as f64;
    let one_head = format!("192K × 128 × 2 is {:.2} MFLOP, not GFLOP, and of one head of 48", per_head / 1e6);
    vec![
        s0("E0-18", "CH2.5", "QKV projection: 44.1M × 2 = 88.2 MFLOP")
            .rounded("88.2", MFLOP, m.projection(0))
            .note("44.04 M × 2, the output projection included"),
        s0("E0-19", "CH2.5", "QKᵀ: 192K × 128 × 2 = 49.2 GFLOP")
            .rounded("49.2", GFLOP, m.scores(CONTEXT))
            .note(one_head.clone()),
        s0("E0-20", "CH2.5", "softmax × V: 192K × 128 × 2 = 49.2 GFLOP")
            .rounded("49.2", GFLOP, m.scores(CONTEXT))
            .note(one_head),
        s0("E0-21", "CH2.5", "MoE: 8 × 3 × 3072 × 1536 × 2 = 226.5 MFLOP").rounded("226.5", MFLOP, experts),
        s0("E0-22", "CH2.5", "a layer: ~98.5 GFLOP").rounded("98.5", GFLOP, layer).note(format!(
            "follows from QKᵀ and softmax × V, which are wrong; the stated parts sum to {:.1}",
            0.0882 + 49.2 + 49.2 + 0.2265
        )),
        s0("E0-23", "CH2.5", "62 layers: ~6.1 TFLOP a token")
            .rounded("6.1", TFLOP, layers)
            .note("follows from the layer's, which is wrong"),
        s0("E0-24", "CH2.5", "1M tokens: ~6.1 PFLOP")
            .rounded("6.1", PFLOP, MILLION * layers)
            .note("10⁶ × 6.1 TFLOP would be 6.1 exaFLOP; both are wrong"),
        s0("E0-25", "CH2.5", "attention is 99.8 % (98.4 / 98.5 GFLOP) of a token's operations")
            .rounded("99.8", PERCENT, m.core(CONTEXT) / layer)
            .note(format!("of a layer at 192K; and 98.4 / 98.5 is {:.1} %", 100.0 * 98.4 / 98.5)),
    ]
}
