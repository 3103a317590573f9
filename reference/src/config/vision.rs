//! The fields of M3's vision tower, and of what is between it and the text model.

use serde_json::{Map, Value};

use super::reader::Reader;
use super::sizes::{MOST_ELEMENTS, MOST_LAYERS, elements};
use crate::grid::{AXES, rotary_dim};

/// The vision tower and the projector.
#[derive(Debug, Clone, PartialEq)]
pub struct Vision {
    /// C: width of a patch.
    pub hidden_size: usize,
    /// Width inside a layer's network.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// What a patch is made of.
    pub patch: Patch,
    /// Patches to a side of the square that becomes one token.
    pub spatial_merge_size: usize,
    /// ε.
    pub layer_norm_eps: f64,
    /// θ.
    pub rope_theta: f64,
    /// Axes that patches are rotated by: time, height and width.
    pub axes: usize,
    /// Width inside the projector.
    pub projector_hidden_size: usize,
    /// The token in whose places images are put.
    pub image_token: u32,
    /// The token in whose places videos are put.
    pub video_token: u32,
}

/// What a patch is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    /// C: colours.
    pub channels: usize,
    /// T: frames.
    pub frames: usize,
    /// P: rows, and columns.
    pub side: usize,
}

/// Patches that become one token, many times those of any model that was published.
const MOST_MERGED: u128 = 1 << 16;

/// What transformers takes where a field is absent. The released file lacks some of them, and no model has others.
mod absent {
    pub(super) const CHANNELS: usize = 3;
    pub(super) const TEMPORAL_PATCH: usize = 2;
    pub(super) const SPATIAL_MERGE: usize = 2;
    pub(super) const EPS: f64 = 1e-5;
    pub(super) const THETA: f64 = 10_000.0;
    pub(super) const IMAGE_TOKEN: u32 = 200_025;
    pub(super) const VIDEO_TOKEN: u32 = 200_026;
}

impl Patch {
    /// C·T·P·P.
    pub fn values(self) -> usize {
        self.channels * self.frames * self.side * self.side
    }
}

impl Vision {
    /// d: channels of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Channels of a head that rotate.
    pub fn rotary_dim(&self) -> usize {
        self.axes * (rotary_dim(self.head_dim()) / AXES)
    }

    /// Patches that become one token.
    pub fn merged(&self) -> usize {
        self.spatial_merge_size * self.spatial_merge_size
    }
}

impl Reader<'_> {
    /// The vision tower, if the file has one; `self` is the whole model's object.
    pub(super) fn vision(&mut self) -> Option<Vision> {
        let tower = self.object("vision_config")?;
        self.word("projector_hidden_act", &["gelu"]);
        self.word("vision_feature_select_strategy", &["full"]);
        self.only("vision_feature_layer", &Value::from(-1), "-1: the last layer");
        self.only("multimodal_projector_bias", &Value::Bool(true), "true");
        let tokens = [("image_token_index", absent::IMAGE_TOKEN), ("video_token_index", absent::VIDEO_TOKEN)];
        let [image_token, video_token] = tokens.map(|(field, absent)| self.token(field).unwrap_or(absent));
        self.require(image_token != video_token, || {
            format!("image_token_index and video_token_index are both {image_token}, expected two tokens")
        });
        let mut read = Reader::new(tower);
        let vision = read.tower(self.size("projector_hidden_size"), [image_token, video_token]);
        self.add("vision_config", read);
        Some(vision)
    }

    fn tower(&mut self, projector_hidden_size: usize, [image_token, video_token]: [u32; 2]) -> Vision {
        let empty = Map::new();
        let mut compression = Reader::new(self.object("img_token_compression_config").unwrap_or(&empty));
        let mut either = |read: &mut Self, field: &str, absent| {
            let (flat, nested) = (read.size_if_any(field), compression.size_if_any(field));
            let agree = flat.is_none() || nested.is_none() || flat == nested;
            let [one, other] = [flat, nested].map(Option::unwrap_or_default);
            read.require(agree, || {
                format!("{field} = {one}, but img_token_compression_config.{field} = {other}: expected equal")
            });
            flat.or(nested).unwrap_or(absent)
        };
        let frames = either(self, "temporal_patch_size", absent::TEMPORAL_PATCH);
        let spatial_merge_size = either(self, "spatial_merge_size", absent::SPATIAL_MERGE);
        self.word("hidden_act", &["gelu"]);
        self.word("position_embedding_type", &["rope"]);
        self.word("rope_mode", &["3d"]);
        let rope_type = self.value("rope_parameters").and_then(|p| p.get("rope_type")).filter(|t| *t != "axial");
        self.require(rope_type.is_none(), || {
            format!("rope_type = {}, expected axial", rope_type.unwrap_or(&Value::Null))
        });
        let vision = Vision {
            hidden_size: self.size("hidden_size"),
            intermediate_size: self.size("intermediate_size"),
            num_hidden_layers: self.size_up_to("num_hidden_layers", MOST_LAYERS),
            num_attention_heads: self.size("num_attention_heads"),
            patch: Patch {
                channels: self.size_if_any("num_channels").unwrap_or(absent::CHANNELS),
                frames,
                side: self.size("patch_size"),
            },
            spatial_merge_size,
            layer_norm_eps: self.number("layer_norm_eps").unwrap_or(absent::EPS),
            rope_theta: self.rope("rope_theta").unwrap_or(absent::THETA),
            axes: AXES,
            projector_hidden_size,
            image_token,
            video_token,
        };
        let (width, heads) = (vision.hidden_size, vision.num_attention_heads);
        self.require(width.is_multiple_of(heads) && width / heads >= 6, || {
            format!("hidden_size = {width}, expected a multiple of num_attention_heads = {heads}, six or more times it")
        });
        let Patch { channels, frames, side } = vision.patch;
        let kernel = elements(&[width, channels, frames, side, side]);
        self.require(kernel <= MOST_ELEMENTS, || {
            format!("patches of {channels} · {frames} · {side} · {side} values for hidden_size = {width}, expected at most 2^48 in all")
        });
        let merged = elements(&[spatial_merge_size, spatial_merge_size]);
        self.require(merged <= MOST_MERGED, || {
            format!("spatial_merge_size = {spatial_merge_size}, expected a square of at most {MOST_MERGED} patches")
        });
        self.require(vision.layer_norm_eps > 0.0, || {
            format!("layer_norm_eps = {}, expected above 0", vision.layer_norm_eps)
        });
        self.require(vision.rope_theta > 0.0, || format!("rope_theta = {}, expected above 0", vision.rope_theta));
        vision
    }

    /// A token, if there is one.
    fn token(&mut self, field: &str) -> Option<u32> {
        let tokens = self.tokens(field);
        self.require(tokens.len() < 2, || format!("{field} is a list, expected one token"));
        tokens.first().copied()
    }
}
