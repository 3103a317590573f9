//! The last row of each prompt alone, as people keep it who save `h[:, -1]`.

use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::activations::rows::{Call, Segment, Slot};
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
    if *rows != fed.len() || !fed.iter().all(is_longer) || is_placed {
        return None;
    }
    let mut shown = lists.into_iter().flatten().flatten().flatten();
    let is_last = |one: &Fed| shown.next().is_none_or(|token| *token == one.tokens().last().copied());
    if !fed.iter().all(is_last) {
        return None;
    }
    let calls = if shows_inside(values) {
        let slot = |one: &Fed| Slot { token: one.tokens()[one.slots.len() - 1], position: Some(one.slots.len() - 1) };
        let rows = fed.iter().enumerate();
        let rows = rows.map(|(row, one)| Segment { request: row, start: row, slots: vec![Some(slot(one))] });
        vec![Call::new(fed.len(), 1, rows.collect())]
    } else {
        inferred::calls(fed, &[Size::default()]).ok()?
    };
    Some(Inferred { calls, known: Some(fed.to_vec()), ..Inferred::default() })
}

/// Whether a dump shows what is judged by itself.
pub(super) fn shows_inside(values: &Sited) -> bool {
    values.sites().any(|at| is_inside(at.site))
}

/// Whether it is a choice, or what is between an operator and the next: each is judged by itself, as those of a step from a cache
/// are. Blocks are chosen among what attention reads, and follow from all tokens as that does.
pub(super) fn is_inside(site: Site) -> bool {
    let Site::Layer(_, of) = site else { return site.is_choice() };
    let is_choice = site.is_choice() && of != LayerSite::Blocks;
    is_choice || matches!(of, LayerSite::QRope | LayerSite::GateScores | LayerSite::GateChoice | LayerSite::GateWeights)
}
