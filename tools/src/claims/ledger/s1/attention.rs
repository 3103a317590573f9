//! S1 CH6.1: attention of a token that is decoded at 1,048,576.

use super::premises::s1;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{GFLOP, ONE, TIMES};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let c = &m.config;
    let Some(index) = c.index else { return Vec::new() };
    let t = c.max_position_embeddings;
    let (keys, chosen) = (t as f64, (index.blocks.top_k * index.blocks.size) as f64);
    let [full, sparse] = m.attention_layers().map(|layers| layers as f64);
    let pooled = index.heads * t.div_ceil(index.blocks.size);
    vec![
        s1("E1-42", "CH6.1", "a layer of full attention: 32,768 × 1,048,576 = 34,359,738,368 ≈ 34.4G")
            .exact("34,359,738,368", ONE, m.core(keys))
            .rounded("34.4", GFLOP, m.core(keys)),
        s1("E1-43", "CH6.1", "3 layers of full attention: 103.1G").rounded("103.1", GFLOP, full * m.core(keys)),
        s1("E1-44", "CH6.1", "index QKᵀ: 2 × 4 × 128 × T = 1024T; block scoring: 4 × 8192 ≈ 32,768, negligible")
            .exact("1024", ONE, m.index_scores(1.0))
            .count("32,768", pooled)
            .note(format!(
                "so many maxima; taking them compares every score, {:.2} M at 1,048,576, which is negligible, too",
                (index.heads * t) as f64 / 1e6
            )),
        s1("E1-45", "CH6.1", "main QKᵀ and softmax × V of 2048 tokens: 33,554,432 each, 67,108,864")
            .exact("33,554,432", ONE, m.scores(chosen))
            .exact("67,108,864", ONE, m.core(chosen)),
        s1("E1-46", "CH6.1", "a layer of MSA: 1073.7M + 67.1M ≈ 1.14G; 57 of them 65.0G")
            .rounded("1.14", GFLOP, m.sparse_core(keys))
            .rounded("65.0", GFLOP, sparse * m.sparse_core(keys)),
        s1("E1-47", "CH6.1", "57 layers, were they of full attention: 57 × 34.4G = 1960.8G")
            .rounded("1960.8", GFLOP, sparse * m.core(keys))
            .note("a product of 34.4, which is rounded"),
        s1("E1-48", "CH6.1", "1960.8 / 65.0 ≈ 30.2 times faster")
            .rounded("30.2", TIMES, m.core(keys) / m.sparse_core(keys))
            .note("a ratio of rounded numbers"),
    ]
}
