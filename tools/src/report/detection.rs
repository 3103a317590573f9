//! What a dump can show, in words.

use super::figures::{counted, numbered};
use super::place::of_step;
use crate::diagnose::detection::Detection;
use crate::diagnose::detection::experts::{ExpertsOf, Unseen};
use crate::diagnose::detection::mistakes::{Known, Outcome};
use crate::diagnose::detection::stretch::{Evidence, Moved};
use crate::judge::verdict::{JudgedBy, Verdict};

/// Why something could not be shown, and what: a line each.
pub(super) struct Unshown {
    pub(super) why: String,
    pub(super) what: Vec<String>,
}

/// How many of the known mistakes are ruled out.
pub(super) fn mistakes(detection: &Detection) -> String {
    let ruled_out = detection.mistakes.iter().filter(|known| known.is_ruled_out()).count();
    format!("{ruled_out} of {} are ruled out", counted(detection.mistakes.len(), "known mistake"))
}

/// How many experts would show a gain.
pub(super) fn experts(detection: &Detection) -> Option<String> {
    let all: usize = detection.experts.iter().map(|layer| layer.experts).sum();
    let compared = detection.experts.iter().filter(|layer| layer.compared);
    let seen: usize = compared.map(|layer| layer.experts - layer.unseen.len()).sum();
    let percent = 100.0 * (detection.gain - 1.0);
    (all > 0).then(|| {
        format!(
            "a gain of {percent:.0} % in down_proj of one expert would be seen in {seen} of {}",
            counted(all, "expert")
        )
    })
}

/// The mistakes that are not ruled out, by reason.
pub(super) fn unshown_mistakes(detection: &Detection) -> Vec<Unshown> {
    let mut groups: Vec<Unshown> = Vec::new();
    let mut add = |why: String, what: String| match groups.iter_mut().find(|group| group.why == why) {
        Some(group) => group.what.push(what),
        None => groups.push(Unshown { why, what: vec![what] }),
    };
    for known in &detection.mistakes {
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for way in &known.ways {
            let Some(why) = why(known, &way.outcome, detection.tokens) else { continue };
            match told.iter_mut().find(|(other, _)| *other == why) {
                Some((_, ways)) => ways.push(&way.way),
                None => told.push((why, vec![&way.way])),
            }
        }
        for (why, ways) in told {
            let is_all = ways.len() == known.ways.len();
            let what = if is_all { known.name.to_owned() } else { format!("{} ({})", known.name, ways.join(", ")) };
            add(why, what);
        }
    }
    groups
}

/// Why a mistake is not ruled out, if it is not.
fn why(known: &Known, outcome: &Outcome, tokens: usize) -> Option<String> {
    Some(match outcome {
        Outcome::RuledOut(_) => return None,
        Outcome::NotCompared => "what they change was not compared".into(),
        Outcome::AtFault => "what they change is off without them, too: `parity diagnose` says by what".into(),
        Outcome::Inconclusive => "the comparison of what they change says nothing".into(),
        Outcome::MovesNothing => format!("they change no value that was compared (visible: {})", known.visible),
        Outcome::WithinBounds(Moved { bounds: 0.0, .. }) => {
            format!("they change only choices that rounding may change, in {}", counted(tokens, "token"))
        }
        Outcome::WithinBounds(Moved { bounds, site, .. }) => {
            let place = site.map(|site| format!(", at {site}")).unwrap_or_default();
            format!("they move values by at most {} in {}{place}", of_bounds(*bounds), counted(tokens, "token"))
        }
    })
}

/// The experts in which a gain would not be seen, by reason.
pub(super) fn unshown_experts(detection: &Detection) -> Vec<Unshown> {
    let mut groups: Vec<Unshown> = Vec::new();
    for ExpertsOf { layer, experts, compared, unseen } in &detection.experts {
        let mut add = |why: String, what: String| match groups.iter_mut().find(|group| group.why == why) {
            Some(group) => group.what.push(what),
            None => groups.push(Unshown { why, what: vec![what] }),
        };
        if !compared {
            let why = "what they give was not compared in their own layer for every token".into();
            add(why, format!("{} of layer {layer}", counted(*experts, "expert")));
            continue;
        }
        let visited: Vec<usize> = unseen.iter().filter(|one| one.tokens == 0).map(|one| one.expert).collect();
        if !visited.is_empty() {
            add("no token chose them".into(), format!("{} of layer {layer}", numbered("expert", &visited)));
        }
        for Unseen { expert, tokens, needed, bounds } in unseen.iter().filter(|one| one.tokens > 0) {
            let place = format!("expert {expert} of layer {layer}");
            match needed.filter(|needed| tokens < needed) {
                Some(needed) => add(
                    format!(
                        "values move by less than their bounds, and {} or more are needed to tell",
                        counted(needed, "token")
                    ),
                    format!("{place} ({tokens})"),
                ),
                None => add(
                    "values move by less than their bounds".into(),
                    format!("{place} ({}, {})", of_bounds(*bounds), counted(*tokens, "token")),
                ),
            }
        }
    }
    groups
}

/// What rules a mistake out.
pub(super) fn evidence(evidence: &Evidence) -> String {
    let Evidence { step, site, off, count, structures, note, .. } = evidence;
    let by = match (evidence.judged_by, evidence.verdict, evidence.bounds) {
        (JudgedBy::Intervals, ..) if *count > 0 => {
            format!("{off} of {} none that rounding can make", counted(*count, "choice"))
        }
        (_, Verdict::Fault, Some(bounds)) => format!("{}, {off} of {count} values", of_bounds(bounds)),
        (_, Verdict::Suspicious, _) if structures.is_empty() => {
            format!("{off} of {count} values further off than independent roundings explain")
        }
        (_, Verdict::Suspicious, _) => structures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        _ => note.clone().unwrap_or_default(),
    };
    format!("{}: {by}", of_step(*step, *site))
}

/// So many bounds.
pub(super) fn of_bounds(bounds: f64) -> String {
    match bounds {
        0.0..0.01 => format!("{bounds:.0e} bounds"),
        0.01..100.0 => format!("{bounds:.2} bounds"),
        100.0..1e6 => format!("{bounds:.0} bounds"),
        _ if bounds.is_finite() => format!("{bounds:.1e} bounds"),
        _ => "more than no rounding at all".into(),
    }
}
