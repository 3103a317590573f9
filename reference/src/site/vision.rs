//! Places in the vision tower, and between it and the text model.

use std::fmt;

use super::axis::Axis::{self, Channels, Merged, Patches};
use super::axis::Width;
use super::row::{Kept, Mark, Row};
use crate::config::Vision;

/// A place on the way from pixels to features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisionSite {
    /// Output of the patch embedding \[N, C\].
    Embeddings,
    /// cos of the rotation angles \[N, R\].
    RopeCos,
    /// sin of the rotation angles \[N, R\].
    RopeSin,
    /// Output of the norm before the layers \[N, C\].
    PreNorm,
    /// A place in a layer.
    Layer(usize, VisionLayerSite),
    /// The projector's first linear map \[N, P\].
    Linear1,
    /// Its activation \[N, P\].
    Activation,
    /// Its second linear map \[N, H\].
    Linear2,
    /// The first linear map of merged patches \[N/s, P\].
    MergeLinear1,
    /// Their activation \[N/s, P\].
    MergeActivation,
    /// Their second linear map \[N/s, H\].
    MergeLinear2,
    /// Features \[N/s, H\]; the last linear map's output again.
    Features,
}

/// A place in a layer of the tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisionLayerSite {
    /// Output of the norm before attention \[N, C\].
    Norm1,
    /// Queries \[N, heads·d\].
    QProj,
    /// Keys \[N, heads·d\].
    KProj,
    /// Values \[N, heads·d\].
    VProj,
    /// Rotated queries \[N, heads·d\].
    QRope,
    /// Rotated keys \[N, heads·d\].
    KRope,
    /// Weighted values \[N, heads·d\].
    Context,
    /// Output projection \[N, C\].
    OutProj,
    /// Output of attention \[N, C\]; the projection's again.
    Attention,
    /// The stream after attention \[N, C\].
    Residual,
    /// Output of the norm before the network \[N, C\].
    Norm2,
    /// The network's first linear map \[N, I\].
    Fc1,
    /// Its activation \[N, I\].
    Activation,
    /// Its second linear map \[N, C\].
    Fc2,
    /// Output of the network \[N, C\]; the last map's again.
    Mlp,
    /// Output of the layer \[N, C\].
    Output,
}

/// A vector for each patch.
const PATCHES: &[Axis] = &[Patches, Channels(Width::Patch)];

/// Every place outside of layers, in the order in which a patch meets them.
const ROWS: [(VisionSite, Row); 11] = [
    (VisionSite::Embeddings, Row::new("vision_tower.embeddings", PATCHES).product()),
    (
        VisionSite::RopeCos,
        Row::new("vision_tower.rotary_emb", &[Patches, Channels(Width::PatchRotary)])
            .kept(Kept::Wide)
            .marked(&[Mark::SizedByReading]),
    ),
    (
        VisionSite::RopeSin,
        Row::new("vision_tower.rotary_emb.1", &[Patches, Channels(Width::PatchRotary)])
            .kept(Kept::Wide)
            .marked(&[Mark::SizedByReading]),
    ),
    (VisionSite::PreNorm, Row::new("vision_tower.pre_layrnorm", PATCHES).marked(&[Mark::Stream])),
    (VisionSite::Linear1, Row::new("multi_modal_projector.linear_1", &[Patches, Channels(Width::Projector)]).product()),
    (VisionSite::Activation, Row::new("multi_modal_projector.act", &[Patches, Channels(Width::Projector)]).product()),
    (VisionSite::Linear2, Row::new("multi_modal_projector.linear_2", &[Patches, Channels(Width::Hidden)]).product()),
    (
        VisionSite::MergeLinear1,
        Row::new("multi_modal_projector.merge_linear_1", &[Merged, Channels(Width::Projector)]).product(),
    ),
    (
        VisionSite::MergeActivation,
        Row::new("multi_modal_projector.merge_act", &[Merged, Channels(Width::Projector)]).product(),
    ),
    (
        VisionSite::MergeLinear2,
        Row::new("multi_modal_projector.merge_linear_2", &[Merged, Channels(Width::Hidden)]).product(),
    ),
    (
        VisionSite::Features,
        Row::new("multi_modal_projector", &[Merged, Channels(Width::Hidden)]).marked(&[Mark::Stream]).product(),
    ),
];

/// Every place in a layer, in the order in which a patch meets them.
const LAYER_ROWS: [(VisionLayerSite, Row); 16] = [
    (VisionLayerSite::Norm1, Row::new(".layer_norm1", PATCHES)),
    (VisionLayerSite::QProj, Row::new(".self_attn.q_proj", PATCHES).product()),
    (VisionLayerSite::KProj, Row::new(".self_attn.k_proj", PATCHES).product()),
    (VisionLayerSite::VProj, Row::new(".self_attn.v_proj", PATCHES).product()),
    (VisionLayerSite::QRope, Row::new(".self_attn.q_rope", PATCHES)),
    (VisionLayerSite::KRope, Row::new(".self_attn.k_rope", PATCHES)),
    (VisionLayerSite::Context, Row::new(".self_attn.context", PATCHES).product()),
    (VisionLayerSite::OutProj, Row::new(".self_attn.out_proj", PATCHES).product()),
    (VisionLayerSite::Attention, Row::new(".self_attn", PATCHES).product()),
    (VisionLayerSite::Residual, Row::new(".self_attn.residual", PATCHES)),
    (VisionLayerSite::Norm2, Row::new(".layer_norm2", PATCHES)),
    (VisionLayerSite::Fc1, Row::new(".mlp.fc1", &[Patches, Channels(Width::PatchNetwork)]).product()),
    (VisionLayerSite::Activation, Row::new(".mlp.activation_fn", &[Patches, Channels(Width::PatchNetwork)]).product()),
    (VisionLayerSite::Fc2, Row::new(".mlp.fc2", PATCHES).product()),
    (VisionLayerSite::Mlp, Row::new(".mlp", PATCHES).product()),
    (VisionLayerSite::Output, Row::new("", PATCHES).marked(&[Mark::Stream])),
];

impl VisionSite {
    /// Every place outside of layers, in the order in which a patch meets them.
    pub const OUTSIDE: [VisionSite; ROWS.len()] = {
        let mut all = [VisionSite::Features; ROWS.len()];
        let mut i = 0;
        while i < ROWS.len() {
            all[i] = ROWS[i].0;
            i += 1;
        }
        all
    };

    /// What is known of it.
    pub(super) fn row(self) -> &'static Row {
        match self {
            VisionSite::Layer(_, site) => site.row(),
            _ => ROWS.iter().find(|(site, _)| *site == self).map(|(_, row)| row).expect("every place has a row"),
        }
    }

    /// Whether a tower has it.
    pub(super) fn exists(self, vision: &Vision) -> bool {
        match self {
            VisionSite::Layer(layer, _) => layer < vision.num_hidden_layers,
            _ => true,
        }
    }

    /// The place that a path below `model.` names.
    pub(super) fn parse(path: &str) -> Option<Self> {
        if let Some((site, _)) = ROWS.iter().find(|(_, row)| row.path == path) {
            return Some(*site);
        }
        let rest = path.strip_prefix("vision_tower.layers.")?;
        let (layer, below) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
        let (site, _) = LAYER_ROWS.iter().find(|(_, row)| row.path == below)?;
        Some(VisionSite::Layer(layer.parse().ok()?, *site))
    }
}

impl VisionLayerSite {
    /// Every place, in the order in which a patch meets them.
    pub const ALL: [VisionLayerSite; LAYER_ROWS.len()] = {
        let mut all = [VisionLayerSite::Output; LAYER_ROWS.len()];
        let mut i = 0;
        while i < LAYER_ROWS.len() {
            all[i] = LAYER_ROWS[i].0;
            i += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        LAYER_ROWS.iter().find(|(site, _)| *site == self).map(|(_, row)| row).expect("every place has a row")
    }
}

impl fmt::Display for VisionSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VisionSite::Layer(layer, _) => write!(f, "vision_tower.layers.{layer}{}", self.row().path),
            _ => f.write_str(self.row().path),
        }
    }
}
