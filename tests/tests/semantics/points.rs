//! Points of the semantics that ports are known to slip on, drawn.

use std::fmt::Debug;
use std::str::FromStr;

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use reference::Semantics;
use reference::semantics::{
    ActivationIn, AngleType, AxialAxes, AxialOrder, CacheForm, CacheGrid, CacheHalf, CacheSeam, CacheSteps, CacheType,
    ExpertGroups, FeaturePlaces, FinalNorm, Gelu, IndexCache, IndexHeads, IndexInput, IndexRotated, Merge, Merged,
    MsaTile, MtpConcat, MtpFirstEmbedding, MtpHidden, MtpTopology, NetworkInput, NormMean, OperandType, Paged,
    PostNormInput, QkNorm, ResidualFrom, RopeCall, RopeOn, RopePart, RopeScaling, Rotated, ScaleOf, ScoreType,
    SharedHead, SharedPage, Split, Stretch, Temperature, TileShares, Unseen, Unwritten, UpClamp, Viewed, WeightsOn,
    WholePages, Written, Zeros,
};
use strum::VariantNames;

/// One of the words of a point.
pub(super) fn word<E: Clone + Debug + FromStr<Err: Debug> + VariantNames + 'static>() -> impl Strategy<Value = E> {
    select(E::VARIANTS).prop_map(|word| word.parse().expect("one of its words"))
}

/// What each of them changes of the released reading.
pub(super) fn merged(parts: &[Semantics]) -> Semantics {
    let usual = Semantics::RELEASED.fields();
    let changed =
        parts.iter().flat_map(|part| part.fields().into_iter().zip(&usual)).filter(|(drawn, usual)| drawn != *usual);
    changed.fold(Semantics::RELEASED, |all, ((field, value), _)| all.with(field, &value).expect("a field"))
}

/// Points of modules of multi-token prediction.
pub(super) fn predicting() -> impl Strategy<Value = Semantics> {
    let points =
        (of(word::<MtpTopology>()), word::<MtpConcat>(), of(word::<MtpFirstEmbedding>()), of(word::<MtpHidden>()));
    points.prop_map(|(mtp_topology, mtp_concat, mtp_first_embedding, mtp_hidden)| Semantics {
        mtp_topology,
        mtp_concat,
        mtp_first_embedding,
        mtp_hidden,
        ..Semantics::RELEASED
    })
}

/// Points on which other models are otherwise: attention, the cache, the stream, and the index branch's own.
pub(super) fn attending() -> impl Strategy<Value = Semantics> {
    let norms = select(vec![None, Some(QkNorm::FullProjection), Some(QkNorm::PerHead), Some(QkNorm::None)]);
    let rope_on = || word::<RopeOn>();
    let from = || word::<ResidualFrom>();
    let angle = || word::<AngleType>();
    let temperature = (0.0..9.0, 1..99_usize, 0..2_usize);
    let temperature = temperature.prop_map(|(scale, every, first)| Temperature { scale, every, first });
    let cache = || word::<CacheType>();
    let pages = (word::<Paged>(), 1..99_usize);
    let pages = pages.prop_map(|(of, size)| WholePages { of, size });
    let page = (1..99_usize, 0..9_usize, 0..9_usize).prop_map(|(size, page, of)| SharedPage { size, page, of });
    let form = || {
        let grid = prop_oneof![
            (word::<CacheSteps>(), word::<ScaleOf>()).prop_map(|(steps, of)| CacheGrid::Scaled(steps, of)),
            (0.1..9.0).prop_map(CacheGrid::Clip),
            Just(CacheGrid::E5m2),
        ];
        (word::<CacheHalf>(), grid).prop_map(|(of, grid)| CacheForm { of, grid })
    };
    let scaling = (word::<Stretch>(), 0.1..99.0, 1..9999_usize);
    let scaling = scaling.prop_map(|(by, factor, original)| RopeScaling { by, factor, original });
    let rope = (
        (word::<RopeCall>(), rope_on(), of(-9..9_i32), of(scaling)),
        ([angle(), angle()], [of(0.1..9.0), of(0.1..9.0)], [norms.clone(), norms]),
    );
    let attention = (
        (of(0.1..99.0), of(-9.0..9.0), [of(1..99_usize), of(1..99_usize)], of(temperature)),
        [cache(), cache()],
        (of(pages), of(page), [of(form()), of(form())]),
        word::<CacheSeam>(),
    );
    let index = (
        word::<IndexInput>(),
        (word::<IndexRotated>(), rope_on(), of(word::<RopePart>())),
        (word::<IndexHeads>(), word::<IndexCache>()),
        ([of(-9..9_i32), of(-9..9_i32)], cache()),
    );
    let stream = (
        [from(), from()],
        [of(0.0..9.0), of(0.0..9.0), of(0.0..9.0), of(0.0..9.0), of(0.0..9.0)],
        word::<PostNormInput>(),
        of(-9..9_i32),
    );
    let unwritten = (word::<Written>(), 0..9_usize, of(9..99_usize));
    let unwritten = unwritten.prop_map(|(of, from, until)| Unwritten { of, from, until });
    let size = || of(1..99_usize);
    let width = || of(0.1..9.0);
    let shards = (size(), size(), size(), of(unwritten), word::<RopeCall>(), word::<ScoreType>(), [width(), width()]);
    let parts = (rope.boxed(), attention.boxed(), index.boxed(), stream.boxed(), shards.boxed());
    parts.prop_map(|(rope, attention, index, stream, shards)| Semantics {
        rope_call: rope.0.0,
        rope_decode: rope.0.1,
        key_shift: rope.0.2,
        rope_inv_freq: rope.1.0[0],
        rope_angle: rope.1.0[1],
        rope_linear: rope.1.1[0],
        rope_scale: rope.1.1[1],
        rope_scaling: rope.0.3,
        query_norm: rope.1.2[0],
        key_norm: rope.1.2[1],
        soft_cap: attention.0.0,
        attention_sink: attention.0.1,
        window: attention.0.2[0],
        prefix: attention.0.2[1],
        query_temperature: attention.0.3,
        cache_type: attention.1[0],
        cache_read: attention.1[1],
        whole_pages: attention.2.0,
        shared_page: attention.2.1,
        cache_form: attention.2.2[0],
        cache_read_form: attention.2.2[1],
        cache_seam: attention.3,
        causal_tile: shards.0,
        q_shards: shards.1,
        k_shards: shards.2,
        unwritten: shards.3,
        index_call: shards.4,
        router_scores: shards.5,
        q_norm_width: shards.6[0],
        k_norm_width: shards.6[1],
        index_input: index.0,
        index_rotated: index.1.0,
        index_rope_decode: index.1.1,
        attention_rope_part: index.1.2,
        index_heads: index.2.0,
        index_cache: index.2.1,
        msa_shift: index.3.0[0],
        index_shift: index.3.0[1],
        index_cache_type: index.3.1,
        attention_residual: stream.0[0],
        mlp_residual: stream.0[1],
        attention_alpha: stream.1[0],
        attention_beta: stream.1[1],
        mlp_alpha: stream.1[2],
        mlp_beta: stream.1[3],
        layer_scale: stream.1[4],
        post_norm_input: stream.2,
        logits_shift: stream.3,
        ..Semantics::RELEASED
    })
}

/// What attention sees, and how it weighs.
pub(super) fn weighing() -> impl Strategy<Value = Semantics> {
    let number = || 0..99_usize;
    let unseen = prop_oneof![
        (number(), number()).prop_map(|(from, to)| Unseen::Keys(from, to)),
        (number(), number()).prop_map(|(from, to)| Unseen::Before(from, to)),
        number().prop_map(Unseen::From),
        number().prop_map(Unseen::Seam),
        number().prop_map(Unseen::Prompt),
        (1..99_usize, number()).prop_map(|(size, at)| Unseen::Each(size, at)),
        Just(Unseen::Context),
    ];
    let zeros =
        prop_oneof![number().prop_map(Zeros::Count), number().prop_map(Zeros::Tile), number().prop_map(Zeros::Slots),];
    let split = prop_oneof![number().prop_map(Split::Keys), number().prop_map(Split::Parts)];
    let merged = (word::<Merge>(), split).prop_map(|(by, split)| Merged { by, split });
    let tile = (word::<TileShares>(), number()).prop_map(|(of, size)| MsaTile { of, size });
    let points = (
        (of(unseen), of(zeros), of(merged), of(tile)),
        (word::<OperandType>(), word::<Rotated>(), word::<Rotated>(), word::<OperandType>(), of(number())),
        (of(word::<CacheHalf>()), of(number()), word::<Viewed>()),
        of((number(), number()).prop_map(|(head, of)| SharedHead { head, of })),
    );
    points.prop_map(
        |((unseen, unfilled, merged, msa_tile), narrow, (tiled_heads, cache_ring, heads_viewed), shared_head)| {
            Semantics {
                shared_head,
                unseen,
                unfilled,
                merged,
                msa_tile,
                query_type: narrow.0,
                rope_queries: narrow.1,
                rope_keys: narrow.2,
                probability_type: narrow.3,
                query_channels: narrow.4,
                tiled_heads,
                cache_ring,
                heads_viewed,
                ..Semantics::RELEASED
            }
        },
    )
}

/// Slips in the router, the experts and the norms.
pub(super) fn slips() -> impl Strategy<Value = Semantics> {
    let input = || word::<NetworkInput>();
    let router = (
        of((1..99_usize, 1..99_usize).prop_map(|(groups, chosen)| ExpertGroups { groups, chosen })),
        (of(1..99_usize), word::<ActivationIn>()),
        (input(), input()),
        word::<ScoreType>(),
    );
    let rest = (word::<WeightsOn>(), word::<UpClamp>(), of(0.5..9.0), word::<NormMean>(), word::<FinalNorm>());
    (router, rest).prop_map(|(router, (weights_on, up_clamp, activated_limit, norm_mean, final_norm))| Semantics {
        expert_groups: router.0,
        expert_capacity: router.1.0,
        activation_in: router.1.1,
        router_input: router.2.0,
        shared_input: router.2.1,
        router_logits: router.3,
        weights_on,
        up_clamp,
        activated_limit,
        norm_mean,
        final_norm,
        ..Semantics::RELEASED
    })
}

/// Points that one place has of its own.
pub(super) fn places() -> impl Strategy<Value = Semantics> {
    use proptest::array::uniform11;
    let gelu = || of(word::<Gelu>());
    let seen = (
        [gelu(), gelu(), gelu()],
        word::<AxialOrder>(),
        word::<AxialAxes>(),
        word::<ScoreType>(),
        word::<FeaturePlaces>(),
    );
    (uniform11(of(0.0..1.0)), seen).prop_map(|(numbers, (gelu, axial_order, axial_axes, pixels, feature_places))| {
        let [input, post, last, q, k, index_q, index_k, all, layer, pre, scale] = numbers;
        Semantics {
            input_norm_eps: input,
            post_attention_norm_eps: post,
            final_norm_eps: last,
            q_norm_eps: q,
            k_norm_eps: k,
            index_q_norm_eps: index_q,
            index_k_norm_eps: index_k,
            vision_norm_eps: all,
            vision_layer_norm_eps: layer,
            vision_pre_norm_eps: pre,
            vision_score_scale: scale,
            tower_gelu: gelu[0],
            projector_gelu: gelu[1],
            merge_gelu: gelu[2],
            axial_order,
            axial_axes,
            pixels,
            feature_places,
            ..Semantics::RELEASED
        }
    })
}
