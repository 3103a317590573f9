//! Mistakes in the residual stream, and at the end of the model.

use reference::LayerSite::{Output, PostAttentionNorm, Residual};
use reference::Site;
use reference::config::Config;

use super::mistake::{Change, Clue, Mistake, each, layer, reading};

const FIRST: &[Site] = &[layer(Residual), layer(PostAttentionNorm)];
const SECOND: &[Site] = &[layer(Output)];
const BOTH: &[Site] = &[layer(Residual), layer(PostAttentionNorm), layer(Output)];

/// What MiniMax-Text-01 multiplies its residual stream by.
const TEXT_01: f64 = 3.556_558_820_077_845_5;

const ADDED: &str = "what a block computes is added once to the stream that it read";

pub(in crate::diagnose) const ATTENTION_ALPHA: Mistake = scaled(FIRST, |_, _| each("attention_alpha", &[TEXT_01]));
pub(in crate::diagnose) const MLP_ALPHA: Mistake = scaled(SECOND, |_, _| each("mlp_alpha", &[TEXT_01]));
pub(in crate::diagnose) const ATTENTION_BETA: Mistake = weighed(FIRST, |_, _| each("attention_beta", &[2.0]));
pub(in crate::diagnose) const MLP_BETA: Mistake = weighed(SECOND, |_, _| each("mlp_beta", &[2.0]));

type Ways = fn(&Config, Clue) -> Vec<Change>;

const fn scaled(touches: &'static [Site], ways: Ways) -> Mistake {
    Mistake {
        name: "residual_scaled",
        about: "the stream that a block's output is added to is multiplied by a factor, as MiniMax-Text-01's α",
        right: ADDED,
        visible: "always",
        touches,
        ways,
    }
}

const fn weighed(touches: &'static [Site], ways: Ways) -> Mistake {
    Mistake {
        name: "block_scaled",
        about: "a block's output is multiplied by a factor before it is added, or is added twice",
        right: ADDED,
        visible: "always",
        touches,
        ways,
    }
}

pub(super) const MISTAKES: &[Mistake] = &[
    ATTENTION_ALPHA,
    MLP_ALPHA,
    ATTENTION_BETA,
    MLP_BETA,
    Mistake {
        name: "block_left_out",
        about: "a block's output is not added to the stream",
        right: ADDED,
        visible: "always",
        touches: BOTH,
        ways: |_, _| [reading("attention_beta", "0"), reading("mlp_beta", "0")].concat(),
    },
    Mistake {
        name: "residual_left_out",
        about: "the stream goes on as a block's output alone",
        right: ADDED,
        visible: "always",
        touches: BOTH,
        ways: |_, _| [reading("attention_alpha", "0"), reading("mlp_alpha", "0")].concat(),
    },
    Mistake {
        name: "residual_after_norm",
        about: "a block's output is added to what the norm before it gives, instead of to what that reads",
        right: ADDED,
        visible: "always",
        touches: BOTH,
        ways: |_, _| {
            let of = |field| reading(field, "normed");
            [of("attention_residual"), of("mlp_residual")].concat()
        },
    },
    Mistake {
        name: "parallel_blocks",
        about: "the feed-forward network's norm reads what attention's does, as in GPT-J",
        right: "it reads the stream with attention's output",
        visible: "always",
        touches: FIRST,
        ways: |_, _| reading("post_norm_input", "layer"),
    },
    Mistake {
        name: "norm_without_residual",
        about: "the feed-forward network's norm reads attention's output alone, as before a fused sum",
        right: "it reads the stream with attention's output",
        visible: "always",
        touches: FIRST,
        ways: |_, _| reading("post_norm_input", "attention"),
    },
    Mistake {
        name: "logits_shifted",
        about: "each row of logits is that of the token before it, or after it",
        right: "a row of logits is of its own token",
        visible: "a prompt of more than one token",
        touches: &[Site::LmHead, Site::Logits],
        ways: |_, _| [reading("logits_shift", "1"), reading("logits_shift", "-1")].concat(),
    },
];
