//! What each place of the vision tower and the projector multiplies by.

use reference::site::VisionLayerSite as At;
use reference::site::VisionSite::{self, Layer};
use reference::weights::{Part, Stage, VisionLayerWeight, VisionWeight};

/// The tensors of the operator whose output a place is.
pub(super) fn multiplied(site: VisionSite) -> Vec<VisionWeight> {
    let both = |of: &dyn Fn(Part) -> VisionWeight| vec![of(Part::Weight), of(Part::Bias)];
    match site {
        VisionSite::Embeddings => vec![VisionWeight::Patches],
        VisionSite::PreNorm => both(&VisionWeight::PreNorm),
        Layer(layer, at) => match module(at) {
            Some(module) => both(&|part| VisionWeight::Layer(layer, module, part)),
            None => Vec::new(),
        },
        _ => match stage(site) {
            Some(stage) => both(&|part| VisionWeight::Projector(stage, part)),
            None => Vec::new(),
        },
    }
}

/// The weight and the bias of a linear map.
pub(super) fn of_product(site: VisionSite) -> Option<[VisionWeight; 2]> {
    let is_norm = matches!(site, VisionSite::PreNorm | Layer(_, At::Norm1 | At::Norm2));
    multiplied(site).try_into().ok().filter(|_| !is_norm)
}

/// Whether a place's columns are the tensor's output channels.
pub(super) fn is_own(of: VisionWeight, site: VisionSite) -> bool {
    // What passes on what another place has.
    let made = match site {
        Layer(layer, At::Attention | At::Residual) => Layer(layer, At::OutProj),
        Layer(layer, At::Mlp | At::Output) => Layer(layer, At::Fc2),
        VisionSite::Features => VisionSite::MergeLinear2,
        other => other,
    };
    multiplied(made).contains(&of)
}

/// Whether a tensor's output channels are those of heads.
pub(super) fn has_heads(of: VisionWeight) -> bool {
    use VisionLayerWeight::{K, Q, V};
    matches!(of, VisionWeight::Layer(_, Q | K | V, _))
}

fn module(at: At) -> Option<VisionLayerWeight> {
    Some(match at {
        At::Norm1 => VisionLayerWeight::Norm1,
        At::QProj => VisionLayerWeight::Q,
        At::KProj => VisionLayerWeight::K,
        At::VProj => VisionLayerWeight::V,
        At::OutProj => VisionLayerWeight::Out,
        At::Norm2 => VisionLayerWeight::Norm2,
        At::Fc1 => VisionLayerWeight::Fc1,
        At::Fc2 => VisionLayerWeight::Fc2,
        _ => return None,
    })
}

fn stage(site: VisionSite) -> Option<Stage> {
    Some(match site {
        VisionSite::Linear1 => Stage::Linear1,
        VisionSite::Linear2 => Stage::Linear2,
        VisionSite::MergeLinear1 => Stage::Merge1,
        VisionSite::MergeLinear2 => Stage::Merge2,
        _ => return None,
    })
}
