//! Where a change can be made: in some layers, in some calls of the model.

use reference::Semantics;

use super::catalogue::mistake::{Calls, Change};
use super::catalogue::weights::WeightChange;
use crate::judge::verdict::{SiteReport, Verdict};

/// Readings that all layers have in common: the rotation table's, and those that have sizes.
const OF_ALL_LAYERS: [&str; 15] = [
    "rotary_dim",
    "rope_theta",
    "rope_frequency",
    "rope_position",
    "position_shift",
    "rope_call",
    "rope_inv_freq",
    "rope_angle",
    "rope_linear",
    "rope_scale",
    "logits_shift",
    "top_k",
    "msa_top_k",
    "msa_select",
    "msa_init_block",
];

/// Readings that all calls have in common: those that have sizes, what is made of a call's place, and the head's.
const OF_ALL_CALLS: [&str; 18] = [
    "rotary_dim",
    "top_k",
    "msa_top_k",
    "msa_select",
    "position_shift",
    "rope_call",
    "rope_decode",
    "index_rope_decode",
    "logits_shift",
    "final_norm",
    "final_norm_eps",
    "cache_type",
    "cache_form",
    "cache_read",
    "index_cache",
    "cache_seam",
    "whole_pages",
    "unwritten",
];

/// Operators of the tower, and what stands before or behind all layers: no layer of the decoder has them.
const OF_NO_LAYER: [&str; 7] =
    ["vision_attention", "gelu", "axial_rope", "patch_merge", "patch_embedding", "layer_norm", "masked_scatter"];

/// Whether a change can be made in some layers alone.
pub(super) fn holds_in_some_layers(change: &Change) -> bool {
    holds_in_some(change, &OF_ALL_LAYERS)
}

/// Whether a change can be made in some calls alone.
pub(super) fn holds_in_some_calls(change: &Change) -> bool {
    holds_in_some(change, &OF_ALL_CALLS)
}

fn holds_in_some(change: &Change, common: &[&str]) -> bool {
    match change {
        Change::Reading(field, _) => !common.contains(field) && !is_of_no_layer(field),
        Change::Weights(WeightChange::Tensor(change)) => change.is_of_layers(),
        Change::Weights(_) => true,
        Change::Order(..) | Change::Unseen(_) | Change::Padding | Change::Captured(_) => false,
    }
}

fn is_of_no_layer(field: &str) -> bool {
    let mut operators = Semantics::OPERATORS.iter().filter(|(_, fields)| fields.contains(&field));
    operators.any(|(operator, _)| OF_NO_LAYER.contains(operator))
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
