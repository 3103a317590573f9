//! The tensors by which operators on the way to a site multiply.

use reference::config::{Config, Vision};
use reference::weights::{LayerWeight, Projection, Weight, inventory};
use reference::{LayerSite, Site};

use super::{Bench, tower};
use crate::diagnose::catalogue::fit::Fit;
use crate::diagnose::catalogue::names;
use crate::diagnose::catalogue::part::{Part, Scaled};
use crate::diagnose::catalogue::tensors::TensorChange;

/// Experts whose tensors are looked at.
const EXPERTS: usize = 16;

/// A tensor on the way to a site.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspect {
    pub(super) of: Weight,
    /// The site's column of the tensor's first output channel, where each channel has one of its own.
    pub(super) first: Option<usize>,
    /// Output channels of a head.
    pub(super) head: Option<usize>,
}

impl Suspect {
    /// A part of it times a factor.
    pub(super) fn times(&self, part: Part, factor: f64) -> TensorChange {
        let factor = Fit { value: factor, error: 0.0 };
        TensorChange::Scaled(Scaled { of: self.of, part, factor, stored: false })
    }
}

/// The tensors of experts that some token was sent to, and all others.
pub(super) fn of(bench: &Bench<'_, '_>) -> Vec<Suspect> {
    let config = bench.config();
    let weights = bench.suspects.iter().flat_map(|site| multiplied(*site, &config));
    let mut all: Vec<Weight> = Vec::new();
    for weight in weights {
        if !all.contains(&weight) {
            all.push(weight);
        }
    }
    let chosen = standing_out(bench, EXPERTS);
    let is_used = |weight: &Weight| match weight {
        Weight::Layer(_, LayerWeight::Expert(e, _)) => chosen.contains(e),
        _ => true,
    };
    all.into_iter()
        .filter(is_used)
        .map(|of| Suspect { of, first: first(of, bench.site, &config), head: head(of, &config) })
        .collect()
}

/// The operator on the way to a site that multiplies by a tensor.
pub(super) fn product_with(bench: &Bench<'_, '_>, of: Weight) -> Option<Site> {
    let config = bench.config();
    bench.suspects.iter().copied().find(|site| multiplied(*site, &config).contains(&of))
}

/// So many of the experts that tokens were sent to, those first beside whose tokens the least is off.
pub(super) fn standing_out(bench: &Bench<'_, '_>, most: usize) -> Vec<usize> {
    let (chosen, Some(experts)) = (chosen(bench), &bench.twin.experts) else { return Vec::new() };
    if chosen.len() <= most {
        return chosen;
    }
    let off = bench.off_by_row();
    // Each token's, whether its experts stand apart there or not.
    let each = off.len() / experts.nrows().max(1);
    let of_token = |token: usize| off[token * each..(token + 1) * each].iter().sum::<f64>();
    let others = |expert: usize| {
        let rows = experts.rows().into_iter().enumerate().filter(|(_, chosen)| chosen.iter().all(|e| *e != expert));
        rows.map(|(token, _)| of_token(token)).sum::<f64>()
    };
    let mut each: Vec<(f64, usize)> = chosen.into_iter().map(|expert| (others(expert), expert)).collect();
    each.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    each.truncate(most);
    each.into_iter().map(|(_, expert)| expert).collect()
}

/// The experts that tokens were sent to.
pub(super) fn chosen(bench: &Bench<'_, '_>) -> Vec<usize> {
    let mut chosen: Vec<usize> = bench.twin.experts.iter().flatten().copied().collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Output channels of a tensor.
pub(super) fn rows_of(of: Weight, config: &Config) -> Option<usize> {
    dim(of, config).map(|(rows, columns)| if rows == 1 { columns } else { rows })
}

/// Whether a tensor has as many rows as columns.
pub(super) fn is_square(of: Weight, config: &Config) -> bool {
    dim(of, config).is_some_and(|(rows, columns)| rows == columns)
}

/// The shape that a tensor has in the first layer with one of its name.
pub(super) fn dim(of: Weight, config: &Config) -> Option<(usize, usize)> {
    inventory(config).into_iter().find(|(other, _)| names::is(of, *other)).map(|(_, dim)| dim)
}

/// The tensors of the operator whose output a site is.
fn multiplied(site: Site, config: &Config) -> Vec<Weight> {
    use LayerWeight as W;
    let layer = match site {
        Site::Embedding => return vec![Weight::Embedding],
        Site::FinalNorm => return vec![Weight::FinalNorm],
        Site::LmHead => return vec![if config.tie_word_embeddings { Weight::Embedding } else { Weight::LmHead }],
        Site::Layer(_, site) => site,
        Site::Vision(_, site) => return tower::multiplied(site).into_iter().map(Weight::Vision).collect(),
        _ => return Vec::new(),
    };
    let experts = |projections: &[Projection]| -> Vec<W> {
        let each = |e| projections.iter().map(move |projection| W::Expert(e, *projection));
        (0..config.num_local_experts).flat_map(each).collect()
    };
    let of_network = |of: fn(Projection) -> W| vec![of(Projection::Gate), of(Projection::Up)];
    let weights = match layer {
        LayerSite::InputNorm => vec![W::InputNorm],
        LayerSite::QProj => vec![W::QProj],
        LayerSite::KProj => vec![W::KProj],
        LayerSite::VProj => vec![W::VProj],
        LayerSite::QNorm => vec![W::QNorm],
        LayerSite::KNorm => vec![W::KNorm],
        LayerSite::IndexQProj => vec![W::IndexQProj],
        LayerSite::IndexKProj => vec![W::IndexKProj],
        LayerSite::IndexQNorm => vec![W::IndexQNorm],
        LayerSite::IndexKNorm => vec![W::IndexKNorm],
        LayerSite::OProj => vec![W::OProj],
        LayerSite::PostAttentionNorm => vec![W::PostAttentionNorm],
        LayerSite::DenseGateUp => of_network(W::Dense),
        LayerSite::DenseDown => vec![W::Dense(Projection::Down)],
        LayerSite::SharedGateUp => of_network(W::Shared),
        LayerSite::SharedDown => vec![W::Shared(Projection::Down)],
        LayerSite::GateLogits => vec![W::Gate],
        LayerSite::GateChoice => vec![W::CorrectionBias],
        LayerSite::ExpertHidden => experts(&[Projection::Gate, Projection::Up]),
        LayerSite::ExpertOutput => experts(&[Projection::Down]),
        _ => Vec::new(),
    };
    weights.into_iter().map(|weight| Weight::Layer(0, weight)).collect()
}

/// The column of a tensor's first output channel.
fn first(of: Weight, site: Site, config: &Config) -> Option<usize> {
    use LayerSite as S;
    use LayerWeight as W;
    if let (Weight::Vision(of), Site::Vision(_, at)) = (of, site) {
        return tower::is_own(of, at).then_some(0);
    }
    let Site::Layer(_, at) = site else {
        return matches!(
            (of, site),
            (Weight::FinalNorm, Site::FinalNorm) | (Weight::LmHead | Weight::Embedding, Site::LmHead | Site::Logits)
        )
        .then_some(0);
    };
    let Weight::Layer(_, of) = of else { return None };
    let [q_norm, k_norm] = config.qk_norm_widths();
    let is = match of {
        W::QProj => at == S::QProj,
        W::KProj => at == S::KProj,
        W::VProj => at == S::VProj,
        W::QNorm => at == S::QNorm && q_norm == config.query_width(),
        W::KNorm => at == S::KNorm && k_norm == config.key_width(),
        W::IndexQProj => at == S::IndexQProj,
        W::IndexKProj => at == S::IndexKProj,
        W::IndexKNorm => at == S::IndexKNorm,
        W::InputNorm => at == S::InputNorm,
        W::PostAttentionNorm => at == S::PostAttentionNorm,
        W::OProj => matches!(at, S::OProj | S::Attention | S::Residual),
        W::Gate => at == S::GateLogits,
        W::CorrectionBias => at == S::GateChoice,
        W::Dense(Projection::Down) => matches!(at, S::DenseDown | S::Mlp | S::Output),
        W::Shared(Projection::Down) => matches!(at, S::SharedDown | S::Shared | S::Mlp | S::Output),
        W::Expert(_, Projection::Down) => matches!(at, S::ExpertOutput | S::Experts | S::Mlp | S::Output),
        W::Expert(_, Projection::Gate | Projection::Up) => at == S::ExpertHidden,
        W::Dense(projection) if at == S::DenseGateUp => {
            return Some(if projection == Projection::Gate { 0 } else { config.dense_intermediate_size });
        }
        W::Shared(projection) if at == S::SharedGateUp => {
            return Some(if projection == Projection::Gate { 0 } else { config.shared_intermediate_size });
        }
        W::Dense(_) | W::Shared(_) | W::IndexQNorm => false,
    };
    is.then_some(0)
}

/// Whether a site is the norm of a projection, which leaves its channels where they are.
pub(super) fn is_norm_of(of: Weight, site: Site) -> bool {
    use LayerSite as S;
    use LayerWeight as W;
    let (Weight::Layer(_, of), Site::Layer(_, at)) = (of, site) else { return false };
    matches!(
        (of, at),
        (W::QProj, S::QNorm) | (W::KProj, S::KNorm) | (W::IndexQProj, S::IndexQNorm) | (W::IndexKProj, S::IndexKNorm)
    )
}

fn head(of: Weight, config: &Config) -> Option<usize> {
    match of {
        Weight::Vision(of) if tower::has_heads(of) => config.vision.as_ref().map(Vision::head_dim),
        Weight::Layer(
            _,
            LayerWeight::QProj | LayerWeight::KProj | LayerWeight::VProj | LayerWeight::QNorm | LayerWeight::KNorm,
        ) => Some(config.head_dim),
        Weight::Layer(_, LayerWeight::IndexQProj) => config.index.map(|index| index.head_dim),
        _ => None,
    }
}
