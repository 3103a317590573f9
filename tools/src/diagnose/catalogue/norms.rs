//! Mistakes in the norms.

use reference::LayerSite::{Context, IndexKNorm, IndexQNorm, InputNorm, KNorm, PostAttentionNorm, QNorm};
use reference::Site;
use reference::config::Config;
use reference::ranks::Ranks;
use reference::semantics::{NormWeight, QkNorm};

use super::mistake::{Change, Mistake, each, given, layer, reading};
use super::weights::WeightChange;

const BOTH: &[Site] = &[layer(QNorm), layer(KNorm)];
const EVERY: &[Site] = &[
    layer(InputNorm),
    layer(QNorm),
    layer(KNorm),
    layer(IndexQNorm),
    layer(IndexKNorm),
    layer(PostAttentionNorm),
    Site::FinalNorm,
];
/// Those of the residual stream.
const OF_STREAM: &[Site] = &[layer(InputNorm), layer(PostAttentionNorm), Site::FinalNorm];
/// Into how many parts engines split a projection.
const PARTS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Query heads that 48 are padded to where 64 devices share them.
const PADDED: (f64, f64) = (48.0, 64.0);
/// How often 8 key heads are replicated where 16, 32 and 64 devices share them.
const REPLICAS: [usize; 3] = [2, 4, 8];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "qk_per_head_on_M2",
        about: "queries and keys, or one of them, are normed head by head instead of over the whole projection",
        right: "one mean square over all heads of a token: so the released code, and document 002; documents 000 \
                (chapter 2.5) and 003 have one a head",
        visible: "more than one head",
        touches: BOTH,
        ways: |config, _| {
            let several = is_full(config) && config.num_attention_heads > 1;
            given(several, || over("per_head"))
        },
    },
    Mistake {
        name: "qk_full_on_M3",
        about: "queries and keys, or one of them, are normed over the whole projection instead of head by head",
        right: "M3 norms each head by itself, as qk_norm_type of config.json says",
        visible: "more than one head",
        touches: BOTH,
        ways: |config, _| {
            let several = config.qk_norm == QkNorm::PerHead && config.num_attention_heads > 1;
            given(several, || over("full_projection"))
        },
    },
    Mistake {
        name: "qk_local_variance_TP",
        about: "each device norms its own part of the projection by that part's mean square",
        right: "the sum of squares is summed over all devices",
        visible: "more than one device",
        touches: BOTH,
        ways: |config, _| {
            // As many parts as heads is the norm by head.
            let parts = |n: &&usize| parted(config, **n);
            let of = |field, heads| {
                let parts = PARTS.iter().filter(parts).filter(move |n| **n < heads);
                parts.map(move |n| Change::Reading(field, n.to_string()))
            };
            let (queries, keys) = (config.num_attention_heads, config.num_key_value_heads);
            of("qk_shards", queries).chain(of("q_shards", queries)).chain(of("k_shards", keys)).collect()
        },
    },
    Mistake {
        name: "qk_rank_const",
        about: "every device takes the first device's part of the query norm's weight",
        right: "each device takes its own part (document 002, section 2.1)",
        visible: "more than one device, and weights that differ between the parts",
        touches: &[layer(QNorm)],
        ways: |config, _| {
            let mut parts: Vec<usize> =
                PARTS.into_iter().filter_map(|devices| parts_of_heads(config, devices)).collect();
            parts.dedup();
            parts.into_iter().map(|n| Change::Weights(WeightChange::FirstPart(n))).collect()
        },
    },
    Mistake {
        name: "qk_divisor_padded_q",
        about: "the queries' sum of squares is divided by the padded width",
        right: "it is divided by the projection's own width",
        visible: "heads padded to the number of devices",
        touches: &[layer(QNorm)],
        ways: |config, _| given(is_full(config), || each("q_norm_width", &[PADDED.1 / PADDED.0])),
    },
    Mistake {
        name: "qk_divisor_unreplicated_k",
        about: "the replicated keys' sum of squares is divided by the width without the replicas",
        right: "the sum counts each key once",
        visible: "keys replicated over devices",
        touches: &[layer(KNorm)],
        ways: |config, _| {
            let widths = REPLICAS.map(|n| 1.0 / n as f64);
            given(is_full(config), || each("k_norm_width", &widths))
        },
    },
    Mistake {
        name: "knorm_elementwise_repeat",
        about: "the key norm's weight is repeated element by element instead of head by head, and cut to its length",
        right: "each replica of a key head takes that head's part",
        visible: "keys replicated over devices",
        touches: &[layer(KNorm)],
        ways: |config, _| {
            let ways = [WeightChange::RepeatedElements, WeightChange::RepeatedInHeads];
            let repeated = ways.into_iter().flat_map(|way| REPLICAS.map(|n| Change::Weights(way(n))));
            given(is_full(config), || repeated.collect())
        },
    },
    Mistake {
        name: "knorm_shard_when_tp_gt_kv",
        about: "more devices than key heads cut the key norm's weight among them, and each has part of a head's only",
        right: "each replica of a key head takes that head's whole part",
        visible: "keys replicated over devices",
        touches: &[layer(KNorm)],
        ways: |config, _| {
            let cut = REPLICAS.into_iter().filter(|n| is_full(config) && config.head_dim.is_multiple_of(*n));
            cut.map(|n| Change::Weights(WeightChange::CutByRank(n))).collect()
        },
    },
    Mistake {
        name: "gemma_plus_one_on_M2",
        about: "norms multiply by 1 + w",
        right: "M2's norms multiply by w; M3's by 1 + w",
        visible: "always",
        touches: EVERY,
        ways: |config, _| {
            let plain = config.norm_weight == NormWeight::Plain;
            given(plain, || vec![Change::Weights(WeightChange::PlusOne)])
        },
    },
    Mistake {
        name: "gemma_missing_plus_one",
        about: "norms multiply by w",
        right: "M3's norms multiply by 1 + w",
        visible: "always",
        touches: EVERY,
        ways: |config, _| {
            let gemma = config.norm_weight == NormWeight::OnePlus;
            given(gemma, || reading("norm_weight", "plain"))
        },
    },
    Mistake {
        name: "eps_outside",
        about: "ε is added to the root instead of inside it, as document 003 has it",
        right: "x / √(mean x² + ε): so the released code, and all documents but 003",
        visible: "rows so small that ε counts",
        touches: EVERY,
        ways: |_, _| reading("eps_place", "outside"),
    },
    Mistake {
        name: "layer_norm_for_rms",
        about: "the mean is taken off before a row is scaled: a LayerNorm stands in RMSNorm's place",
        right: "x / √(mean x² + ε)",
        visible: "rows whose mean is not 0",
        touches: OF_STREAM,
        ways: |_, _| reading("norm_mean", "subtracted"),
    },
    Mistake {
        name: "final_norm_missing",
        about: "the head reads the residual stream instead of its norm",
        right: "the last norm stands before the head",
        visible: "always",
        touches: &[Site::FinalNorm],
        ways: |_, _| reading("final_norm", "missing"),
    },
    Mistake {
        name: "qk_norm_missing",
        about: "queries and keys are not normed",
        right: "both are, before the rotation",
        visible: "always",
        touches: BOTH,
        ways: |_, _| reading("qk_norm", "none"),
    },
    Mistake {
        name: "qk_norm_not_on_k",
        about: "keys are not normed",
        right: "queries and keys are",
        visible: "always",
        touches: &[layer(KNorm)],
        ways: |_, _| reading("qk_norm_on", "query"),
    },
    Mistake {
        name: "qk_norm_on_v",
        about: "values are normed, too",
        right: "queries and keys only",
        visible: "always",
        touches: &[layer(Context)],
        ways: |_, _| reading("qk_norm_on", "query_key_value"),
    },
];

/// Both norms over another part of the projection, or one of them.
fn over(what: &str) -> Vec<Change> {
    ["qk_norm", "query_norm", "key_norm"].into_iter().flat_map(|field| reading(field, what)).collect()
}

/// Whether a norm is over the whole projection, of which devices have parts.
fn is_full(config: &Config) -> bool {
    config.qk_norm == QkNorm::FullProjection
}

fn parted(config: &Config, parts: usize) -> bool {
    is_full(config) && config.num_attention_heads.is_multiple_of(parts)
}

/// Into how many parts of whole heads a projection is split on so many devices: heads that are padded are no part of it.
fn parts_of_heads(config: &Config, devices: usize) -> Option<usize> {
    let padded = Ranks::heads_of(config, devices)?;
    let (heads, each) = (config.num_attention_heads, padded / devices);
    (is_full(config) && heads > each && heads.is_multiple_of(each)).then(|| heads / each)
}
