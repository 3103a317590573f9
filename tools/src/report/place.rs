//! Where in a model a site is, and what the axes of its values are called.

use std::fmt;

use reference::site::{Axis, VisionLayerSite, VisionSite};
use reference::{LayerSite, Site};

use crate::judge::verdict::SiteReport;

/// The site's path, with the forward pass where there are several.
pub(super) fn at(report: &SiteReport) -> String {
    of_step(report.step, report.site)
}

/// A site's path, with the forward pass where that is not the first.
pub(crate) fn of_step(step: usize, site: Site) -> String {
    match step {
        0 => site.to_string(),
        step => format!("step.{step}.{site}"),
    }
}

/// A row of a table of a model, in the order in which a patch meets them, and then a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Row {
    /// Of the vision tower, on the first pass (0) or the second.
    Tower(usize, TowerRow),
    /// What is before the layers.
    Start,
    /// A layer.
    Layer(usize),
    /// What is after them.
    Head,
}

/// A row of the vision tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TowerRow {
    /// What is before its layers.
    Patches,
    /// A layer.
    Layer(usize),
    /// The projector.
    Projector,
}

impl Row {
    /// A site's.
    pub(super) fn of(site: Site) -> Row {
        match site {
            Site::Vision(pass, site) => Row::Tower(pass, TowerRow::of(site)),
            Site::Embedding | Site::Module(_) | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => Row::Start,
            Site::Layer(layer, _) => Row::Layer(layer),
            Site::FinalNorm | Site::LmHead | Site::Logits => Row::Head,
        }
    }
}

impl TowerRow {
    fn of(site: VisionSite) -> TowerRow {
        use VisionSite::{Activation, Features, Linear1, Linear2, MergeActivation, MergeLinear1, MergeLinear2};
        match site {
            VisionSite::Embeddings | VisionSite::RopeCos | VisionSite::RopeSin | VisionSite::PreNorm => {
                TowerRow::Patches
            }
            VisionSite::Layer(layer, _) => TowerRow::Layer(layer),
            Linear1 | Activation | Linear2 | MergeLinear1 | MergeActivation | MergeLinear2 | Features => {
                TowerRow::Projector
            }
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Tower(0, row) => row.fmt(f),
            Row::Tower(pass, row) => write!(f, "pass.{pass} {row}"),
            Row::Start => f.write_str("start"),
            Row::Layer(layer) => layer.fmt(f),
            Row::Head => f.write_str("head"),
        }
    }
}

impl fmt::Display for TowerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TowerRow::Patches => f.write_str("patches"),
            TowerRow::Layer(layer) => write!(f, "tower {layer}"),
            TowerRow::Projector => f.write_str("projector"),
        }
    }
}

/// Whether the value is one of the rotation table, beside the way of what is computed.
pub(super) fn is_table(site: Site) -> bool {
    matches!(site, Site::RopeCos | Site::RopeSin | Site::Vision(_, VisionSite::RopeCos | VisionSite::RopeSin))
}

/// A site's path inside its layer: the operator, whichever layer it is in.
pub fn kind(site: Site) -> String {
    match site {
        Site::Layer(_, LayerSite::Output) => "layer outputs".to_owned(),
        Site::Layer(layer, _) => site.to_string().replace(&format!("model.layers.{layer}."), ""),
        Site::Vision(_, VisionSite::Layer(_, VisionLayerSite::Output)) => "vision_tower layer outputs".to_owned(),
        Site::Vision(_, site @ VisionSite::Layer(layer, _)) => {
            site.to_string().replace(&format!("layers.{layer}."), "")
        }
        Site::Vision(_, site) => site.to_string(),
        other => other.to_string(),
    }
}

/// An index at a report's site, with the names of its axes; a token of a later pass with its position, too.
pub(super) fn named(report: &SiteReport, index: &[usize], head_dim: usize) -> String {
    let (site, first) = (report.site, report.first);
    let name = |(axis, at): (&Axis, &usize)| match axis {
        Axis::Tokens if first > 0 => format!("{} {at} (position {})", axis.name(), first + at),
        axis => format!("{} {at}", axis.name()),
    };
    let named: Vec<String> = site.axes().iter().zip(index).map(name).collect();
    match index {
        [_, channel] if site.has_heads() => {
            format!("{} (channel {} of head {})", named.join(", "), channel % head_dim, channel / head_dim)
        }
        _ => named.join(", "),
    }
}
