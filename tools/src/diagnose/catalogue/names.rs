//! Tensors as people name them, and those of one name in several layers.

use reference::weights::{LayerWeight, Part, Projection, VisionWeight, Weight};

/// Whether a weight is of that name, in any layer of the text model.
pub(in crate::diagnose) fn is(weight: Weight, named: Weight) -> bool {
    match (weight, named) {
        (Weight::Layer(_, a), Weight::Layer(_, b)) => a == b,
        (a, b) => a == b,
    }
}

/// The weight of that name in a layer.
pub(in crate::diagnose) fn in_layer(weight: Weight, layer: usize) -> Weight {
    match weight {
        Weight::Layer(_, inner) => Weight::Layer(layer, inner),
        Weight::Vision(VisionWeight::Layer(_, module, part)) => {
            Weight::Vision(VisionWeight::Layer(layer, module, part))
        }
        other => other,
    }
}

/// A tensor as people name it.
pub(super) fn named(weight: Weight) -> String {
    let module = |projection| match projection {
        Projection::Gate => "gate_proj",
        Projection::Up => "up_proj",
        Projection::Down => "down_proj",
    };
    match weight {
        Weight::Layer(_, LayerWeight::Expert(e, projection)) => format!("{} of expert {e}", module(projection)),
        Weight::Layer(_, LayerWeight::Shared(projection)) => format!("{} of the shared expert", module(projection)),
        Weight::Layer(_, LayerWeight::Dense(projection)) => format!("{} of the dense network", module(projection)),
        Weight::Layer(_, LayerWeight::Gate) => "the router".into(),
        Weight::Layer(_, LayerWeight::CorrectionBias) => "the correction bias".into(),
        Weight::Layer(_, inner) => module_of(&inner.to_string()).to_owned(),
        Weight::Vision(weight) => of_vision(weight),
        other => module_of(&other.to_string()).to_owned(),
    }
}

fn of_vision(weight: VisionWeight) -> String {
    let whole = |part| if part == Part::Bias { "the bias of " } else { "" };
    match weight {
        VisionWeight::Patches => "the patch embedding".into(),
        VisionWeight::PreNorm(part) => format!("{}pre_layrnorm in the vision tower", whole(part)),
        VisionWeight::Layer(layer, module, part) => {
            format!("{}{} in the vision tower's layer {layer}", whole(part), module_of(&module.to_string()))
        }
        VisionWeight::Projector(stage, part) => format!("{}{stage}", whole(part)),
    }
}

/// The last module of a path.
fn module_of(path: &str) -> &str {
    let path = path.trim_end_matches(".weight");
    path.rsplit('.').next().unwrap_or(path)
}
