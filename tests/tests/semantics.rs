//! `reference/src/semantics.rs`.

use proptest::prelude::*;
use reference::Semantics;
use reference::semantics::{
    Activation, AttentionScale, AxialPair, Causal, ChunkTime, EpsPlace, Expert, ExpertChoice, GateClamp, Gelu,
    IndexKey, IndexMask, IndexNorm, KeyHead, MergeOrder, MsaLayout, MsaLocal, MsaMask, MsaOwn, MsaPad, MsaPool,
    MsaScoreScale, MsaSelect, NormOrder, NormWeight, PatchOrder, PositionShift, PostNorm, QkNorm, QkNormOn,
    Renormalize, RopeFrequency, RopeOn, RopePair, RopePart, RopePosition, RouterEps, RouterScore, RoutingWeights,
    ScoreType, SharedScale, Shifted, VisionSpan,
};
use tests::repository;

mod points;

use points::{attending, merged, places, predicting, slips, weighing, word};

fn semantics() -> impl Strategy<Value = Semantics> {
    use proptest::option::of;
    use proptest::sample::select;
    let rope = (word::<RopePart>(), word::<RopePair>(), of(0..999_usize), of(0.0..1e9));
    let norm = (
        select(vec![None, Some(QkNorm::FullProjection), Some(QkNorm::PerHead), Some(QkNorm::None)]),
        word::<EpsPlace>(),
        [of(0.0..1.0), of(0.0..1.0)],
    );
    let router =
        (of(0..99_usize), word::<Expert>(), word::<RoutingWeights>(), word::<RouterEps>(), word::<RouterScore>());
    let attention = (
        (word::<AttentionScale>(), of(0.0..9.0)),
        word::<KeyHead>(),
        word::<Causal>(),
        word::<NormOrder>(),
        word::<QkNormOn>(),
        of(1..99_usize),
    );
    let rotation = (
        word::<RopeOn>(),
        word::<RopeFrequency>(),
        word::<RopePosition>(),
        of((0..99_usize, shifted()).prop_map(|(from, to)| PositionShift { from, to })),
        word::<Renormalize>(),
        word::<ScoreType>(),
        word::<ExpertChoice>(),
    );
    let m2 = (rope.boxed(), norm.boxed(), router.boxed(), attention.boxed(), rotation.boxed());
    // Each part on the heap: by value, the drawn trees of all points are more than a test's stack.
    let m3 = (
        sparse().boxed(),
        attending().boxed(),
        slips().boxed(),
        places().boxed(),
        predicting().boxed(),
        weighing().boxed(),
    );
    let m3 = m3.prop_map(|(a, b, c, d, e, f)| merged(&[a, b, c, d, e, f]));
    (m2.boxed(), m3.boxed(), feed_forward().boxed(), vision().boxed()).prop_map(
        |((rope, norm, router, attention, rotation), m3, ffn, seen)| Semantics {
            gate_clamp: ffn.gate_clamp,
            activation: ffn.activation,
            up_beta: ffn.up_beta,
            swiglu_limit: ffn.swiglu_limit,
            gate_alpha: ffn.gate_alpha,
            routed_scale: ffn.routed_scale,
            shared_scale: ffn.shared_scale,
            norm_weight: ffn.norm_weight,
            rope_part: rope.0,
            rope_pair: rope.1,
            rotary_dim: rope.2,
            rope_theta: rope.3,
            qk_norm: norm.0,
            eps_place: norm.1,
            norm_eps: norm.2[0],
            qk_norm_eps: norm.2[1],
            top_k: router.0,
            expert: router.1,
            routing_weights: router.2,
            router_eps: router.3,
            router_score: router.4,
            attention_scale: attention.0.0,
            score_scale: attention.0.1,
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
            attention_softmax: rotation.5,
            expert_choice: rotation.6,
            vision_attention: seen.vision_attention,
            gelu: seen.gelu,
            axial_pair: seen.axial_pair,
            merge_order: seen.merge_order,
            chunk_time: seen.chunk_time,
            patch_order: seen.patch_order,
            vision_post_norm: seen.vision_post_norm,
            ..m3
        },
    )
}

fn shifted() -> impl Strategy<Value = Shifted> {
    prop_oneof![
        (-9..9_i32).prop_map(Shifted::By),
        (0..99_usize).prop_map(Shifted::At),
        (1..99_usize).prop_map(Shifted::Modulo),
    ]
}

/// Points of the vision tower.
fn vision() -> impl Strategy<Value = Semantics> {
    let points = (
        word::<VisionSpan>(),
        word::<Gelu>(),
        word::<AxialPair>(),
        word::<MergeOrder>(),
        word::<ChunkTime>(),
        word::<PatchOrder>(),
        word::<PostNorm>(),
    );
    points.prop_map(|(vision_attention, gelu, axial_pair, merge_order, chunk_time, patch_order, vision_post_norm)| {
        Semantics {
            vision_attention,
            gelu,
            axial_pair,
            merge_order,
            chunk_time,
            patch_order,
            vision_post_norm,
            ..Semantics::RELEASED
        }
    })
}

/// Points of M3's attention.
fn sparse() -> impl Strategy<Value = Semantics> {
    use proptest::option::of;
    let choice = (word::<MsaSelect>(), word::<MsaLocal>(), word::<MsaScoreScale>(), word::<MsaPool>());
    let slips = (word::<MsaPad>(), word::<MsaMask>(), word::<KeyHead>(), word::<RopeOn>(), word::<IndexNorm>());
    let kernels = (word::<MsaOwn>(), word::<MsaLayout>(), word::<IndexKey>(), word::<IndexMask>(), word::<ScoreType>());
    let counts = (of(0..9_usize), of(0..99_usize), of(0..9_usize), of(1..99_usize));
    (choice, slips, kernels, counts).prop_map(|(choice, slips, kernels, (init, top_k, local, block))| Semantics {
        msa_select: choice.0,
        msa_local: choice.1,
        msa_score_scale: choice.2,
        msa_pool: choice.3,
        msa_init_block: init,
        msa_top_k: top_k,
        msa_local_block: local,
        msa_block: block,
        msa_pad: slips.0,
        msa_mask: slips.1,
        msa_group: slips.2,
        index_rope: slips.3,
        index_norm: slips.4,
        msa_own: kernels.0,
        msa_layout: kernels.1,
        index_key: kernels.2,
        index_mask: kernels.3,
        index_scores: kernels.4,
        ..Semantics::RELEASED
    })
}

/// Points of M3's norms and feed-forward networks.
fn feed_forward() -> impl Strategy<Value = Semantics> {
    use proptest::option::of;
    let gate = (word::<GateClamp>(), of(word::<Activation>()), (of(-9.0..9.0), of(0.5..9.0), of(0.0..9.0)));
    let rest = (of(0.0..9.0), word::<SharedScale>(), of(word::<NormWeight>()));
    (gate, rest).prop_map(
        |((gate_clamp, activation, (up_beta, swiglu_limit, gate_alpha)), (routed_scale, shared_scale, norm_weight))| {
            Semantics {
                gate_clamp,
                activation,
                up_beta,
                swiglu_limit,
                gate_alpha,
                routed_scale,
                shared_scale,
                norm_weight,
                ..Semantics::RELEASED
            }
        },
    )
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
    assert_eq!(Semantics::RELEASED.to_string(), "released");
    // What transformers 5.12 computes: all heads choose alike, as the documents say, and the gate is clamped from above.
    let early = Semantics { gate_clamp: GateClamp::Upper, ..Semantics::DOCUMENTS };
    assert_eq!(early.to_string(), "documents,gate_clamp=upper");
    assert_eq!(Semantics { msa_select: MsaSelect::HeadMax, ..Semantics::RELEASED }, early);
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
        (
            "documents,qk_norm=per-head",
            r#"qk_norm = "per-head", expected full_projection or per_head or none or config"#,
        ),
        ("documents,router_eps=1", r#"router_eps = "1", expected 0 or 1e-20"#),
        ("documents,top_k=-1", r#"top_k = "-1", expected a number or config"#),
        ("documents,rope_theta=x", r#"rope_theta = "x", expected a number or config"#),
    ] {
        assert_eq!(text.parse::<Semantics>().expect_err("no semantics").to_string(), want);
    }
    let names: Vec<&str> = Semantics::DOCUMENTS.fields().iter().map(|(name, _)| *name).collect();
    let unknown = "documents,rope=first".parse::<Semantics>().expect_err("no such field");
    assert_eq!(unknown.to_string(), format!("semantics field = \"rope\", expected one of {}", names.join(", ")));
}

/// A point concerns an operator of the reference, which has a file of that name; together they are the fields.
#[test]
fn points_are_grouped_by_operators() {
    for (operator, _) in Semantics::OPERATORS {
        assert!(repository::path(&format!("reference/src/ops/{operator}.rs")).is_file(), "{operator}");
    }
    let grouped: Vec<&str> = Semantics::OPERATORS.iter().flat_map(|(_, fields)| *fields).copied().collect();
    let fields: Vec<&str> = Semantics::DOCUMENTS.fields().iter().map(|(name, _)| *name).collect();
    assert_eq!(grouped, fields);
}
