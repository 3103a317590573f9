//! S1 CH6.1: experts and dense layers, for a token.

use reference::weights::{LayerWeight, Projection};

use super::premises::{DENSE, SPARSE, s1};
use crate::claims::claim::Claim;
use crate::claims::flops::PER_PRODUCT;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::{GFLOP, MFLOP, ONE};

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let of = |layer, is_chosen: fn(LayerWeight) -> bool| PER_PRODUCT * m.in_layer(layer, is_chosen) as f64;
    let down = of(SPARSE, |weight| matches!(weight, LayerWeight::Shared(Projection::Down)));
    let shared = of(SPARSE, |weight| matches!(weight, LayerWeight::Shared(_)));
    let dense = of(DENSE, |weight| matches!(weight, LayerWeight::Dense(_)));
    let routed = PER_PRODUCT * (m.config.num_experts_per_tok * m.expert(SPARSE)) as f64;
    let [layers, dense_layers] = m.feed_forward_layers().map(|layers| layers as f64);
    vec![
        s1("E1-50", "CH6.1", "shared expert: 75,497,472 + 37,748,736 = 113,246,208 ≈ 113.2M")
            .exact("75,497,472", ONE, shared - down)
            .exact("37,748,736", ONE, down)
            .exact("113,246,208", ONE, shared)
            .rounded("113.2", MFLOP, shared),
        s1("E1-51", "CH6.1", "4 routed experts: 4 × 113.2M = 452.8M")
            .rounded("452.8", MFLOP, routed)
            .note("a product of 113.2, which is rounded"),
        s1("E1-52", "CH6.1", "router: 2 × 6144 × 128 = 1,572,864").exact("1,572,864", ONE, m.router()),
        s1("E1-53", "CH6.1", "a MoE layer: 113.2 + 452.8 + 1.6 = 567.6M; 57 of them ≈ 32.4G")
            .rounded("567.6", MFLOP, m.experts(SPARSE))
            .rounded("32.4", GFLOP, layers * m.experts(SPARSE))
            .note("a sum of rounded numbers"),
        s1("E1-54", "CH6.1", "a dense layer 0.45G, 3 of them 1.36G").rounded("0.45", GFLOP, dense).rounded(
            "1.36",
            GFLOP,
            dense_layers * dense,
        ),
    ]
}
