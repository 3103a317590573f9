//! A fault in words: how many values, where the worst is, both values, the bound, the command that runs just that again.

use super::content::Report;
use super::figures::apart;
use super::place::named;
use crate::judge::decoded::Divergence;
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};

/// What is said of sites that a candidate does not show.
pub(super) const NOT_CAPTURED: &str = "not captured; checked through the next captured operator:";

/// Structures of one site that a sentence has.
const STRUCTURES: usize = 4;

/// Another token, in words.
pub(super) fn another_token(divergence: &Divergence) -> String {
    format!(
        "candidate {}, reference {}; margin {:.3e}, rounding explains {:.3e}, noise explains {:.3e}",
        divergence.candidate, divergence.reference, divergence.margin, divergence.rounding, divergence.limit
    )
}

/// Suspicious values, in words.
pub(crate) fn suspicion(site: &SiteReport) -> String {
    let (seen, of) = (site.count - site.equal, site.count);
    let unequal = site
        .unequal_expected
        .map(|expected| format!("; {seen} are not the reference's, rounded, where {expected:.1} are expected"));
    let further = format!(
        "{} of {of} values further off than independent roundings explain{}",
        site.suspicious,
        unequal.unwrap_or_default()
    );
    let told = (site.suspicious > 0).then_some(further);
    let structures = site.structures.iter().take(STRUCTURES).map(ToString::to_string);
    let more = site.structures.len().saturating_sub(STRUCTURES);
    let more = (more > 0).then(|| format!("and in {more} more places"));
    told.into_iter().chain(structures).chain(more).chain(site.note.clone()).collect::<Vec<String>>().join("; ")
}

/// A line a fact.
pub(super) fn lines(site: &SiteReport, report: &Report) -> Vec<String> {
    let of = if site.judged_by == JudgedBy::Intervals { "tokens" } else { "values" };
    let mut lines = Vec::new();
    let is_together = site.verdict == Verdict::Fault && matches!(site.judged_by, JudgedBy::NoiseFloor(_));
    match (site.count, site.faults) {
        (0, _) => {}
        (count, 0) if is_together => {
            lines.push(format!("{count} values are together further off than the {}, and none alone", site.judged_by));
        }
        (count, faults) => lines.push(format!("{faults} of {count} {of} outside the {}", site.judged_by)),
    }
    if let Some(worst) = &site.worst {
        let [candidate, reference] = apart(worst.candidate, worst.reference);
        lines.push(format!(
            "worst at {}: candidate {candidate}, reference {reference}, allowed ±{:.2e}, ratio {:.1}",
            named(site, &worst.index, report.header.head_dim),
            worst.bound,
            worst.ratio
        ));
    }
    if !site.segment.is_empty() {
        let operators: Vec<String> = site.segment.iter().map(ToString::to_string).collect();
        lines.push(format!("compared together with {}, which the candidate does not show", operators.join(", ")));
    }
    lines.extend(site.note.clone());
    lines.push(format!("reproduce: {}", report.again(site.site)));
    lines
}
