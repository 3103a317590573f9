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

const ROTATION: &[Site] = &[Site::Vision(0, RopeCos), Site::Vision(0, RopeSin), of_layer(QRope), of_layer(KRope)];
const GELU: &[Site] =
    &[of_layer(VisionLayerSite::Activation), Site::Vision(0, Activation), Site::Vision(0, MergeActivation)];

/// Everywhere, and in each place alone.
fn in_each_place(config: &Config, kind: &str) -> Vec<Change> {
    let fields = ["gelu", "tower_gelu", "projector_gelu", "merge_gelu"];
    fields.iter().flat_map(|field| seen(config, |_| true, field, kind)).collect()
}

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "conv_weight_order",
        about: "the patch embedding's weight, or the pixels, are read with time before colour",
        right: "colour, time, row, column",
        visible: "images and videos, several colours and frames a patch",
        touches: &[Site::Vision(0, Embeddings)],
        ways: |config, _| {
            let both = |vision: &Vision| vision.patch.channels > 1 && vision.patch.frames > 1;
            let of = |order| seen(config, both, "patch_order", order);
            [of("time_first"), of("pixels_time_first")].concat()
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
        name: "vision_causal",
        about: "a patch sees those before it alone",
        right: "patches attend to all of their own image, or chunk of a video",
        visible: "images and videos",
        touches: &[of_layer(Context)],
        ways: |config, _| seen(config, |_| true, "vision_attention", "causal"),
    },
    Mistake {
        name: "vision_frames_apart",
        about: "patches attend to those of their own time alone: each pair of frames is a picture of its own",
        right: "to those of their own chunk of a video",
        visible: "a video of more frames than a patch has",
        touches: &[of_layer(Context)],
        ways: |config, _| seen(config, |_| true, "vision_attention", "frame"),
    },
    Mistake {
        name: "vision_positions_raster",
        about: "the rotation takes patches to come row by row",
        right: "they come square by square, of which each becomes a token",
        visible: "an image or a video wider than one token",
        touches: ROTATION,
        ways: |config, _| seen(config, |vision| vision.spatial_merge_size > 1, "axial_order", "raster"),
    },
    Mistake {
        name: "vision_axes_exchanged",
        about: "time, height and width rotate each other's channels, or time none",
        right: "the first third of the angles is of time, then height, then width",
        visible: "images and videos",
        touches: ROTATION,
        ways: |config, _| {
            let others = ["time_width_height", "height_width_time", "zero_height_width", "height_width"];
            others.iter().flat_map(|other| seen(config, |_| true, "axial_axes", other)).collect()
        },
    },
    Mistake {
        name: "rope3d_interleaved",
        about: "channels 2i and 2i + 1 form a pair",
        right: "i pairs with i + half of all channels that rotate: so the released code",
        visible: "images and videos",
        touches: &[of_layer(QRope), of_layer(KRope)],
        ways: |config, _| seen(config, |_| true, "axial_pair", "interleaved"),
    },
    Mistake {
        name: "gelu_tanh",
        about: "GELU is approximated by tanh, everywhere or in one place",
        right: "GELU is exact, by erf: so the released code; document 001 does not say",
        visible: "images and videos",
        touches: GELU,
        ways: |config, _| in_each_place(config, "tanh"),
    },
    Mistake {
        name: "gelu_quick",
        about: "GELU is approximated by x·σ(1.702·x), everywhere or in one place, as CLIP has it, in one step or by steps in bf16",
        right: "GELU is exact, by erf: so the released code; document 001 does not say",
        visible: "images and videos",
        touches: GELU,
        ways: |config, _| [in_each_place(config, "quick"), in_each_place(config, "quick_bf16")].concat(),
    },
    Mistake {
        name: "pixels_bf16",
        about: "pixels are rounded to bf16 before the patch embedding",
        right: "in a model that is not bf16 they are f32",
        visible: "pixels that are no bf16, and a model that is not bf16",
        touches: &[Site::Vision(0, Embeddings)],
        ways: |config, _| seen(config, |_| true, "pixels", "bf16"),
    },
    Mistake {
        name: "features_misplaced",
        about: "features stand in other places: images or videos in reverse, or all a token early or late",
        right: "the n-th placeholder has the n-th feature",
        visible: "images and videos; several of them where these are exchanged",
        touches: &[Site::InputsEmbeds],
        ways: |config, _| {
            let others = ["reversed", "reversed_videos", "reversed_images", "early", "late"];
            others.iter().flat_map(|other| seen(config, |_| true, "feature_places", other)).collect()
        },
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
        about: "the four patches of a token are taken as if patches came row by row, or in another order",
        right: "they come one after the other",
        visible: "an image or a video, wider than one token where patches come row by row",
        touches: &[Site::Vision(0, MergeLinear1)],
        ways: |config, _| {
            let orders = ["row_major", "column_major", "rows_reversed", "columns_reversed", "reversed"];
            let of = |order| seen(config, |vision| vision.spatial_merge_size > 1, "merge_order", order);
            orders.into_iter().flat_map(of).collect()
        },
    },
];
