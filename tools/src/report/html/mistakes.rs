//! A page for each known mistake, and an index of all.

use maud::{Markup, html};

use super::page;
use crate::report::mistakes::{Entry, Made, SEARCHED, counts};

/// The index's file.
pub const INDEX: &str = "index.html";

/// The file of a mistake's page.
pub fn file(entry: &Entry) -> String {
    format!("{}.html", entry.name)
}

/// All mistakes, each with a link to its page.
pub fn index(entries: &[Entry]) -> String {
    let (known, others) = counts(entries);
    let body = html! {
        h1 { "Known mistakes" }
        p {
            (known) " that ports of MiniMax-M2.7 and M3 make, or could. "
            code { "parity diagnose" } " names them in a dump."
        }
        (table(&["mistake", "what the code does", "operators"], entries.iter().filter(|entry| entry.made.is_some())))
        p { (others) " that it finds by search where none of those explains a dump." }
        (table(&["what is searched", "what the code does"], entries.iter().filter(|entry| entry.made.is_none())))
    };
    page("known mistakes · parity", &body)
}

fn table<'e>(titles: &[&str], entries: impl Iterator<Item = &'e Entry>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(titles[0]) {
            table.figures {
                thead { tr { @for title in titles { th scope="col" { (title) } } } }
                tbody {
                    @for entry in entries {
                        tr {
                            th scope="row" { a href=(file(entry)) { (entry.name) } }
                            td { (entry.about) }
                            @if let Some(made) = &entry.made { td { (made.operators.join(", ")) } }
                        }
                    }
                }
            }
        }
    }
}

/// All that is known of one.
pub fn one(entry: &Entry) -> String {
    let body = html! {
        p { a href=(INDEX) { "All known mistakes" } }
        h1 { (entry.name) }
        (told(entry))
        @if let Some(made) = &entry.made { dl.facts { dt { "can be made in" } dd { (made.models()) } } }
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
        @match &entry.made {
            Some(made) => (facts(entry.name, made)),
            None => (part("How it is found", SEARCHED)),
        }
    }
}

fn facts(name: &str, made: &Made) -> Markup {
    html! {
        dl.facts {
            dt { "wrong" } dd { code { (made.wrong_code) } }
            dt { "right" } dd { code { (made.right_code) } }
            dt { "shown by" } dd { (made.operators.join(", ")) }
            dt { "visible" } dd { (made.visible) }
            @for witness in made.witnessed() { dt { "what it did" } dd { (witness) } }
            dt { "see it" } dd { code { "parity demo " (name) } }
        }
    }
}

fn part(title: &str, text: &str) -> Markup {
    html! { p { strong { (title) ". " } (text) } }
}
