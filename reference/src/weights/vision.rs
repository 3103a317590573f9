//! The weights of the vision tower and the projector.

use std::fmt;

use crate::config::Config;

/// A weight of the vision tower or the projector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisionWeight {
    /// Patch embedding \[C, values of a patch\].
    Patches,
    /// Norm before the layers.
    PreNorm(Part),
    /// A weight of one layer.
    Layer(usize, VisionLayerWeight, Part),
    /// A linear map of the projector.
    Projector(Stage, Part),
}

impl VisionWeight {
    /// What is added to the product with it; what a norm adds is no product's.
    pub(super) fn bias(self) -> Option<VisionWeight> {
        let bias = match self {
            VisionWeight::Layer(layer, module, Part::Weight) => VisionWeight::Layer(layer, module, Part::Bias),
            VisionWeight::Projector(stage, Part::Weight) => VisionWeight::Projector(stage, Part::Bias),
            _ => return None,
        };
        bias.is_bias().then_some(bias)
    }

    /// Whether it is added to a product.
    pub(super) fn is_bias(self) -> bool {
        use VisionLayerWeight::{Norm1, Norm2};
        match self {
            VisionWeight::Patches | VisionWeight::PreNorm(_) | VisionWeight::Layer(_, Norm1 | Norm2, _) => false,
            VisionWeight::Layer(_, _, part) | VisionWeight::Projector(_, part) => part == Part::Bias,
        }
    }
}

/// A part of a module of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VisionLayerWeight {
    /// Norm before attention.
    Norm1,
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Output projection.
    Out,
    /// Norm before the network.
    Norm2,
    /// The network's first linear map.
    Fc1,
    /// Its second.
    Fc2,
}

/// The four linear maps of the projector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// Of each patch.
    Linear1,
    /// Of each patch, after the activation.
    Linear2,
    /// Of merged patches.
    Merge1,
    /// Of merged patches, after the activation.
    Merge2,
}

/// What a module multiplies by, or adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// `weight`.
    Weight,
    /// `bias`.
    Bias,
}

/// The weights of a model that sees, with their shapes.
pub(super) fn inventory(config: &Config) -> Vec<(VisionWeight, (usize, usize))> {
    let Some(vision) = &config.vision else { return Vec::new() };
    let (c, i, p, h) = (vision.hidden_size, vision.intermediate_size, vision.projector_hidden_size, config.hidden_size);
    let mut all = vec![(VisionWeight::Patches, (c, vision.patch.values()))];
    let mut push = |of: &dyn Fn(Part) -> VisionWeight, outputs: usize, inputs: Option<usize>| {
        all.push((of(Part::Weight), inputs.map_or((1, outputs), |inputs| (outputs, inputs))));
        all.push((of(Part::Bias), (1, outputs)));
    };
    push(&VisionWeight::PreNorm, c, None);
    for layer in 0..vision.num_hidden_layers {
        use VisionLayerWeight::{Fc1, Fc2, K, Norm1, Norm2, Out, Q, V};
        for (module, outputs, inputs) in [
            (Norm1, c, None),
            (Q, c, Some(c)),
            (K, c, Some(c)),
            (V, c, Some(c)),
            (Out, c, Some(c)),
            (Norm2, c, None),
            (Fc1, i, Some(c)),
            (Fc2, c, Some(i)),
        ] {
            push(&|part| VisionWeight::Layer(layer, module, part), outputs, inputs);
        }
    }
    let stages = [
        (Stage::Linear1, p, c),
        (Stage::Linear2, h, p),
        (Stage::Merge1, p, vision.merged() * h),
        (Stage::Merge2, h, p),
    ];
    for (stage, outputs, inputs) in stages {
        push(&|part| VisionWeight::Projector(stage, part), outputs, Some(inputs));
    }
    all
}

/// The name in the hub's files.
impl fmt::Display for VisionWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tower = "vision_tower.vision_model";
        match self {
            VisionWeight::Patches => write!(f, "{tower}.embeddings.patch_embedding.weight"),
            VisionWeight::PreNorm(part) => write!(f, "{tower}.pre_layrnorm.{part}"),
            VisionWeight::Layer(layer, module, part) => write!(f, "{tower}.encoder.layers.{layer}.{module}.{part}"),
            VisionWeight::Projector(stage, part) => write!(f, "{stage}.{part}"),
        }
    }
}

impl fmt::Display for VisionLayerWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VisionLayerWeight::Norm1 => "layer_norm1",
            VisionLayerWeight::Q => "self_attn.q_proj",
            VisionLayerWeight::K => "self_attn.k_proj",
            VisionLayerWeight::V => "self_attn.v_proj",
            VisionLayerWeight::Out => "self_attn.out_proj",
            VisionLayerWeight::Norm2 => "layer_norm2",
            VisionLayerWeight::Fc1 => "mlp.fc1",
            VisionLayerWeight::Fc2 => "mlp.fc2",
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Linear1 => "multi_modal_projector.linear_1",
            Stage::Linear2 => "multi_modal_projector.linear_2",
            Stage::Merge1 => "patch_merge_mlp.linear_1",
            Stage::Merge2 => "patch_merge_mlp.linear_2",
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Weight => "weight",
            Part::Bias => "bias",
        })
    }
}
