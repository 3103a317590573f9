//! Where a change can be made: in some layers, in some calls of the model.

use reference::Semantics;
use reference::semantics::Common;

use super::catalogue::mistake::{Calls, Change};
use super::catalogue::weights::WeightChange;
use crate::judge::verdict::{SiteReport, Verdict};

/// Whether a change can be made in some layers alone.
pub(super) fn holds_in_some_layers(change: &Change) -> bool {
    holds_in_some(change, Common::Layers)
}

/// Whether a change can be made in some calls alone.
pub(super) fn holds_in_some_calls(change: &Change) -> bool {
    holds_in_some(change, Common::Calls)
}

fn holds_in_some(change: &Change, of: Common) -> bool {
    match change {
        Change::Reading(field, _) => ![of, Common::Both].contains(&Semantics::common(field)),
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
