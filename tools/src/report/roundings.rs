//! Faults that are as small as single roundings: an implementation that is right and rounds elsewhere has such.

use reference::Storage;

use super::header::Header;
use super::place;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// What rounds does so to many values: one in so many is off, at least. A single one that is off is something else.
const MANY: usize = 100;

/// A sentence, where the local lens has faults in values of a narrow type, and each is in many values and in all at most what
/// rounding to that type once more makes of them: ‖candidate − reference‖ ≤ u·‖reference‖.
pub(super) fn elsewhere(header: &Header, sites: &[SiteReport]) -> Option<String> {
    let shown = header.precision.shown();
    let unit = matches!(shown, Storage::Bf16 | Storage::F16).then(|| shown.unit_roundoff())?;
    let faults: Vec<&SiteReport> =
        sites.iter().filter(|site| site.verdict == Verdict::Fault && site.lens == Lens::Local).collect();
    let values = || faults.iter().filter(|fault| !fault.site.is_choice());
    let is_rounding = |fault: &&SiteReport| fault.deviation <= unit && fault.faults * MANY >= fault.count;
    if values().next().is_none() || !values().all(is_rounding) {
        return None;
    }
    let mut kinds: Vec<String> = Vec::new();
    for kind in values().map(|fault| place::kind(fault.site)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    Some(format!(
        "every fault is as small as a rounding to {shown} ({}): a quiet mistake, or an implementation that rounds in other places \
         than this precision, {}; --precision says where",
        kinds.join(", "),
        header.precision_from,
    ))
}
