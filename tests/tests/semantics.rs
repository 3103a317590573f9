//! `reference/src/semantics.rs`.

use proptest::prelude::*;
use reference::Semantics;
use reference::semantics::{
    AttentionScale, Causal, EpsPlace, Expert, KeyHead, NormOrder, PositionShift, QkNorm, QkNormOn, Renormalize,
    RopeFrequency, RopeOn, RopePair, RopePart, RopePosition, RouterEps, RouterScore, RoutingWeights,
};

fn semantics() -> impl Strategy<Value = Semantics> {
    use proptest::option::of;
    use proptest::sample::select;
    let rope = (
        select(vec![RopePart::First, RopePart::Last]),
        select(vec![RopePair::Half, RopePair::Interleaved]),
        of(0..999_usize),
        of(0.0..1e9),
    );
    let norm = (
        select(vec![QkNorm::FullProjection, QkNorm::PerHead, QkNorm::None]),
        select(vec![EpsPlace::Inside, EpsPlace::Outside]),
    );
    let router = (
        of(0..99_usize),
        select(vec![Expert::Gated, Expert::Nongated]),
        select(vec![RoutingWeights::Unbiased, RoutingWeights::Biased]),
        select(vec![RouterEps::Zero, RouterEps::Tiny]),
        select(vec![RouterScore::Sigmoid, RouterScore::SoftmaxTopk]),
    );
    let attention = (
        select(vec![AttentionScale::HeadDim, AttentionScale::None, AttentionScale::RotaryDim]),
        select(vec![KeyHead::Grouped, KeyHead::Tiled]),
        select(vec![Causal::Inclusive, Causal::Ahead, Causal::Strict]),
        select(vec![NormOrder::NormFirst, NormOrder::RopeFirst]),
        select(vec![QkNormOn::QueryKey, QkNormOn::Query, QkNormOn::QueryKeyValue]),
        of(1..99_usize),
    );
    let rotation = (
        select(vec![RopeOn::QueryKey, RopeOn::Query, RopeOn::None]),
        select(vec![RopeFrequency::RotaryDim, RopeFrequency::HeadDim]),
        select(vec![RopePosition::F32, RopePosition::Bf16]),
        of((0..99_usize, -9..9_i32).prop_map(|(from, by)| PositionShift { from, by })),
        select(vec![Renormalize::Chosen, Renormalize::Nothing, Renormalize::All]),
    );
    (rope, norm, router, attention, rotation).prop_map(|(rope, norm, router, attention, rotation)| Semantics {
        rope_part: rope.0,
        rope_pair: rope.1,
        rotary_dim: rope.2,
        rope_theta: rope.3,
        qk_norm: norm.0,
        eps_place: norm.1,
        top_k: router.0,
        expert: router.1,
        routing_weights: router.2,
        router_eps: router.3,
        router_score: router.4,
        attention_scale: attention.0,
        key_head: attention.1,
        causal: attention.2,
        norm_order: attention.3,
        qk_norm_on: attention.4,
        qk_shards: attention.5,
        rope_on: rotation.0,
        rope_frequency: rotation.1,
        rope_position: rotation.2,
        position_shift: rotation.3,
        renormalize: rotation.4,
    })
}

proptest! {
    #[test]
    fn what_is_printed_parses(semantics in semantics()) {
        prop_assert_eq!(semantics.to_string().parse(), Ok(semantics));
    }

    /// All fields can be named, and each override changes its own field.
    #[test]
    fn overrides_are_the_fields(semantics in semantics()) {
        let all: Vec<String> = semantics.fields().iter().map(|(name, value)| format!("{name}={value}")).collect();
        prop_assert_eq!(format!("released,{}", all.join(",")).parse(), Ok(semantics));
        for (i, one) in all.iter().enumerate() {
            let changed: Semantics = format!("documents,{one}").parse().expect("a field");
            for (j, (own, preset)) in changed.fields().iter().zip(Semantics::DOCUMENTS.fields()).enumerate() {
                prop_assert_eq!(own == &preset, i != j || semantics.fields()[i] == preset);
            }
        }
    }
}

#[test]
fn presets() {
    assert_eq!("documents".parse(), Ok(Semantics::DOCUMENTS));
    assert_eq!("released".parse(), Ok(Semantics::RELEASED));
    assert_eq!(Semantics::default(), Semantics::DOCUMENTS);
    assert_eq!(Semantics::DOCUMENTS.to_string(), "documents");
    let changed = Semantics { top_k: Some(2), rope_theta: Some(5e5), ..Semantics::DOCUMENTS };
    assert_eq!(changed.to_string(), "documents,rope_theta=500000,top_k=2");
    assert_eq!("documents,top_k=2,top_k=config".parse(), Ok(Semantics::DOCUMENTS));
}

#[test]
fn words_that_are_none() {
    for (text, want) in [
        ("", r#"semantics preset = "", expected documents or released"#),
        ("both", r#"semantics preset = "both", expected documents or released"#),
        ("documents,top_k", r#"semantics override = "top_k", expected field=value"#),
        ("documents,", r#"semantics override = "", expected field=value"#),
        ("documents,rope_part=middle", r#"rope_part = "middle", expected first or last"#),
        ("documents,qk_norm=per-head", r#"qk_norm = "per-head", expected full_projection or per_head or none"#),
        ("documents,router_eps=1", r#"router_eps = "1", expected 0 or 1e-20"#),
        ("documents,top_k=-1", r#"top_k = "-1", expected a number or config"#),
        ("documents,rope_theta=x", r#"rope_theta = "x", expected a number or config"#),
        (
            "documents,rope=first",
            "semantics field = \"rope\", expected one of rope_part, rope_pair, rotary_dim, rope_theta, qk_norm, \
             eps_place, top_k, expert, routing_weights, router_eps, router_score, attention_scale, key_head, causal, \
             norm_order, rope_on, rope_frequency, rope_position, qk_norm_on, renormalize, position_shift, qk_shards",
        ),
    ] {
        assert_eq!(text.parse::<Semantics>().expect_err("no semantics").to_string(), want);
    }
}
