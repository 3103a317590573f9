//! S0 CH2.1, CH2.3, CH3.5, CH6.2: ratios and widths.

use super::premises::{MTP_MODULES, s0};
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{KI, PERCENT, TIMES};

/// θ of Llama 3.
const THETA_LLAMA_3: f64 = 5e5;

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let c = &m.config;
    let [heads, kv_heads] = [c.num_attention_heads, c.num_key_value_heads].map(|heads| heads as f64);
    let ratio = heads / kv_heads;
    let [expert, hidden] = [c.intermediate_size, c.hidden_size].map(|width| width as f64);
    let positions = c.max_position_embeddings as f64;
    vec![
        s0("E0-14", "CH2.3", "8 of 48 heads are cached = 17 %").rounded("17", PERCENT, kv_heads / heads),
        s0("E0-15", "CH2.1", "GQA ratio = 6").exact("6", TIMES, ratio),
        s0("E0-16", "CH2.3", "an expert's 1536 is 50 % of the hidden 3072").rounded("50", PERCENT, expert / hidden),
        s0("E0-17", "CH2.1, 2.3, 7.1", "rope_theta is 10 times Llama 3's").exact(
            "10",
            TIMES,
            c.rope_theta / THETA_LLAMA_3,
        ),
        s0("E0-31", "CH3.5", "Q is 6144 wide, K and V 1024 each, 6 times less")
            .count("6144", c.query_width())
            .count("1024", c.key_width())
            .exact("6", TIMES, ratio),
        s0("E0-33", "CH2.1", "max_position_embeddings 204,800 is ~192K")
            .rounded("192", KI, positions)
            .note("204,800 is 200 · 1024; 192 · 1024 = 196,608 was that of M2"),
        s0("E0-35", "CH6.2", "3 draft tokens are verified in one forward pass")
            .count("3", MTP_MODULES)
            .note("which yields one to four tokens"),
    ]
}
