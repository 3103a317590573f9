//! Fields of the semantics that the sizes of values give away.

use fixtures::names::at::At;
use reference::config::{Config, Vision};
use reference::grid::AXES;
use reference::site::VisionSite;
use reference::{LayerSite, Semantics, Site};

use super::catalogue::mistake::{Assumed, Change};
use crate::judge::comparison::Comparison;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// A field and its value.
type Size = (&'static str, String);

/// As a model has them under a reading; how many blocks it chooses among those that there are.
pub(super) fn of_model(comparison: &Comparison<'_>, semantics: &Semantics) -> Vec<Size> {
    let config = comparison.compared.config.under(semantics);
    let of_all = [("top_k", config.num_experts_per_tok.to_string()), ("rotary_dim", config.rotary_dim.to_string())];
    let of_index = config.index.into_iter().flat_map(|index| {
        let blocks = comparison.compared.steps[0].len().div_ceil(index.blocks.size);
        [("msa_top_k", index.blocks.top_k.min(blocks).to_string()), ("msa_select", select(index.choices))]
    });
    let of_tower = config.vision.iter().map(|vision| ("axial_axes", axes(vision, vision.rotary_dim())));
    of_all.into_iter().chain(of_index).chain(of_tower).collect()
}

/// The reading of so many rotating channels: two thirds of them have no time.
fn axes(vision: &Vision, channels: usize) -> String {
    let whole = Vision { axes: AXES, ..vision.clone() }.rotary_dim();
    if 3 * channels == 2 * whole { "height_width" } else { "time_height_width" }.into()
}

/// As the candidate shows them.
pub(super) fn of_candidate(comparison: &Comparison<'_>, semantics: &Semantics) -> Vec<Size> {
    let config = &comparison.compared.config.under(semantics);
    let size = |site| comparison.compared.candidate.size(At { step: 0, site });
    let columns = |site| Some(size(site)?.1.to_string());
    let at = |site| first(config, site);
    let of_all = [
        ("top_k", columns(at(LayerSite::GateExperts)).or(columns(at(LayerSite::GateWeights)))),
        ("rotary_dim", columns(Site::RopeCos)),
    ];
    let choices = size(at(LayerSite::Blocks)).or(size(at(LayerSite::BlockMax)));
    let choices = choices.map(|(rows, _)| select(rows / comparison.compared.steps[0].len().max(1)));
    let of_index = [("msa_top_k", columns(at(LayerSite::Blocks))), ("msa_select", choices)];
    let of_index = of_index.into_iter().filter(|_| config.index.is_some());
    let of_tower = config.vision.as_ref().and_then(|vision| {
        let (_, channels) = size(Site::Vision(0, VisionSite::RopeCos))?;
        Some(("axial_axes", Some(axes(vision, channels))))
    });
    of_all.into_iter().chain(of_index).chain(of_tower).filter_map(|(field, found)| Some((field, found?))).collect()
}

/// A site in the first layer that has it.
fn first(config: &Config, site: LayerSite) -> Site {
    let layers = (0..config.num_hidden_layers).map(|layer| Site::Layer(layer, site));
    layers.into_iter().find(|site| site.exists(config)).unwrap_or(Site::Layer(0, site))
}

/// The reading of so many choices a token.
fn select(choices: usize) -> String {
    if choices == 1 { "head_max".into() } else { "per_group".into() }
}

/// The fault of a candidate of another size: a comparison that could not be made.
pub(super) fn fault(config: &Config, assumed: &Assumed) -> SiteReport {
    let site = match &assumed.change {
        Change::Reading("top_k", _) => first(config, LayerSite::GateExperts),
        Change::Reading("msa_top_k" | "msa_select", _) => first(config, LayerSite::Blocks),
        Change::Reading("axial_axes", _) => Site::Vision(0, VisionSite::RopeCos),
        _ => Site::RopeCos,
    };
    let mut fault = SiteReport::missing(0, site, Lens::Local);
    (fault.verdict, fault.note) = (Verdict::Fault, Some("it has another shape".into()));
    fault
}
