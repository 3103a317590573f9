//! Rows of an operator's output that are never written.

use reference::semantics::{Unwritten, Written};
use reference::{LayerSite, Site};

use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change, Clue};

/// Operators whose rows may stay unwritten, by their sites.
const OPERATORS: [(LayerSite, Written); 5] = [
    (LayerSite::Context, Written::Context),
    (LayerSite::OProj, Written::OProj),
    (LayerSite::Experts, Written::Experts),
    (LayerSite::SharedDown, Written::Shared),
    (LayerSite::DenseDown, Written::Dense),
];

/// Of each operator on the way, the rows that are off in a call, or all from there on.
pub(super) fn search(bench: &Bench<'_, '_>, clue: Clue) -> Vec<Assumed> {
    let is_there = |at| bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, own) if *own == at));
    let of = OPERATORS.into_iter().filter(|(at, _)| is_there(*at)).map(|(_, of)| of);
    let rows = |of| [Some(clue.last + 1), None].map(|until| Unwritten { of, from: clue.position, until });
    let assumed =
        |rows: Unwritten| Assumed::everywhere(&kinds::UNWRITTEN, Change::Reading("unwritten", rows.to_string()));
    of.flat_map(rows).map(assumed).collect()
}
