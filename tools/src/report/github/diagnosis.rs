//! Diagnoses for GitHub Actions: each mistake is an error, and so is what none explains.

use std::fmt::Write;

use super::markdown::plain;
use super::{Annotation, Level, joined, shown};
use crate::diagnose::diagnosis::{Diagnosis, Explained};
use crate::judge::verdict::Verdict;
use crate::report::diagnosis::{Fact, facts, place, rest, suspicious};

/// The annotations of a dump's requests, a line each.
pub fn annotations(model: &str, diagnoses: &[Diagnosis]) -> String {
    let error = |what: String, message| Annotation { level: Level::Error, title: titled(model, &what), message };
    let named = diagnoses.iter().flat_map(|diagnosis| &diagnosis.explained);
    let named = named.map(|explained| error(named_at(explained), lines(&facts(explained))));
    let left = diagnoses.iter().filter_map(|diagnosis| {
        let fault = diagnosis.unexplained.as_deref()?;
        let message = [&[rest(diagnosis), lines(&[place(fault)])], &diagnosis.pattern[..], &diagnosis.solved].concat();
        Some(error(format!("fault at {}", fault.site), message.join("\n")))
    });
    let errors = shown(named.chain(left).collect(), "more fault");
    let suspicious = diagnoses.iter().flat_map(suspicious).map(|fact| Annotation {
        level: Level::Warning,
        title: titled(model, "suspicious"),
        message: fact.1,
    });
    joined(&errors, &shown(suspicious.collect(), "more suspicious site"))
}

/// The diagnoses as Markdown.
pub fn summary(model: &str, diagnoses: &[Diagnosis]) -> String {
    let mut text = format!("## parity diagnose: {}\n", plain(model));
    for diagnosis in diagnoses {
        for explained in &diagnosis.explained {
            let _ = writeln!(text, "\n### {}\n", plain(&named_at(explained)));
            for (label, fact) in &facts(explained) {
                let _ = writeln!(text, "- {}", plain(&said(label, fact)));
            }
        }
        let _ = writeln!(text, "\n{}.\n", plain(&rest(diagnosis)));
        let left = diagnosis.unexplained.iter().map(|fault| place(fault)).chain(suspicious(diagnosis));
        let left = left.map(|(label, fact)| said(label, &fact));
        for sentence in left.chain(diagnosis.pattern.iter().chain(&diagnosis.solved).cloned()) {
            let _ = writeln!(text, "- {}", plain(&sentence));
        }
    }
    text
}

fn titled(model: &str, what: &str) -> String {
    format!("parity: {model}: {what}")
}

/// The mistake, and where it shows: a mistake may explain what is suspicious, too.
fn named_at(explained: &Explained) -> String {
    let of = if explained.fault.verdict == Verdict::Suspicious { "suspicious values" } else { "the fault" };
    format!("{} explains {of} at {}", explained.name, explained.fault.site)
}

fn lines(facts: &[Fact]) -> String {
    let lines: Vec<String> = facts.iter().map(|(label, fact)| said(label, fact)).collect();
    lines.join("\n")
}

fn said(label: &str, fact: &str) -> String {
    if label.is_empty() { fact.to_owned() } else { format!("{label}: {fact}") }
}
