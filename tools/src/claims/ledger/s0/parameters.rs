//! S0 CH2.4, CH6.2: parameters.

use super::premises::{MTP_MODULES, s0};
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::parameters::Part;
use crate::claims::unit::{B, M, PERCENT};

/// The total as S0 states it, of which its shares are.
const STATED_TOTAL: f64 = 229.9e9;

/// The total, and the parts that it is made of.
pub(super) fn total(m: &Hyperparameters) -> Vec<Claim> {
    let part = |part| m.part(part) as f64;
    let [experts, attention] = [Part::RoutedExperts, Part::Attention].map(part);
    let [ends, other] = [[Part::Embedding, Part::LmHead], [Part::Router, Part::Norms]].map(|p| m.parts(&p) as f64);
    let (total, layer) = (m.total() as f64, m.in_layer(0, |_| true) as f64);
    let mtp = MTP_MODULES as f64 * layer;
    let rows: f64 = [224.7, 2.73, 1.23, 0.13, 0.5].iter().sum();
    let real_share = 100.0 * experts / total;
    vec![
        s0("E0-01", "CH2.4", "MoE: 62 × 256 × 3 × 3072 × 1536 = 224.7B").rounded("224.7", B, experts),
        s0("E0-02", "CH2.4", "MoE is 97.7 % of all parameters")
            .rounded("97.7", PERCENT, experts / STATED_TOTAL)
            .note(format!("of the 229.9 B that the document states; of the {:.1} B there are, {real_share:.2} %", total / 1e9)),
        s0("E0-03", "CH2.4", "attention, 62 layers with QK norm: 2.73B").rounded("2.73", B, attention),
        s0("E0-04", "CH2.4", "attention is 1.2 %").rounded("1.2", PERCENT, attention / STATED_TOTAL),
        s0("E0-05", "CH2.4", "embedding and LM head: 2 × 200064 × 3072 = 1.23B, 0.5 %")
            .rounded("1.23", B, ends)
            .rounded("0.5", PERCENT, ends / STATED_TOTAL),
        s0("E0-06", "CH2.4", "MTP, 3 × (attention + norm + output head): 0.13B, 0.06 %")
            .rounded("0.13", B, mtp)
            .rounded("0.06", PERCENT, mtp / (total + mtp))
            .note("0.13 B is the attention of three modules; CH6.2 gives each a whole layer, with its experts. The release \
                   has no weights of them"),
        s0("E0-07", "CH2.4", "other (gates, RMSNorm, …): ~0.5B, 0.2 %")
            .rounded("0.5", B, other)
            .rounded("0.2", PERCENT, other / STATED_TOTAL)
            .note("ten times what gates, correction biases and norms are"),
        s0("E0-08", "CH0, 2.4", "total 229.9B")
            .rounded("229.9", B, total)
            .note(format!("MTP and other are not in the release, and the rows of the table that states it sum to {rows:.2} B")),
        s0("E0-34", "CH6.2", "~44M parameters for each MTP module")
            .rounded("44", M, layer)
            .note("44 M is the attention alone; CH6.2 gives a module a whole layer, with its experts"),
    ]
}

/// What one token is computed with.
pub(super) fn active(m: &Hyperparameters) -> Vec<Claim> {
    let (attention, expert) = (m.projections(0) as f64, m.expert(0) as f64);
    let chosen = m.config.num_experts_per_tok as f64 * expert;
    let layers = m.config.num_hidden_layers as f64;
    let [in_layers, with_head] = [m.active_in_layers(), m.active_in_layers() + m.part(Part::LmHead)];
    vec![
        s0("E0-09", "CH2.4", "attention of a layer: 44.1M")
            .rounded("44.1", M, attention)
            .note(format!("44.0 M, with the QK norms {:.3} M", m.part(Part::Attention) as f64 / layers / 1e6)),
        s0("E0-10", "CH2.4", "an expert: 14.2M").rounded("14.2", M, expert),
        s0("E0-11", "CH2.4", "8 experts × 14.2M = 113.5M")
            .rounded("113.5", M, chosen)
            .note("nor is it 8 × 14.2 M, which is 113.6 M"),
        s0("E0-12", "CH0, 2.4", "active: 62 × (44.1M + 113.5M) ≈ 9.8B")
            .rounded("9.8", B, layers * (attention + chosen))
            .note(format!(
                "{:.2} B with routers and norms, {:.2} B with the LM head",
                in_layers as f64 / 1e9,
                with_head as f64 / 1e9
            )),
        s0("E0-13", "CH2.4", "a token activates 8 of 256 experts = 3.1 %").rounded(
            "3.1",
            PERCENT,
            m.config.num_experts_per_tok as f64 / m.config.num_local_experts as f64,
        ),
    ]
}
