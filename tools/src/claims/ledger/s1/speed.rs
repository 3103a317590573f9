//! S1 CH0, CH3.6, CH10.1: how much faster block-sparse attention is.

use super::premises::{MILLION, s1};
use crate::claims::claim::Claim;
use crate::claims::flops::Work;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{GFLOP, MFLOP, PFLOP, TIMES};

/// CH3.6, by its formulas: T queries and T keys, where T is 10⁶.
pub(super) fn formulas(m: &Hyperparameters) -> Vec<Claim> {
    let (t, whole) = (MILLION, m.config.max_position_embeddings as f64);
    let chosen = m.chosen_keys().unwrap_or_default() as f64;
    let full = t * m.scores(t);
    // FLOPs of the index branch, and of the main branch those of QKᵀ alone.
    let sparse = t * (m.index_scores(t) + m.scores(chosen));
    let [full_layers, sparse_layers] = m.attention_layers().map(|layers| layers as f64);
    let all = full_layers + sparse_layers;
    let by_formulas = full * all / (sparse * sparse_layers + full * full_layers);
    let causal = |work| m.prefill(work, t) / if work == Work::FullAttention { full_layers } else { sparse_layers };
    let [causal_full, causal_sparse] =
        [causal(Work::FullAttention), causal(Work::SparseAttention) + causal(Work::IndexScores)];
    vec![
        s1("E1-35", "CH3.6", "prefill of 1M, a layer of full attention: 16,384 × T² = 16.38 PFLOP")
            .rounded("16.38", PFLOP, full)
            .note(format!(
                "at 10⁶ tokens; {:.2} at the 1,048,576 that it names. QKᵀ of every pair, which is as much as QKᵀ and softmax × V \
                 of the pairs that the causal mask leaves",
                whole * m.scores(whole) / PFLOP.scale
            )),
        s1("E1-36", "CH3.6", "prefill of 1M, a layer of MSA: 1024 × T² + 33.6M × T = 1.058 PFLOP")
            .rounded("1.058", PFLOP, sparse)
            .note(format!(
                "by its formula, which leaves out the main branch's softmax × V; {:.3} with that",
                t * m.sparse_core(t) / PFLOP.scale
            )),
        s1("E1-37", "CH0, 3.6", "MSA is 15.5 times faster in prefill of 1M")
            .rounded("15.5", TIMES, m.core(t) / m.sparse_core(t))
            .note(format!(
                "of the main branches only QKᵀ is counted, which is half of them, but all of the index branch; with the causal mask \
                 {:.1}×",
                causal_full / causal_sparse
            )),
        s1("E1-38", "CH3.6", "the formulas for L_attn = 60 layers, and L_MSA + L_Full, give 15.5×")
            .rounded("15.5", TIMES, by_formulas)
            .note("15.5 is the ratio of one layer to one; of the sums over layers that are written it is less"),
    ]
}

/// CH3.6 and CH10.1: a token that is decoded.
pub(super) fn layers(m: &Hyperparameters) -> Vec<Claim> {
    let (t, whole) = (MILLION, m.config.max_position_embeddings as f64);
    let ratio = |t| m.core(t) / m.sparse_core(t);
    let all = m.config.num_hidden_layers as f64;
    let attention = [Work::FullAttention, Work::SparseAttention, Work::IndexScores];
    let core: f64 = attention.map(|work| m.decode(work, whole)).iter().sum();
    let with_msa = m.decode_total(whole);
    let without = with_msa - core - m.decode(Work::IndexProjections, whole) + all * m.core(whole);
    vec![
        s1("E1-39", "CH3.6", "decoding at 1M, a layer of full attention: 16,384 × T ≈ 16.4 GFLOP")
            .rounded("16.4", GFLOP, m.core(t))
            .note("QKᵀ alone; softmax × V is as much again, as CH6.1 counts"),
        s1("E1-40", "CH3.6", "decoding at 1M, a layer of MSA: 512 × T + 33.6M ≈ 545.6 MFLOP")
            .rounded("545.6", MFLOP, m.sparse_core(t))
            .note("multiply-adds, of which each is two operations"),
        s1("E1-41", "CH0, 3.6", "16.4G / 545.6M ≈ 30.0 times faster in decoding at 1M")
            .rounded("30.0", TIMES, ratio(t))
            .note(format!("both are half of what they should be; {:.2} at 1,048,576", ratio(whole))),
        s1("E1-49", "CH6.1", "all layers' attention, 3 full and 57 of MSA, against 60 full")
            .unstated(TIMES, all * m.core(whole) / core)
            .note("in decoding at 1,048,576; no document has it"),
        s1("E1-78", "CH10.1, 10.2", "the indexer makes M3 decode with about 30 times fewer operations at 1M")
            .rounded("30", TIMES, without / with_msa)
            .note("of one layer of MSA; recomputed: all operations of a token, 60 layers of full attention against M3"),
    ]
}
