//! S1 CH6.1: projections, and the sum of all operations of a token that is decoded at 1,048,576.

use super::premises::{SPARSE, s1};
use crate::claims::claim::Claim;
use crate::claims::flops::Work;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{GFLOP, MFLOP};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let context = m.config.max_position_embeddings as f64;
    let work = |work| m.decode(work, context);
    let (layer, all) = (m.projection(SPARSE), work(Work::Projections));
    let [index, head] = [Work::IndexProjections, Work::LmHead].map(|part| work(part) / GFLOP.scale);
    vec![
        s1("E1-55", "CH6.1, table", "projections: ~0.07G a layer, 4.2G")
            .rounded("0.07", GFLOP, layer)
            .rounded("4.2", GFLOP, all)
            .note("a third of what the text below the table has"),
        s1("E1-56", "CH6.1, text", "projections: 2 × 106.95M = 213.9M a layer, 60 of them ≈ 12.8G")
            .rounded("213.9", MFLOP, layer)
            .rounded("12.8", GFLOP, all),
        s1("E1-57", "CH6.1", "a decoded token at 1M: ~206G").rounded("206", GFLOP, m.decode_total(context)).note(format!(
            "its projections are {:.1} G too few, and index projections ({index:.2} G) and LM head ({head:.2} G) are left out",
            all / GFLOP.scale - 4.2
        )),
    ]
}
