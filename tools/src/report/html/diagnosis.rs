//! A diagnosis as a page: each mistake with what it explains, then what is left.

use maud::{Markup, html};

use super::{known, page};
use crate::diagnose::diagnosis::{Diagnosis, Explained};
use crate::report::diagnosis::{Fact, facts, place, rest, suspicious};
use crate::report::figures::counted;

/// The diagnoses of a dump's requests.
pub fn diagnoses(model: &str, dump: &str, all: &[Diagnosis]) -> String {
    let found: usize = all.iter().map(|diagnosis| diagnosis.explained.len()).sum();
    let left: usize = all.iter().map(|diagnosis| diagnosis.left + diagnosis.suspicious.len()).sum();
    let title = format!("{} · parity · {model}", counted(found, "mistake"));
    let body = html! {
        h1 { "parity diagnose " span.badge.fail[found + left > 0] { (counted(found, "mistake")) } }
        dl.facts { dt { "model" } dd { (model) } dt { "candidate" } dd { (dump) } }
        @for (number, diagnosis) in all.iter().enumerate() {
            section.report {
                @if all.len() > 1 { h2 { "Request " (number + 1) } }
                (one(diagnosis))
            }
        }
        (known::of_diagnoses(all))
    };
    page(&title, &body)
}

fn one(diagnosis: &Diagnosis) -> Markup {
    let left = diagnosis.unexplained.iter().map(|fault| place(fault)).chain(suspicious(diagnosis));
    let left: Vec<Fact> = left.collect();
    html! {
        @for (number, explained) in diagnosis.explained.iter().enumerate() { (mistake(number + 1, explained)) }
        h3 { "What is left" }
        p { (rest(diagnosis)) "." }
        (list(&left))
        @if !diagnosis.pattern.is_empty() { ul { @for sentence in &diagnosis.pattern { li { (sentence) } } } }
        @for sentence in &diagnosis.solved { p { strong { "Its values say: " } (sentence) "." } }
        dl.facts { dt { "semantics under the mistakes" } dd { (diagnosis.semantics) } }
    }
}

/// A mistake: its name, its facts, and how much of the site's values it reproduces, without it and with it.
fn mistake(number: usize, explained: &Explained) -> Markup {
    html! {
        h3 { (number) ". " (known::link(explained.name)) " (" (explained.way) ")" }
        (list(&facts(explained)))
        @if let Some(reproduced) = explained.reproduced {
            dl.facts {
                @for (label, share) in ["without it", "with it"].into_iter().zip(reproduced) {
                    dt { "reproduced " (label) }
                    dd {
                        meter min="0" max=(share.count) value=(share.equal) { (share.equal) " of " (share.count) }
                        " " (share.equal) " of " (share.count)
                    }
                }
            }
        }
    }
}

fn list(facts: &[Fact]) -> Markup {
    html! { dl.facts { @for (label, fact) in facts { dt { (label) } dd { (fact) } } } }
}
