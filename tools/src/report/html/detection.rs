//! What the candidate's values can show: the mistakes that they rule out, and what they cannot.

use maud::{Markup, html};

use crate::diagnose::detection::mistakes::{Known, Outcome};
use crate::report::content::Report;
use crate::report::detection::{Unshown, evidence, experts, mistakes, unshown_experts, unshown_mistakes};
use crate::report::gains::{gains, unshown_gains};

/// Counts, what cannot be shown by reason, and what is ruled out by what.
pub(super) fn detection(report: &Report) -> Markup {
    let Some(detection) = &report.detection else { return html! {} };
    html! {
        h3 { "Coverage of mistakes" }
        p { (mistakes(detection)) "." }
        (unshown(&unshown_mistakes(detection)))
        details {
            summary { "What rules the others out" }
            ul { @for known in &detection.mistakes { (ruled_out(known)) } }
        }
        @if let Some(experts) = experts(detection) {
            p { (experts) "." }
            (unshown(&unshown_experts(detection)))
        }
        p { (gains(detection)) "." }
        (unshown(&unshown_gains(detection)))
    }
}

fn unshown(groups: &[Unshown]) -> Markup {
    html! {
        @if !groups.is_empty() {
            ul { @for group in groups { li { (group.why) ": " b { (group.what.join(", ")) } } } }
        }
    }
}

fn ruled_out(known: &Known) -> Markup {
    html! {
        @for way in &known.ways {
            @if let Outcome::RuledOut(by) = &way.outcome {
                li { b { (known.name) } " (" (way.way) "): " (known.about) "; " span.aside { (evidence(by)) } }
            }
        }
    }
}
