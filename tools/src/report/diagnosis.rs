//! A diagnosis in words: facts with their labels, as the terminal and the page tell them.

use std::fmt::Write;

use super::figures::{apart, counted, numbered};
use super::finding::suspicion;
use super::place::of_step;
use crate::diagnose::catalogue::fit::Fitted;
use crate::diagnose::diagnosis::{Diagnosis, Explained};
use crate::diagnose::lessons::found;
use crate::diagnose::lessons::list::lessons;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

/// Columns of a label.
const LABEL: usize = 13;

/// What is told, and its label.
pub(super) type Fact = (&'static str, String);

/// The diagnosis for reading.
pub fn text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for explained in &diagnosis.explained {
        for (label, fact) in facts(explained) {
            let _ = writeln!(text, "{label:<LABEL$}{fact}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", rest(diagnosis));
    for (label, fact) in diagnosis.unexplained.iter().map(|fault| place(fault)).chain(suspicious(diagnosis)) {
        let _ = writeln!(text, "{label:<LABEL$}{fact}");
    }
    for sentence in &diagnosis.pattern {
        let _ = writeln!(text, "  {sentence}");
    }
    for sentence in &diagnosis.solved {
        let _ = writeln!(text, "{:<LABEL$}{sentence}", "values say");
    }
    text
}

/// What is left, in a sentence.
pub(super) fn rest(diagnosis: &Diagnosis) -> String {
    match &diagnosis.unexplained {
        Some(fault) if fault.lens != Lens::Local => format!(
            "no fault under the local lens, where every operator gives what it must of its own inputs, but together they give what \
             rounding does not: under the others {}",
            counted(diagnosis.left, "fault")
        ),
        Some(_) => format!("left that no known mistake explains: {}", counted(diagnosis.left, "fault")),
        None if !diagnosis.suspicious.is_empty() => {
            "no fault: rounding can make each of these values, but not so many, or not all in one direction".into()
        }
        None if diagnosis.explained.is_empty() && diagnosis.conclusive == 0 => {
            "no fault, and nothing is shown that could tell one: every comparison is inconclusive".into()
        }
        None if diagnosis.explained.is_empty() => {
            "no fault under the local lens: every operator gives what it must of its own inputs".into()
        }
        None => "nothing is left unexplained".into(),
    }
}

/// Suspicious sites that nothing explains, where no fault is left.
pub(super) fn suspicious(diagnosis: &Diagnosis) -> impl Iterator<Item = Fact> {
    let is_left = diagnosis.unexplained.is_none();
    diagnosis.suspicious.iter().filter(move |_| is_left).map(place)
}

/// Where a fault is, with its worst value, or why a site is suspicious.
pub(super) fn place(fault: &SiteReport) -> Fact {
    let mut text = of_step(fault.step, fault.site);
    if fault.verdict == Verdict::Suspicious {
        return ("suspicious", format!("{text}: {}", suspicion(fault)));
    }
    if let Some(worst) = &fault.worst {
        let [candidate, reference] = apart(worst.candidate, worst.reference);
        let _ = write!(text, " at {:?}: {candidate}, expected {reference} ± {:.1e}", worst.index, worst.bound);
    }
    if fault.lens != Lens::Local {
        let _ = write!(text, " under the {} lens", fault.lens);
    }
    if let Some(note) = &fault.note {
        let _ = write!(text, ": {note}");
    }
    ("first fault", text)
}

/// A mistake that explains a fault.
pub(super) fn facts(explained: &Explained) -> Vec<Fact> {
    let mut facts = vec![place(&explained.fault)];
    if !explained.off.is_empty() {
        facts.push(("off", explained.off.join("; ")));
    }
    facts.push(("mistake", format!("{} ({})", explained.name, explained.way)));
    facts.push(("", explained.about.into()));
    facts.push(("right", explained.right.into()));
    facts.extend(explained.fitted.as_ref().map(fitted));
    if !explained.layers.is_empty() {
        let what = if explained.is_local { " alone" } else { ", all that can tell" };
        facts.push(("holds in", format!("{}{what}", numbered("layer", &explained.layers))));
    }
    if let Some([before, under]) = explained.reproduced {
        let share = 100.0 * under.equal as f64 / under.count.max(1) as f64;
        let (equal, count, without) = (under.equal, under.count, before.equal);
        let told = format!("{equal} of the site's {count} values bit for bit ({share:.1} %), without it {without}");
        facts.push(("reproduces", told));
    }
    if let (right, all @ 1..) = explained.fits {
        facts.push(("fit", format!("{right} of {all} comparisons of the layer are within their bounds under it")));
    }
    if !explained.equivalent.is_empty() {
        facts.push(("as good", explained.equivalent.join(", ")));
    }
    let of = if explained.fault.verdict == Verdict::Suspicious { "suspicious site" } else { "fault" };
    facts.push(("leaves", counted(explained.left, of)));
    if lessons().any(|lesson| lesson.name == explained.name) || found::of(explained.name).is_some() {
        facts.push(("more", format!("parity mistakes {}", explained.name)));
    }
    facts
}

/// A parameter as values have it beside the configuration's.
fn fitted(Fitted { parameter, fit, configured }: &Fitted) -> Fact {
    let said = if configured.is_finite() {
        format!("the configuration says {}", short(*configured))
    } else {
        "the model has none".into()
    };
    ("fitted", format!("{parameter} is {fit}, {said}"))
}

/// A number as people write it: 1e-6, not 0.000001.
fn short(value: f64) -> String {
    if (1e-3..1e6).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}
