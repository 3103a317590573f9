//! Mistakes in attention.

use reference::LayerSite::{Context, Probabilities, Scores};
use reference::Site;
use reference::config::Config;

use super::mistake::{Mistake, given, layer, reading};

const ATTENTION: &[Site] = &[layer(Scores), layer(Probabilities), layer(Context)];

pub(super) const MISTAKES: &[Mistake] = &[
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
