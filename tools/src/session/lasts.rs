//! The last row of each prompt alone, as people keep it who save `h[:, -1]`.

use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::names::sited::Sited;
use reference::{LayerSite, Site};

use super::embedded::Lists;
use super::inferred::{Inferred, is_unpadded};
use super::model::Model;
use super::rotated::first_position;

/// The one call of a dump that has one row of each prompt, at no position that it shows: those of the last tokens, unless embeddings are
/// others'.
pub(super) fn lasts(
    fed: &[Fed],
    sizes: &[Size],
    (values, lists): (&Sited, Option<&[Lists]>),
    model: &Model,
) -> Option<Inferred> {
    let [Size { rows: Some(rows), .. }] = sizes else { return None };
    let is_longer = |one: &Fed| is_unpadded(one) && one.slots.len() > 1 && one.decoded.is_empty();
    let is_placed = first_position(values, model.checkpoint.config(), (0, 0), (fed.len(), 1)).is_some();
    if shows_inside(values) || *rows != fed.len() || !fed.iter().all(is_longer) || is_placed {
        return None;
    }
    let mut shown = lists.into_iter().flatten().flatten().flatten();
    let is_last = |one: &Fed| shown.next().is_none_or(|token| *token == one.tokens().last().copied());
    let calls = fed.iter().all(is_last).then(|| inferred::calls(fed, &[Size::default()]).ok())??;
    Some(Inferred { calls, known: Some(fed.to_vec()), ..Inferred::default() })
}

/// Whether a dump shows choices, or what is between an operator and the next: each is judged by itself, as those of a step from a cache
/// are. Blocks are chosen among what attention reads, and follow from all tokens as that does.
pub(super) fn shows_inside(values: &Sited) -> bool {
    let is_inside = |site| matches!(site, LayerSite::QRope | LayerSite::GateScores | LayerSite::GateWeights);
    let is_of_blocks = |site| matches!(site, Site::Layer(_, LayerSite::Blocks));
    let is_choice = |site: Site| site.is_choice() && !is_of_blocks(site);
    values.sites().any(|at| is_choice(at.site) || matches!(at.site, Site::Layer(_, site) if is_inside(site)))
}
