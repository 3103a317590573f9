//! `reference/src/semantics.rs`.

use proptest::prelude::*;
use reference::Semantics;
use reference::semantics::{
    Activation, AttentionScale, AxialPair, Causal, ChunkTime, EpsPlace, Expert, ExpertChoice, GateClamp, Gelu,
    IndexKey, IndexMask, IndexNorm, KeyHead, MergeOrder, MsaLayout, MsaLocal, MsaMask, MsaOwn, MsaPad, MsaPool,
    MsaScoreScale, MsaSelect, NormOrder, NormWeight, PatchOrder, PositionShift, PostNorm, QkNorm, QkNormOn,
    Renormalize, RopeFrequency, RopeOn, RopePair, RopePart, RopePosition, RouterEps, RouterScore, RoutingWeights,
    ScoreType, SharedScale, VisionSpan,
};
use tests::repository;

mod points;

use points::{attending, merged, places, slips};

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
        select(vec![None, Some(QkNorm::FullProjection), Some(QkNorm::PerHead), Some(QkNorm::None)]),
        select(vec![EpsPlace::Inside, EpsPlace::Outside]),
        [of(0.0..1.0), of(0.0..1.0)],
    );
    let router = (
        of(0..99_usize),
        select(vec![Expert::Gated, Expert::Nongated]),
        select(vec![RoutingWeights::Unbiased, RoutingWeights::Biased, RoutingWeights::Uniform, RoutingWeights::Ones]),
        select(vec![RouterEps::Zero, RouterEps::Tiny]),
        select(vec![
            RouterScore::Sigmoid,
            RouterScore::SoftmaxTopk,
            RouterScore::BiasedSigmoid,
            RouterScore::SqrtSoftplus,
        ]),
    );
    let attention = (
        (select(vec![AttentionScale::HeadDim, AttentionScale::None, AttentionScale::RotaryDim]), of(0.0..9.0)),
        select(vec![KeyHead::Grouped, KeyHead::Tiled]),
        select(vec![Causal::Inclusive, Causal::Ahead, Causal::Strict, Causal::All]),
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
        select(vec![ScoreType::F32, ScoreType::Bf16]),
        select(vec![ExpertChoice::Distinct, ExpertChoice::Best, ExpertChoice::NotFirst, ExpertChoice::NotLast]),
    );
    let m2 = (rope, norm, router, attention, rotation);
    let m3 = (sparse(), attending(), slips(), places());
    let m3 = m3.prop_map(|(sparse, attending, slips, places)| merged(&[sparse, attending, slips, places]));
    (m2, m3, feed_forward(), vision()).prop_map(|((rope, norm, router, attention, rotation), m3, ffn, seen)| {
        Semantics {
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
        }
    })
}

/// Points of the vision tower.
fn vision() -> impl Strategy<Value = Semantics> {
    use proptest::sample::select;
    let points = (
        select(vec![VisionSpan::Segmented, VisionSpan::Global, VisionSpan::Frame, VisionSpan::Causal]),
        select(vec![Gelu::Erf, Gelu::Tanh, Gelu::Quick]),
        select(vec![AxialPair::Half, AxialPair::AxisContiguous, AxialPair::Interleaved]),
        select(vec![MergeOrder::Block, MergeOrder::RowMajor, MergeOrder::ColumnMajor, MergeOrder::Reversed]),
        select(vec![ChunkTime::Reset, ChunkTime::Continued]),
        select(vec![PatchOrder::ColourFirst, PatchOrder::TimeFirst]),
        select(vec![PostNorm::None, PostNorm::Applied]),
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
    use proptest::sample::select;
    let choice = (
        select(vec![MsaSelect::HeadMax, MsaSelect::PerGroup]),
        select(vec![MsaLocal::OwnBlock, MsaLocal::FirstBlock, MsaLocal::CallBlock, MsaLocal::None]),
        select(vec![MsaScoreScale::One, MsaScoreScale::HeadDim]),
        select(vec![MsaPool::Max, MsaPool::Mean, MsaPool::Lse]),
    );
    let slips = (
        select(vec![MsaPad::Masked, MsaPad::Zero]),
        select(vec![MsaMask::Token, MsaMask::Block, MsaMask::All]),
        select(vec![KeyHead::Grouped, KeyHead::Tiled]),
        select(vec![RopeOn::QueryKey, RopeOn::Query, RopeOn::None]),
        select(vec![IndexNorm::Own, IndexNorm::Swapped, IndexNorm::None]),
    );
    let kernels = (
        select(vec![MsaOwn::Once, MsaOwn::Twice]),
        select(vec![MsaLayout::TokenMajor, MsaLayout::HeadMajor]),
        select(vec![IndexKey::Own, IndexKey::Main]),
        select(vec![IndexMask::Token, IndexMask::Block]),
        select(vec![ScoreType::F32, ScoreType::Bf16]),
    );
    let counts = (of(0..9_usize), of(0..99_usize));
    (choice, slips, kernels, counts).prop_map(|(choice, slips, kernels, (init, top_k))| Semantics {
        msa_select: choice.0,
        msa_local: choice.1,
        msa_score_scale: choice.2,
        msa_pool: choice.3,
        msa_init_block: init,
        msa_top_k: top_k,
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
    use proptest::sample::select;
    let gate = (
        select(vec![GateClamp::Upper, GateClamp::Symmetric, GateClamp::None]),
        of(select(vec![Activation::Swiglu, Activation::SwigluOai, Activation::Geglu, Activation::Reglu])),
        (of(-9.0..9.0), of(0.5..9.0), of(0.0..9.0)),
    );
    let rest = (
        of(0.0..9.0),
        select(vec![SharedScale::One, SharedScale::Routed, SharedScale::Reciprocal, SharedScale::Twice]),
        of(select(vec![NormWeight::Plain, NormWeight::OnePlus])),
    );
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
        (
            "documents,rope=first",
            "semantics field = \"rope\", expected one of rope_part, rope_pair, rotary_dim, rope_theta, rope_on, \
             rope_frequency, rope_position, attention_rope_part, position_shift, key_shift, rope_call, rope_decode, \
             rope_inv_freq, \
             rope_angle, rope_linear, rope_scale, norm_weight, eps_place, norm_eps, input_norm_eps, \
             post_attention_norm_eps, final_norm_eps, norm_mean, final_norm, qk_norm, qk_norm_on, qk_shards, \
             qk_norm_eps, q_norm_eps, k_norm_eps, query_norm, key_norm, norm_order, attention_scale, score_scale, \
             key_head, causal, attention_softmax, soft_cap, attention_sink, window, prefix, query_temperature, \
             cache_type, cache_seam, cache_read, whole_pages, shared_page, \
             msa_select, msa_local, msa_init_block, msa_score_scale, msa_pool, msa_top_k, \
             msa_pad, index_rope, index_norm, index_key, index_mask, index_q_norm_eps, index_k_norm_eps, \
             index_scores, index_input, index_rope_part, index_rope_decode, index_heads, msa_mask, msa_group, \
             msa_own, msa_layout, msa_shift, attention_residual, attention_alpha, attention_beta, mlp_residual, \
             mlp_alpha, mlp_beta, post_norm_input, top_k, routing_weights, router_eps, router_score, renormalize, \
             expert_choice, expert_groups, router_input, router_logits, activation, activation_in, \
             expert, gate_clamp, up_clamp, activated_limit, gate_alpha, up_beta, swiglu_limit, routed_scale, \
             weights_on, expert_capacity, shared_input, shared_scale, logits_shift, vision_attention, \
             vision_score_scale, gelu, tower_gelu, projector_gelu, merge_gelu, axial_pair, axial_order, \
             axial_axes, chunk_time, merge_order, patch_order, pixels, vision_post_norm, vision_norm_eps, \
             vision_layer_norm_eps, vision_pre_norm_eps, feature_places",
        ),
    ] {
        assert_eq!(text.parse::<Semantics>().expect_err("no semantics").to_string(), want);
    }
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
