//! A page for each known mistake, and an index of all.

use maud::{Markup, html};

use super::page;
use crate::report::figures::counted;
use crate::report::mistakes::Entry;

/// The index's file.
pub const INDEX: &str = "index.html";

/// The file of a mistake's page.
pub fn file(entry: &Entry) -> String {
    format!("{}.html", entry.name)
}

/// All mistakes, each with a link to its page.
pub fn index(entries: &[Entry]) -> String {
    let body = html! {
        h1 { "Known mistakes" }
        p {
            (counted(entries.len(), "mistake")) " that ports of MiniMax-M2.7 and M3 make, or could. "
            code { "parity diagnose" } " names them in a dump."
        }
        div.scroll tabindex="0" role="region" aria-label="mistakes" {
            table.figures {
                thead {
                    tr { @for title in ["mistake", "what the code does", "operators"] { th scope="col" { (title) } } }
                }
                tbody {
                    @for entry in entries {
                        tr {
                            th scope="row" { a href=(file(entry)) { (entry.name) } }
                            td { (entry.about) }
                            td { (entry.operators.join(", ")) }
                        }
                    }
                }
            }
        }
    };
    page("known mistakes · parity", &body)
}

/// All that is known of one.
pub fn one(entry: &Entry) -> String {
    let body = html! {
        p { a href=(INDEX) { "All known mistakes" } }
        h1 { (entry.name) }
        (told(entry))
        dl.facts { dt { "can be made in" } dd { (entry.models()) } }
    };
    page(&format!("{} · known mistakes · parity", entry.name), &body)
}

/// What is known of one, whatever the model.
pub(super) fn told(entry: &Entry) -> Markup {
    html! {
        (part("What the code does", entry.about))
        (part("What is right", entry.right))
        (part("What it does to the numbers", entry.numbers))
        (part("How to mend it", entry.mend))
        dl.facts {
            dt { "wrong" } dd { code { (entry.wrong_code) } }
            dt { "right" } dd { code { (entry.right_code) } }
            dt { "shown by" } dd { (entry.operators.join(", ")) }
            dt { "visible" } dd { (entry.visible) }
            @for witness in entry.witnessed() { dt { "what it did" } dd { (witness) } }
            dt { "see it" } dd { code { "parity demo " (entry.name) } }
        }
    }
}

fn part(title: &str, text: &str) -> Markup {
    html! { p { strong { (title) ". " } (text) } }
}
