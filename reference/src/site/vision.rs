//! Places in the vision tower, and between it and the text model.

use std::fmt;

use crate::config::{Config, Vision};

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

impl VisionSite {
    /// Every place outside of layers, in the order in which a patch meets them.
    pub const OUTSIDE: [VisionSite; 11] = [
        VisionSite::Embeddings,
        VisionSite::RopeCos,
        VisionSite::RopeSin,
        VisionSite::PreNorm,
        VisionSite::Linear1,
        VisionSite::Activation,
        VisionSite::Linear2,
        VisionSite::MergeLinear1,
        VisionSite::MergeActivation,
        VisionSite::MergeLinear2,
        VisionSite::Features,
    ];

    /// Rows and columns, of so many patches.
    pub(super) fn shape(self, config: &Config, patches: usize) -> Vec<usize> {
        let Some(vision) = &config.vision else { return vec![0, 0] };
        let (merged, projector) = (patches / vision.merged(), vision.projector_hidden_size);
        match self {
            VisionSite::RopeCos | VisionSite::RopeSin => vec![patches, vision.rotary_dim()],
            VisionSite::Layer(_, VisionLayerSite::Fc1 | VisionLayerSite::Activation) => {
                vec![patches, vision.intermediate_size]
            }
            VisionSite::Embeddings | VisionSite::PreNorm | VisionSite::Layer(..) => vec![patches, vision.hidden_size],
            VisionSite::Linear1 | VisionSite::Activation => vec![patches, projector],
            VisionSite::Linear2 => vec![patches, config.hidden_size],
            VisionSite::MergeLinear1 | VisionSite::MergeActivation => vec![merged, projector],
            VisionSite::MergeLinear2 | VisionSite::Features => vec![merged, config.hidden_size],
        }
    }

    pub(super) fn exists(self, vision: &Vision) -> bool {
        match self {
            VisionSite::Layer(layer, _) => layer < vision.num_hidden_layers,
            _ => true,
        }
    }

    /// The place that a path below `model.` names.
    pub(super) fn parse(path: &str) -> Option<Self> {
        if let Some(site) = VisionSite::OUTSIDE.into_iter().find(|site| site.to_string() == path) {
            return Some(site);
        }
        let rest = path.strip_prefix("vision_tower.layers.")?;
        let (layer, below) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
        let site = VisionLayerSite::ALL.into_iter().find(|site| site.path() == below)?;
        Some(VisionSite::Layer(layer.parse().ok()?, site))
    }
}

impl VisionLayerSite {
    /// Every place, in the order in which a patch meets them.
    pub const ALL: [VisionLayerSite; 16] = [
        VisionLayerSite::Norm1,
        VisionLayerSite::QProj,
        VisionLayerSite::KProj,
        VisionLayerSite::VProj,
        VisionLayerSite::QRope,
        VisionLayerSite::KRope,
        VisionLayerSite::Context,
        VisionLayerSite::OutProj,
        VisionLayerSite::Attention,
        VisionLayerSite::Residual,
        VisionLayerSite::Norm2,
        VisionLayerSite::Fc1,
        VisionLayerSite::Activation,
        VisionLayerSite::Fc2,
        VisionLayerSite::Mlp,
        VisionLayerSite::Output,
    ];

    /// The path below the layer's, with its dot.
    fn path(self) -> &'static str {
        match self {
            VisionLayerSite::Norm1 => ".layer_norm1",
            VisionLayerSite::QProj => ".self_attn.q_proj",
            VisionLayerSite::KProj => ".self_attn.k_proj",
            VisionLayerSite::VProj => ".self_attn.v_proj",
            VisionLayerSite::QRope => ".self_attn.q_rope",
            VisionLayerSite::KRope => ".self_attn.k_rope",
            VisionLayerSite::Context => ".self_attn.context",
            VisionLayerSite::OutProj => ".self_attn.out_proj",
            VisionLayerSite::Attention => ".self_attn",
            VisionLayerSite::Residual => ".self_attn.residual",
            VisionLayerSite::Norm2 => ".layer_norm2",
            VisionLayerSite::Fc1 => ".mlp.fc1",
            VisionLayerSite::Activation => ".mlp.activation_fn",
            VisionLayerSite::Fc2 => ".mlp.fc2",
            VisionLayerSite::Mlp => ".mlp",
            VisionLayerSite::Output => "",
        }
    }
}

impl fmt::Display for VisionSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VisionSite::Embeddings => f.write_str("vision_tower.embeddings"),
            VisionSite::RopeCos => f.write_str("vision_tower.rotary_emb"),
            VisionSite::RopeSin => f.write_str("vision_tower.rotary_emb.1"),
            VisionSite::PreNorm => f.write_str("vision_tower.pre_layrnorm"),
            VisionSite::Layer(layer, site) => write!(f, "vision_tower.layers.{layer}{}", site.path()),
            VisionSite::Linear1 => f.write_str("multi_modal_projector.linear_1"),
            VisionSite::Activation => f.write_str("multi_modal_projector.act"),
            VisionSite::Linear2 => f.write_str("multi_modal_projector.linear_2"),
            VisionSite::MergeLinear1 => f.write_str("multi_modal_projector.merge_linear_1"),
            VisionSite::MergeActivation => f.write_str("multi_modal_projector.merge_act"),
            VisionSite::MergeLinear2 => f.write_str("multi_modal_projector.merge_linear_2"),
            VisionSite::Features => f.write_str("multi_modal_projector"),
        }
    }
}
