//! Fields of the semantics that the sizes of values give away.

use std::collections::BTreeMap;

use fixtures::names::at::At;
use reference::config::{Config, Vision};
use reference::grid::AXES;
use reference::site::VisionSite;
use reference::{LayerSite, Site};

use super::catalogue::assumption::Assumption;
use super::catalogue::list;
use super::catalogue::mistake::{Assumed, Change, Clue};
use crate::judge::comparison::Comparison;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// A field of a layer's reading, or of all layers', and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) field: &'static str,
    pub(super) layer: Option<usize>,
    pub(super) value: String,
}

/// What the candidate shows in another size than a model has under an assumption; of blocks, how many are chosen among those that
/// there are.
pub(super) fn differing(comparison: &Comparison<'_>, assumption: &Assumption) -> Vec<Size> {
    let of_layers = comparison.all().flat_map(|layer| in_layer(comparison, assumption, layer));
    let config = comparison.compared.config.under(&assumption.semantics);
    let size = |site| comparison.compared.candidate.size(At { step: 0, site });
    let rotated =
        size(Site::RopeCos).map(|(_, columns)| ("rotary_dim", columns.to_string(), config.rotary_dim.to_string()));
    let of_tower = config.vision.as_ref().and_then(|vision| {
        let (_, channels) = size(Site::Vision(0, VisionSite::RopeCos))?;
        Some(("axial_axes", axes(vision, channels), axes(vision, vision.rotary_dim())))
    });
    let of_all = rotated.into_iter().chain(of_tower).filter(|(_, shown, own)| shown != own);
    of_layers.chain(of_all.map(|(field, value, _)| Size { field, layer: None, value })).collect()
}

fn in_layer(comparison: &Comparison<'_>, assumption: &Assumption, layer: usize) -> Vec<Size> {
    let config = assumption.config(comparison.compared.config, layer);
    let size = |site: LayerSite| {
        let site = Site::Layer(layer, site);
        comparison.compared.candidate.size(At { step: 0, site }).filter(|_| site.exists(&config))
    };
    let experts = size(LayerSite::GateExperts).or(size(LayerSite::GateWeights));
    let experts = experts.map(|(_, columns)| ("top_k", columns.to_string(), config.num_experts_per_tok.to_string()));
    let tokens = comparison.compared.steps[0].len();
    let of_index = config.index_of(layer).into_iter().flat_map(|index| {
        let most = index.blocks.top_k.min(tokens.div_ceil(index.blocks.size));
        let blocks = size(LayerSite::Blocks);
        let choices = blocks.or(size(LayerSite::BlockMax)).map(|(rows, _)| select(rows / tokens.max(1)));
        let blocks = blocks.map(|(_, columns)| ("msa_top_k", columns.to_string(), most.to_string()));
        blocks.into_iter().chain(choices.map(|shown| ("msa_select", shown, select(index.choices)))).collect::<Vec<_>>()
    });
    let other = experts.into_iter().chain(of_index).filter(|(_, shown, own)| shown != own);
    other.map(|(field, value, _)| Size { field, layer: Some(layer), value }).collect()
}

/// The reading of so many rotating channels: two thirds of them have no time.
fn axes(vision: &Vision, channels: usize) -> String {
    let whole = Vision { axes: AXES, ..vision.clone() }.rotary_dim();
    if 3 * channels == 2 * whole { "height_width" } else { "time_height_width" }.into()
}

/// A site in the first of some layers, or of all, that has it.
fn first(config: &Config, layers: Option<&Vec<usize>>, site: LayerSite) -> Site {
    let is_of = |layer: &usize| layers.is_none_or(|layers| layers.contains(layer));
    let mut sites = (0..config.num_hidden_layers).filter(is_of).map(|layer| Site::Layer(layer, site));
    sites.find(|site| site.exists(config)).unwrap_or(Site::Layer(0, site))
}

/// The reading of so many choices a token.
fn select(choices: usize) -> String {
    if choices == 1 { "head_max".into() } else { "per_group".into() }
}

/// The fault of a candidate of another size: a comparison that could not be made.
pub(super) fn fault(config: &Config, assumed: &Assumed) -> SiteReport {
    let site = match &assumed.change {
        Change::Reading("top_k", _) => first(config, assumed.layers.as_ref(), LayerSite::GateExperts),
        Change::Reading("msa_top_k" | "msa_select", _) => first(config, assumed.layers.as_ref(), LayerSite::Blocks),
        Change::Reading("axial_axes", _) => Site::Vision(0, VisionSite::RopeCos),
        _ => Site::RopeCos,
    };
    let mut fault = SiteReport::missing(0, site, Lens::Local);
    (fault.verdict, fault.note) = (Verdict::Fault, Some("it has another shape".into()));
    fault
}

impl Comparison<'_> {
    /// Mistakes that the sizes of what the candidate shows give away.
    pub(super) fn of_other_sizes(&self) -> Vec<Assumed> {
        let none = Assumption::none(self.compared.semantics);
        let mut layers: BTreeMap<(&str, String), Vec<Size>> = BTreeMap::new();
        for size in differing(self, &none) {
            layers.entry((size.field, size.value.clone())).or_default().push(size);
        }
        let named = layers.into_values().filter_map(|alike| {
            let Size { field, value, .. } = alike[0].clone();
            let change = Change::Reading(field, value);
            let cases = || list::all().flat_map(|mistake| mistake.cases(self.compared.config, Clue::default()));
            // Of numbers, mistakes have the nearest alone.
            let is_of_field = |assumed: &Assumed| matches!(assumed.change, Change::Reading(own, _) if own == field);
            let known = cases().find(|assumed| assumed.change == change).or_else(|| cases().find(is_of_field));
            let everywhere = Assumed { change, ..known? };
            let under = none.and(everywhere.clone()).ok()?;
            let holds = differing(self, &under).iter().all(|size| size.field != field);
            let own = alike.iter().filter_map(|size| size.layer).collect();
            Some(if holds { everywhere } else { everywhere.within(Some(own)) })
        });
        named.collect()
    }

    /// Whether a mistake makes values of other sizes than the candidate shows.
    pub(super) fn contradicts(&self, before: &Assumption, assumed: &Assumed) -> bool {
        let was = differing(self, before);
        let more = |under: Assumption| differing(self, &under).iter().any(|size| !was.contains(size));
        before.and(assumed.clone()).is_ok_and(more)
    }
}
