//! Mistakes in the vision tower, and in the projector behind it.

use reference::Site;
use reference::config::{Config, Vision};
use reference::site::VisionLayerSite::{self, Context, KRope, QRope};
use reference::site::VisionSite::{
    Activation, Embeddings, Layer, Linear1, MergeActivation, MergeLinear1, RopeCos, RopeSin,
};

use super::mistake::{Change, Mistake, given, reading};

const fn of_layer(site: VisionLayerSite) -> Site {
    Site::Vision(0, Layer(0, site))
}

/// A reading, where there is a tower for which it is another.
fn seen(config: &Config, matters: fn(&Vision) -> bool, field: &'static str, value: &str) -> Vec<Change> {
    given(config.vision.as_ref().is_some_and(matters), || reading(field, value))
}

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "conv_weight_order",
        about: "the patch embedding's weight is read with time before colour",
        right: "colour, time, row, column",
        visible: "images and videos, several colours and frames a patch",
        touches: &[Site::Vision(0, Embeddings)],
        ways: |config, _| {
            let both = |vision: &Vision| vision.patch.channels > 1 && vision.patch.frames > 1;
            seen(config, both, "patch_order", "time_first")
        },
    },
    Mistake {
        name: "rope3d_axis_contiguous",
        about: "each axis rotates a run of channels of its own, whose halves are paired",
        right: "i pairs with i + half of all channels that rotate: so the released code",
        visible: "images and videos",
        touches: &[of_layer(QRope), of_layer(KRope)],
        ways: |config, _| seen(config, |_| true, "axial_pair", "axis_contiguous"),
    },
    Mistake {
        name: "video_t_not_reset",
        about: "the time of a video's chunk goes on from the chunk before it",
        right: "each chunk begins at time 0",
        visible: "a video of several chunks",
        touches: &[Site::Vision(0, RopeCos), Site::Vision(0, RopeSin), of_layer(QRope), of_layer(KRope)],
        ways: |config, _| seen(config, |_| true, "chunk_time", "continued"),
    },
    Mistake {
        name: "vision_global_attention",
        about: "patches attend to those of all images that go through the tower together",
        right: "to those of their own image, or chunk of a video: so transformers since 5.14; document 001 (chapter \
                4.2) has all",
        visible: "several images, or a video of several chunks",
        touches: &[of_layer(Context)],
        ways: |config, _| seen(config, |_| true, "vision_attention", "global"),
    },
    Mistake {
        name: "gelu_tanh",
        about: "GELU is approximated by tanh",
        right: "GELU is exact, by erf: so the released code; document 001 does not say",
        visible: "images and videos",
        touches: &[
            of_layer(VisionLayerSite::Activation),
            Site::Vision(0, Activation),
            Site::Vision(0, MergeActivation),
        ],
        ways: |config, _| seen(config, |_| true, "gelu", "tanh"),
    },
    Mistake {
        name: "post_layernorm_applied",
        about: "the last layer is followed by a norm, whose weights no checkpoint has",
        right: "none follows it",
        visible: "images and videos",
        touches: &[Site::Vision(0, Linear1)],
        ways: |config, _| seen(config, |_| true, "vision_post_norm", "applied"),
    },
    Mistake {
        name: "merge_order_rowmajor",
        about: "the four patches of a token are taken as if patches came row by row",
        right: "they come one after the other",
        visible: "an image or a video wider than one token",
        touches: &[Site::Vision(0, MergeLinear1)],
        ways: |config, _| seen(config, |vision| vision.spatial_merge_size > 1, "merge_order", "row_major"),
    },
];
