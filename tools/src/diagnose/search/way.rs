//! The way to a site: what it is computed from, back to what the candidate shows.

use reference::media::PASSES;
use reference::site::VisionSite;
use reference::{LayerSite, Site};

use super::tower;

/// A site and all that it is computed from, as far as that is not shown.
pub(super) fn to(site: Site, is_shown: impl Fn(Site) -> bool) -> Vec<Site> {
    let mut way = vec![site];
    let mut next = 0;
    while let Some(&site) = way.get(next) {
        next += 1;
        for input in inputs(site) {
            if !is_shown(input) && !way.contains(&input) {
                way.push(input);
            }
        }
    }
    way
}

/// What an operator reads in its own layer.
pub(super) fn inputs(site: Site) -> Vec<Site> {
    use LayerSite as S;
    let Site::Layer(layer, site) = site else {
        return match site {
            Site::Logits => vec![Site::LmHead],
            Site::LmHead => vec![Site::FinalNorm],
            Site::InputsEmbeds => {
                let features = (0..PASSES).map(|pass| Site::Vision(pass, VisionSite::Features));
                features.chain([Site::Embedding]).collect()
            }
            Site::Vision(pass, site) => {
                tower::inputs(site).into_iter().map(|input| Site::Vision(pass, input)).collect()
            }
            _ => Vec::new(),
        };
    };
    if (layer, site) == (0, S::InputNorm) {
        return vec![Site::InputsEmbeds];
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
