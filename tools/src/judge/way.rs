//! The way to a site: what it is computed from, back to what the candidate shows.

use reference::config::Config;
use reference::media::PASSES;
use reference::site::VisionSite::{self, Layer};
use reference::site::{Extent, ModuleSite, VisionLayerSite as At};
use reference::{LayerSite, Site};

/// A site and all that it is computed from, as far as that is not shown.
pub(crate) fn to(site: Site, is_shown: impl Fn(Site) -> bool) -> Vec<Site> {
    let mut way = vec![site];
    let mut next = 0;
    while let Some(&site) = way.get(next) {
        next += 1;
        for input in inputs(site).into_iter().filter(|input| !is_hidden(site, *input, &is_shown)) {
            if !is_shown(input) && !way.contains(&input) {
                way.push(input);
            }
        }
    }
    way
}

/// Whether an attention's values tell nothing of an input, since what is computed from it on the way is shown.
fn is_hidden(site: Site, input: Site, is_shown: impl Fn(Site) -> bool) -> bool {
    use LayerSite::{Blocks, Context, KRope, Probabilities, QRope, Scores};
    let (Site::Layer(layer, site), Site::Layer(_, input)) = (site, input) else { return false };
    let is_shown = |site| is_shown(Site::Layer(layer, site));
    match (site, input) {
        (Context, QRope | KRope | Blocks) => is_shown(Probabilities),
        (Probabilities, QRope | KRope) => is_shown(Scores),
        _ => false,
    }
}

/// The operators that a site is judged with: those that were passed over since the last that is shown, and before them those
/// that it is computed from where others are shown beside them. Tables, which positions alone make, and what is made on
/// request alone are no part of it.
pub(crate) fn segment(
    site: Site,
    passed: Vec<Site>,
    config: &Config,
    extent: Extent,
    is_shown: impl Fn(Site) -> bool,
) -> Vec<Site> {
    let is_run = |other: Site| match other {
        Site::RopeCos | Site::RopeSin | Site::Vision(_, VisionSite::RopeCos | VisionSite::RopeSin) => false,
        Site::Vision(pass, _) if extent.patches[pass] == 0 => false,
        other => other.exists(config) && !other.on_request(),
    };
    let mut way = to(site, is_shown);
    way.retain(|other| *other != site && !passed.contains(other) && is_run(*other));
    way.sort();
    way.extend(passed);
    way
}

/// What an operator reads in its own layer.
pub(crate) fn inputs(site: Site) -> Vec<Site> {
    use LayerSite as S;
    let Site::Layer(layer, site) = site else {
        return match site {
            Site::Logits => vec![Site::LmHead],
            Site::LmHead => vec![Site::FinalNorm],
            Site::InputsEmbeds => {
                let features = (0..PASSES).map(|pass| Site::Vision(pass, VisionSite::Features));
                features.chain([Site::Module(ModuleSite::HiddenProj), Site::Embedding]).collect()
            }
            Site::Module(ModuleSite::EmbeddingNorm) => vec![Site::Embedding],
            Site::Module(ModuleSite::BothProj) => {
                [ModuleSite::EmbeddingNorm, ModuleSite::HiddenNorm].map(Site::Module).to_vec()
            }
            Site::Vision(pass, site) => of_tower(site).into_iter().map(|input| Site::Vision(pass, input)).collect(),
            _ => Vec::new(),
        };
    };
    if (layer, site) == (0, S::InputNorm) {
        return vec![Site::InputsEmbeds, Site::Module(ModuleSite::BothProj)];
    }
    let inputs: &[S] = match site {
        S::QProj | S::KProj | S::VProj | S::IndexQProj | S::IndexKProj => &[S::InputNorm],
        S::QNorm => &[S::QProj],
        S::KNorm => &[S::KProj],
        S::QRope => &[S::QNorm],
        S::KRope => &[S::KNorm],
        S::IndexQNorm => &[S::IndexQProj],
        S::IndexKNorm => &[S::IndexKProj],
        S::IndexQRope => &[S::IndexQNorm],
        S::IndexKRope => &[S::IndexKNorm],
        S::TokenScores | S::BlockMax => &[S::IndexQRope, S::IndexKRope],
        S::BlockScore => &[S::BlockMax],
        S::Blocks => &[S::BlockScore],
        S::Scores => &[S::QRope, S::KRope],
        S::Probabilities => &[S::Scores, S::QRope, S::KRope, S::Blocks],
        S::Context => &[S::Probabilities, S::VProj, S::QRope, S::KRope, S::Blocks],
        S::OProj => &[S::Context],
        S::Attention => &[S::OProj],
        S::Residual => &[S::Attention],
        S::PostAttentionNorm => &[S::Residual],
        S::DenseGateUp | S::SharedGateUp | S::GateLogits => &[S::PostAttentionNorm],
        S::DenseDown => &[S::DenseGateUp],
        S::SharedDown => &[S::SharedGateUp],
        S::Shared => &[S::SharedDown],
        S::GateScores => &[S::GateLogits],
        S::GateChoice => &[S::GateScores],
        S::GateExperts => &[S::GateChoice],
        S::GateWeights => &[S::GateScores, S::GateExperts],
        S::ExpertHidden => &[S::PostAttentionNorm, S::GateExperts],
        S::ExpertOutput => &[S::ExpertHidden],
        S::Expert(_) | S::Experts => &[S::ExpertOutput, S::GateWeights],
        S::Mlp => &[S::Experts, S::Shared, S::DenseDown],
        S::Output => &[S::Mlp, S::Residual],
        S::InputNorm => &[],
    };
    let rotates = matches!(site, S::QRope | S::KRope | S::IndexQRope | S::IndexKRope);
    let tables = [Site::RopeCos, Site::RopeSin].into_iter().filter(|_| rotates);
    inputs.iter().map(|input| Site::Layer(layer, *input)).chain(tables).collect()
}

/// What an operator of the tower, or of the projector, reads in its own layer, or, outside of layers, before it.
fn of_tower(site: VisionSite) -> Vec<VisionSite> {
    let Layer(layer, at) = site else {
        return match site {
            VisionSite::PreNorm => vec![VisionSite::Embeddings],
            VisionSite::Activation => vec![VisionSite::Linear1],
            VisionSite::Linear2 => vec![VisionSite::Activation],
            VisionSite::MergeLinear1 => vec![VisionSite::Linear2],
            VisionSite::MergeActivation => vec![VisionSite::MergeLinear1],
            VisionSite::MergeLinear2 => vec![VisionSite::MergeActivation],
            VisionSite::Features => vec![VisionSite::MergeLinear2],
            _ => Vec::new(),
        };
    };
    let inputs: &[At] = match at {
        At::Norm1 => &[],
        At::QProj | At::KProj | At::VProj => &[At::Norm1],
        At::QRope => &[At::QProj],
        At::KRope => &[At::KProj],
        At::Context => &[At::QRope, At::KRope, At::VProj],
        At::OutProj => &[At::Context],
        At::Attention => &[At::OutProj],
        At::Residual => &[At::Attention],
        At::Norm2 => &[At::Residual],
        At::Fc1 => &[At::Norm2],
        At::Activation => &[At::Fc1],
        At::Fc2 => &[At::Activation],
        At::Mlp => &[At::Fc2],
        At::Output => &[At::Mlp, At::Residual],
    };
    let tables = [VisionSite::RopeCos, VisionSite::RopeSin];
    let tables = tables.into_iter().filter(|_| matches!(at, At::QRope | At::KRope));
    inputs.iter().map(|input| Layer(layer, *input)).chain(tables).collect()
}

/// Whether an operator reads the residual stream as it comes into its phase, or what the tower puts into it.
pub(super) fn reads_stream(site: Site) -> bool {
    match site {
        Site::Layer(_, site) => matches!(site, LayerSite::InputNorm | LayerSite::Residual),
        Site::Vision(_, Layer(_, site)) => matches!(site, At::Norm1 | At::Residual),
        site => matches!(site, Site::FinalNorm | Site::InputsEmbeds | Site::Vision(_, VisionSite::Linear1)),
    }
}

/// Whether values are projections that tokens read of one another.
pub(super) fn is_read_by_others(site: Site) -> bool {
    match site {
        Site::Layer(_, site) => matches!(site, LayerSite::KProj | LayerSite::VProj),
        Site::Vision(_, Layer(_, site)) => matches!(site, At::KProj | At::VProj),
        _ => false,
    }
}
