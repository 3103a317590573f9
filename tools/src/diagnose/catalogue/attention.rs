//! Mistakes in attention.

use reference::LayerSite::{Context, Probabilities, Scores};
use reference::Site;
use reference::config::Config;
use reference::semantics::{Paged, WholePages};

use super::mistake::{Change, Mistake, each, given, layer, reading};

/// Positions of a page of a cache.
pub(in crate::diagnose) const PAGES: [usize; 6] = [4, 8, 16, 32, 64, 128];

const ATTENTION: &[Site] = &[layer(Scores), layer(Probabilities), layer(Context)];

pub(in crate::diagnose) const SOFT_CAP: Mistake = Mistake {
    name: "soft_cap",
    about: "scores are capped softly, c·tanh(score/c), as in Gemma 2 and Grok",
    right: "scores are taken as they are",
    visible: "scores that are not small beside the cap, beyond position 0",
    touches: ATTENTION,
    ways: |_, _| each("soft_cap", &[20.0, 30.0, 50.0]),
};

pub(in crate::diagnose) const SINK: Mistake = Mistake {
    name: "attention_sink",
    about: "the softmax's denominator has a score more, of no key, as in gpt-oss and in the softmax that is off by one",
    right: "probabilities sum to 1",
    visible: "always",
    touches: &[layer(Probabilities), layer(Context)],
    ways: |_, _| reading("attention_sink", "0"),
};

pub(in crate::diagnose) const WINDOW: Mistake = Mistake {
    name: "sliding_window",
    about: "a token sees the nearest ones before it only",
    right: "a token sees all before it",
    visible: "from the position on that is as large as the window",
    touches: ATTENTION,
    ways: |_, clue| given(clue.position > 0, || reading("window", &clue.position.to_string())),
};

pub(in crate::diagnose) const PREFIX: Mistake = Mistake {
    name: "prefix_both_ways",
    about: "the first tokens see each other both ways, as a prompt does in PaliGemma",
    right: "a token sees those before it and itself",
    visible: "a prefix of more than one token, and tokens behind it",
    touches: ATTENTION,
    ways: |_, clue| given(clue.last + 2 < clue.tokens, || reading("prefix", &(clue.last + 2).to_string())),
};

pub(in crate::diagnose) const TEMPERATURE: Mistake = Mistake {
    name: "query_temperature",
    about: "queries are multiplied by a factor that grows with their position, as in Llama 4",
    right: "queries are normed and rotated, and no more",
    visible: "from the position on where the factor is not 1",
    touches: ATTENTION,
    ways: |_, clue| {
        let from = clue.position;
        given(from > 0, || [format!("0.1/{}", from + 1), format!("0.1/+{from}")].map(temperature).to_vec())
    },
};

fn temperature(value: String) -> Change {
    Change::Reading("query_temperature", value)
}

pub(in crate::diagnose) const SEAM: Mistake = Mistake {
    name: "kv_cache_seam",
    about: "where one call's keys and values follow another's, a row is overwritten, or was never written, or those of the \
            calls before are not seen",
    right: "the cache has a row for each token, and later calls see them all",
    visible: "prompts in several calls, or decode steps",
    touches: ATTENTION,
    ways: |_, clue| {
        let of = |seam| reading("cache_seam", seam);
        let unseen = |keys: &str| reading("unseen", keys);
        let context = clue.context;
        let nothing = || [unseen("context"), unseen(&format!("prompt:{context}"))].concat();
        [of("overwritten"), of("zero_before"), of("zero_after"), given(context > 0, nothing)].concat()
    },
};

pub(super) const MISTAKES: &[Mistake] = &[
    SOFT_CAP,
    SINK,
    WINDOW,
    PREFIX,
    TEMPERATURE,
    Mistake {
        name: "no_mask",
        about: "a token sees all others, as in an encoder",
        right: "a token sees those before it and itself",
        visible: "a prompt of more than one token, layers that attend to all tokens",
        touches: ATTENTION,
        ways: |_, _| reading("causal", "all"),
    },
    Mistake {
        name: "values_rotated",
        about: "values are rotated like keys",
        right: "queries and keys rotate",
        visible: "beyond position 0",
        touches: &[layer(Context)],
        ways: |_, _| reading("rope_on", "query_key_value"),
    },
    Mistake {
        name: "kv_cache_narrow",
        about: "keys and values, or one of them, are kept in a narrower type, without a scale",
        right: "the cache has the activations' type",
        visible: "activations that are finer",
        touches: ATTENTION,
        ways: |_, _| narrow("cache_type"),
    },
    Mistake {
        name: "kv_cache_read_narrow",
        about: "keys and values of the calls before, or one of them, are read from a cache of a narrower type, and the call's \
                own are as they are",
        right: "the cache has the activations' type",
        visible: "activations that are finer, and prompts in several calls, or decode steps",
        touches: ATTENTION,
        ways: |_, clue| given(clue.context > 0, || narrow("cache_read")),
    },
    SEAM,
    Mistake {
        name: "kv_cache_whole_pages",
        about: "later calls see keys of whole pages alone, and not those of the page that is not full",
        right: "a token sees all before it and itself",
        visible: "prompts in several calls, or decode steps, where keys do not fill pages",
        touches: ATTENTION,
        ways: |_, clue| {
            let all =
                [Paged::Context, Paged::Keys].into_iter().flat_map(|of| PAGES.map(|size| WholePages { of, size }));
            let lost = all.filter(|pages| pages.lost(clue.tokens - clue.context, clue.tokens).is_some());
            lost.map(|pages| Change::Reading("whole_pages", pages.to_string())).collect()
        },
    },
    Mistake {
        name: "gqa_repeat_vs_tile",
        about: "query head h reads key head h mod G instead of ⌊h·G/H⌋",
        right: "neighbouring query heads share a key head",
        visible: "more than one key head, and more query heads than key heads",
        touches: ATTENTION,
        ways: |config, _| {
            let (heads, groups) = (config.num_attention_heads, config.num_key_value_heads);
            given(groups > 1 && heads > groups, || reading("key_head", "tiled"))
        },
    },
    Mistake {
        name: "scale_missing",
        about: "scores are not scaled by 1/√head_dim",
        right: "scores are scaled by 1/√head_dim",
        visible: "beyond position 0",
        touches: ATTENTION,
        ways: |_, _| reading("attention_scale", "none"),
    },
    Mistake {
        name: "scale_hidden",
        about: "scores are scaled by another width than the head's",
        right: "scores are scaled by 1/√head_dim",
        visible: "beyond position 0",
        touches: ATTENTION,
        ways: |config, _| {
            let of_rotated = given(partial(config), || reading("attention_scale", "rotary_dim"));
            [of_rotated, reading("attention_scale", "half_head_dim")].concat()
        },
    },
    Mistake {
        name: "causal_off_by_one",
        about: "a token sees the next one, too, or does not see itself",
        right: "a token sees those before it and itself",
        visible: "a prompt of more than one token",
        touches: ATTENTION,
        ways: |_, _| [reading("causal", "ahead"), reading("causal", "strict")].concat(),
    },
    Mistake {
        name: "softmax_bf16",
        about: "the softmax takes scores in bf16, and gives probabilities in bf16",
        right: "the softmax is computed in f32",
        visible: "activations that are finer than bf16, beyond position 0",
        touches: ATTENTION,
        ways: |_, _| reading("attention_softmax", "bf16"),
    },
];

fn partial(config: &Config) -> bool {
    config.rotary_dim < config.head_dim && config.rotary_dim != config.head_dim / 2 && config.rotary_dim > 0
}

/// Types of a cache that are narrower than the activations'.
fn narrow(field: &'static str) -> Vec<Change> {
    let types = ["e4m3", "bf16", "e4m3_keys", "e4m3_values", "bf16_keys", "bf16_values"];
    types.into_iter().flat_map(|of| reading(field, of)).collect()
}
