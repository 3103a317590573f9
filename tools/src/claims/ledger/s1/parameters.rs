//! S1 CH2.3.1 to CH2.3.6: parameters of the text model.

use reference::weights::{LayerWeight, Projection, Weight};

use super::premises::{DENSE, SPARSE, s1};
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::parameters::Part;
use crate::claims::unit::{B, M};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    [attention(m), networks(m)].concat()
}

fn attention(m: &Hyperparameters) -> Vec<Claim> {
    use LayerWeight as L;
    let of = |weight| m.elements(Weight::Layer(SPARSE, weight));
    let index = m.in_layer(SPARSE, |weight| Part::of(Weight::Layer(SPARSE, weight)) == Part::Index);
    let (projections, layers) = (m.projections(SPARSE) as f64, m.config.num_hidden_layers as f64);
    let [_, sparse] = m.attention_layers();
    let index_projections = of(L::IndexQProj) + of(L::IndexKProj);
    vec![
        s1("E1-01", "CH2.3.1, 2.3.5", "embedding and LM head: 200,064 × 6144 = 1,229,193,216 each")
            .count("1,229,193,216", m.part(Part::Embedding))
            .count("1,229,193,216", m.part(Part::LmHead)),
        s1("E1-02", "CH2.3.2", "Q, O: 6144 × 64 × 128 = 50,331,648; K, V: 6144 × 4 × 128 = 3,145,728")
            .count("50,331,648", of(L::QProj))
            .count("50,331,648", of(L::OProj))
            .count("3,145,728", of(L::KProj))
            .count("3,145,728", of(L::VProj)),
        s1("E1-03", "CH2.3.2", "Q, K, V and O of a layer: 106.95M").rounded("106.95", M, projections),
        s1("E1-04", "CH2.3.2", "index Q: 6144 × 4 × 128 = 3,145,728; index K: 6144 × 128 = 786,432")
            .count("3,145,728", of(L::IndexQProj))
            .count("786,432", of(L::IndexKProj)),
        s1("E1-05", "CH2.3.2", "indexer of a layer, with norms: 3.93M").rounded("3.93", M, index as f64),
        s1("E1-06", "CH2.3.2", "attention: 3 × 106.95M + 57 × (106.95M + 3.93M) = 6.64B").rounded(
            "6.64",
            B,
            layers * projections + (sparse * index_projections) as f64,
        ),
        norms(m),
    ]
}

fn norms(m: &Hyperparameters) -> Claim {
    let of_layers = m.part(Part::Norms) - m.elements(Weight::FinalNorm);
    let all = m.count(Weight::is_norm);
    s1("E1-12", "CH2.3.6", "two norms a layer: 0.74M; with the final and the QK norms ~1M")
        .rounded("0.74", M, of_layers as f64)
        .rounded("1", M, all as f64)
}

fn networks(m: &Hyperparameters) -> Vec<Claim> {
    use Projection::{Down, Gate, Up};
    let dense = |projection| m.elements(Weight::Layer(DENSE, LayerWeight::Dense(projection)));
    let dense_layer = dense(Gate) + dense(Up) + dense(Down);
    let shared = m.in_layer(SPARSE, |weight| matches!(weight, LayerWeight::Shared(_)));
    let experts = m.in_layer(SPARSE, |weight| matches!(weight, LayerWeight::Expert(..)));
    let router = m.elements(Weight::Layer(SPARSE, LayerWeight::Gate));
    let [layers, _] = m.feed_forward_layers();
    vec![
        s1("E1-07", "CH2.3.3", "dense: gate and up 150,994,944, down 75,497,472; 226.49M a layer, 0.679B in three")
            .count("150,994,944", dense(Gate) + dense(Up))
            .count("75,497,472", dense(Down))
            .rounded("226.49", M, dense_layer as f64)
            .rounded("0.679", B, m.part(Part::Dense) as f64),
        s1("E1-08", "CH2.3.4", "the shared expert and each routed one: 6144 × 2 × 3072 + 3072 × 6144 = 56,623,104")
            .count("56,623,104", shared)
            .count("56,623,104", m.expert(SPARSE)),
        s1("E1-09", "CH2.3.4", "128 experts of a layer: 7,247,757,312").count("7,247,757,312", experts),
        s1("E1-10", "CH2.3.4", "router: 128 × 6144 = 786,432").count("786,432", router),
        s1("E1-11", "CH2.3.4", "MoE: 57 × (7.25B + 0.0566B + 0.00079B) ≈ 57 × 7.31B ≈ 416.40B")
            .rounded("416.40", B, (layers * (experts + shared + router)) as f64)
            .note(format!("416.39 at the five digits that are stated; 57 × 7.31 is {:.2}", 57.0 * 7.31)),
    ]
}
