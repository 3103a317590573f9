//! Mistakes in the rotary position embedding.

use reference::LayerSite::{IndexKRope, IndexQRope, KNorm, KRope, QNorm, QRope};
use reference::Site::{self, RopeCos, RopeSin};
use reference::config::Config;

use super::mistake::{Change, Mistake, each, given, layer, reading};

const ROTATION: &[Site] = &[layer(QRope), layer(KRope), layer(IndexQRope), layer(IndexKRope)];
const TABLE: &[Site] = &[RopeCos, RopeSin, layer(QRope), layer(KRope), layer(IndexQRope), layer(IndexKRope)];

pub(in crate::diagnose) const FACTOR: Mistake = Mistake {
    name: "rope_attention_factor",
    about: "cosines and sines are multiplied by a factor, as YaRN's attention factor 1 + 0.1·ln s",
    right: "they are taken as they are",
    visible: "rotary_dim above 0",
    touches: TABLE,
    ways: |config, _| given(config.rotary_dim > 0, || each("rope_scale", &yarn())),
};

pub(in crate::diagnose) const LINEAR: Mistake = Mistake {
    name: "rope_linear_scaling",
    about: "positions are divided by a factor, for a longer context",
    right: "positions count tokens",
    visible: "beyond position 0",
    touches: TABLE,
    ways: |config, _| given(config.rotary_dim > 0, || each("rope_linear", &[2.0, 4.0, 8.0])),
};

pub(in crate::diagnose) const KEY_POSITION: Mistake = Mistake {
    name: "key_position_offset",
    about: "keys are rotated by other positions than queries",
    right: "both are rotated by their own token's position",
    visible: "always",
    touches: &[layer(KRope)],
    ways: |config, _| given(config.rotary_dim > 0, || each("key_shift", &[1.0, -1.0])),
};

/// The factors of `YaRN` for contexts that are so many times longer.
fn yarn() -> [f64; 5] {
    [2.0, 4.0, 8.0, 16.0, 32.0].map(|times: f64| 1.0 + 0.1 * times.ln())
}

pub(super) const MISTAKES: &[Mistake] = &[
    FACTOR,
    LINEAR,
    KEY_POSITION,
    Mistake {
        name: "rope_frequencies_bf16",
        about: "the inverse frequencies are rounded to bf16 or f16, as when the whole model is cast",
        right: "they are f32",
        visible: "rotary_dim above 2, beyond position 0",
        touches: TABLE,
        ways: |config, _| narrow(config, "rope_inv_freq"),
    },
    Mistake {
        name: "rope_angles_bf16",
        about: "angles are rounded to bf16 or f16 before their cosines and sines are taken",
        right: "they are f32",
        visible: "rotary_dim above 2, beyond position 0",
        touches: TABLE,
        ways: |config, _| narrow(config, "rope_angle"),
    },
    Mistake {
        name: "rope_restarted",
        about: "positions count from 0 in every call, so that decode steps are not rotated",
        right: "positions count from 0, over prompt and decode",
        visible: "prompts in several calls, or decode steps",
        touches: TABLE,
        ways: |_, _| reading("rope_call", "restarted"),
    },
    Mistake {
        name: "rope_missing_in_decode",
        about: "queries or keys of decode steps are not rotated",
        right: "queries and keys of every token rotate",
        visible: "decode steps",
        touches: ROTATION,
        ways: |_, _| [reading("rope_decode", "query"), reading("rope_decode", "key")].concat(),
    },
    Mistake {
        name: "rope_full_128",
        about: "all channels of a head rotate, because rotary_dim was lost",
        right: "rotary_dim channels rotate, as config.json says",
        visible: "rotary_dim below head_dim, beyond position 0",
        touches: TABLE,
        ways: |config, _| rotates(config, config.head_dim),
    },
    Mistake {
        name: "rope_double_partial",
        about: "the partial factor is applied twice, so half as many channels rotate",
        right: "rotary_dim channels rotate, as config.json says",
        visible: "beyond position 0",
        touches: TABLE,
        ways: |config, _| rotates(config, config.rotary_dim / 4 * 2),
    },
    Mistake {
        name: "rope_last_half",
        about: "the last channels of each head rotate instead of the first",
        right: "the first rotary_dim channels rotate: so the released code, and documents 001 and 002; document 000 \
                has the last",
        visible: "rotary_dim below head_dim, beyond position 0",
        touches: ROTATION,
        ways: |config, _| {
            let of_attention = given(config.index.is_some(), || reading("attention_rope_part", "last"));
            given(config.rotary_dim < config.head_dim, || [reading("rope_part", "last"), of_attention].concat())
        },
    },
    Mistake {
        name: "rope_interleaved",
        about: "channels 2i and 2i + 1 form a pair instead of i and i + rotary_dim / 2",
        right: "channel i is paired with i + rotary_dim / 2: so the released code; no document says",
        visible: "rotary_dim above 2, beyond position 0",
        touches: ROTATION,
        ways: |config, _| given(config.rotary_dim > 2, || reading("rope_pair", "interleaved")),
    },
    Mistake {
        name: "rope_wrong_dim_in_freq",
        about: "the frequencies' exponent is divided by head_dim instead of rotary_dim",
        right: "θ^(−2i/rotary_dim)",
        visible: "rotary_dim above 2 and below head_dim, beyond position 0",
        touches: TABLE,
        ways: |config, _| {
            let differs = config.rotary_dim < config.head_dim && config.rotary_dim > 2;
            given(differs, || reading("rope_frequency", "head_dim"))
        },
    },
    Mistake {
        name: "rope_theta_500k",
        about: "θ is 500,000",
        right: "θ is the configuration's rope_theta",
        visible: "another θ in the configuration, rotary_dim above 2, beyond position 0",
        touches: TABLE,
        ways: |config, _| theta(config, 500_000.0),
    },
    Mistake {
        name: "rope_theta_10k",
        about: "θ is 10,000, the usual default",
        right: "θ is the configuration's rope_theta",
        visible: "another θ in the configuration, rotary_dim above 2, beyond position 0",
        touches: TABLE,
        ways: |config, _| theta(config, 10_000.0),
    },
    Mistake {
        name: "rope_position_offset",
        about: "positions are off from one token on",
        right: "positions count from 0, over prompt and decode",
        visible: "from that token on; a shift of all positions cancels in the scores",
        touches: TABLE,
        ways: |_, clue| {
            let at = |by: &str| Change::Reading("position_shift", format!("{}{by}", clue.position));
            vec![at("+1"), at("-1")]
        },
    },
    Mistake {
        name: "rope_bf16_position",
        about: "positions are kept in bf16, which cannot tell those above 256 apart",
        right: "positions and angles are f32",
        visible: "beyond position 256",
        touches: TABLE,
        ways: |_, _| reading("rope_position", "bf16"),
    },
    Mistake {
        name: "rope_before_norm",
        about: "queries, keys, or both are rotated before they are normed",
        right: "norm, then rotation",
        visible: "norm weights that differ within a pair, beyond position 0",
        touches: &[layer(QNorm), layer(KNorm), layer(QRope), layer(KRope)],
        ways: |_, _| {
            let orders = ["rope_first", "query_rope_first", "key_rope_first"];
            orders.into_iter().flat_map(|order| reading("norm_order", order)).collect()
        },
    },
    Mistake {
        name: "kv_cache_pre_rope",
        about: "keys are stored, and used, without rotation",
        right: "the cache holds keys after norm and rotation",
        visible: "beyond position 0",
        touches: &[layer(KRope)],
        ways: |_, _| reading("rope_on", "query"),
    },
    Mistake {
        name: "rope_missing",
        about: "nothing rotates",
        right: "queries and keys rotate",
        visible: "beyond position 0",
        touches: ROTATION,
        ways: |_, _| reading("rope_on", "none"),
    },
];

fn rotates(config: &Config, channels: usize) -> Vec<Change> {
    let room = config.index.is_none_or(|index| channels <= index.head_dim);
    given(room && channels != config.rotary_dim, || reading("rotary_dim", &channels.to_string()))
}

fn narrow(config: &Config, field: &'static str) -> Vec<Change> {
    given(config.rotary_dim > 2, || [reading(field, "bf16"), reading(field, "f16")].concat())
}

fn theta(config: &Config, theta: f64) -> Vec<Change> {
    let differs = config.rope_theta.to_bits() != theta.to_bits() && config.rotary_dim > 2;
    given(differs, || reading("rope_theta", &theta.to_string()))
}
