//! Where a change can be made: in some layers, in some calls of the model.

use fixtures::names::at::At;
use reference::semantics::Common;
use reference::{Semantics, Site};

use super::catalogue::mistake::{Assumed, Calls, Change};
use super::catalogue::weights::WeightChange;
use super::search;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::{SiteReport, Verdict};

/// Whether a change can be made in some layers alone.
pub(super) fn holds_in_some_layers(change: &Change) -> bool {
    holds_in_some(change, &[Common::Both])
}

/// What a rotation table is made of, which all layers take, unless one is read otherwise.
const TABLE: [&str; 10] = [
    "rotary_dim",
    "rope_theta",
    "rope_frequency",
    "rope_position",
    "position_shift",
    "rope_inv_freq",
    "rope_angle",
    "rope_linear",
    "rope_scale",
    "rope_scaling",
];

/// Whether a change makes another rotation table.
fn is_of_table(change: &Change) -> bool {
    matches!(change, Change::Reading(field, _) if TABLE.contains(field))
}

/// Whether a change can be made in some calls alone.
pub(super) fn holds_in_some_calls(change: &Change) -> bool {
    holds_in_some(change, &[Common::Calls, Common::Both])
}

fn holds_in_some(change: &Change, of: &[Common]) -> bool {
    match change {
        Change::Reading(field, _) => !of.contains(&Semantics::common(field)),
        Change::Weights(WeightChange::Tensor(change)) => change.is_of_layers(),
        Change::Weights(_) => true,
        Change::Order(..) | Change::Unseen(_) | Change::Padding | Change::Captured(_) => false,
    }
}

/// The calls in which alone a mistake may be made that shows at a site: those from the fault on where the site is right in all
/// before, or the first where it is right in all others; `steps` are the tokens of each call.
pub(super) fn calls(fault: &SiteReport, reports: &[SiteReport], steps: &[Vec<u32>]) -> Option<Calls> {
    let right = |step: usize| {
        let mut of_step = reports.iter().filter(|report| (report.step, report.site) == (step, fault.site)).peekable();
        of_step.peek().is_some() && of_step.all(|report| report.verdict != Verdict::Fault)
    };
    let before = |step: usize| steps[..step].iter().map(Vec::len).sum();
    match fault.step {
        0 if steps.len() > 1 && (1..steps.len()).all(right) => Some(Calls { from: 0, until: Some(before(1)) }),
        0 => None,
        step => (0..step).all(right).then(|| Calls { from: before(step), until: None }),
    }
}

impl Comparison<'_> {
    /// That the rotation table is not taken as it is shown, where what is assumed makes another, and it is shown.
    pub(super) fn unseen_table(&self, added: &[Assumed]) -> Option<Assumed> {
        let is_shown = self.compared.candidate.has(At { step: 0, site: Site::RopeCos });
        let is_other = added.iter().any(|one| is_of_table(&one.change));
        (is_shown && is_other).then(|| search::unseen(Site::RopeCos))
    }

    /// The same, in the layer of a site alone where it is of the rotation table and that is shown: what is shown is what all others take.
    pub(super) fn of_own_table(&self, assumed: Assumed, site: Site) -> Assumed {
        let is_shown = self.compared.candidate.has(At { step: 0, site: Site::RopeCos });
        match site.layer().filter(|_| is_shown && is_of_table(&assumed.change)) {
            Some(layer) if assumed.layers.is_none() => assumed.within(Some(vec![layer])),
            _ => assumed,
        }
    }
}

/// The same in some layers alone, of what is assumed in all and may hold in some; `None` where nothing is.
pub(super) fn in_layers(added: &[Assumed], layers: &[usize]) -> Option<Vec<Assumed>> {
    let is_wide = |one: &Assumed| one.layers.is_none() && holds_in_some_layers(&one.change);
    let within = |one: &Assumed| if is_wide(one) { one.within(Some(layers.to_vec())) } else { one.clone() };
    added.iter().any(is_wide).then(|| added.iter().map(within).collect())
}
