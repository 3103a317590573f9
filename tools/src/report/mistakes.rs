//! Known mistakes for reading: a list of all, or all that is known of one; and kinds of what a search finds.

use std::fmt::Write;

use fixtures::golden::witnesses::{Witness, witnesses};
use owo_colors::OwoColorize;
use serde::Serialize;

use super::figures::counted;
use super::place::kind;
use super::table::with_header;
use super::wrapped::wrapped;
use crate::diagnose::catalogue::mistake::Mistake;
use crate::diagnose::lessons::found::told::Found;
use crate::diagnose::lessons::lesson::Lesson;

const INDENT: &str = "  ";

/// A known mistake with all that is told of it.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What the code does wrong.
    pub about: &'static str,
    /// What is right, and who says so.
    pub right: &'static str,
    /// What it does to the numbers.
    pub numbers: &'static str,
    /// How to mend it.
    pub mend: &'static str,
    /// What else is known of one of the catalogue; none of what a search finds, whose numbers are the dump's.
    #[serde(flatten)]
    pub made: Option<Made>,
}

/// What is known of a mistake that can be made.
#[derive(Debug, Clone, Serialize)]
pub struct Made {
    /// Code that has it, in PyTorch's style.
    pub wrong_code: &'static str,
    /// The same without it.
    pub right_code: &'static str,
    /// What a model and a prompt must have to show it.
    pub visible: &'static str,
    /// Sites whose values show it: those of the operators in which it is made.
    pub operators: Vec<String>,
    /// Released models and built-in cases in which it can be made.
    pub made_in: Vec<String>,
    /// What it did where it was made in the transformers library.
    pub witnesses: Vec<&'static Witness>,
}

/// Of what a search finds, in place of what is known of a mistake that can be made.
pub(super) const SEARCHED: &str = "This is no single mistake: `parity diagnose` searches for it where no known one explains a \
                                   dump, and tells where and by how much. `parity demo` makes none.";

impl Entry {
    /// What a lesson and the catalogue say.
    pub fn of(lesson: &Lesson, made_in: Vec<String>) -> Self {
        let mistake = lesson.entries().next().expect("the catalogue has each mistake");
        let mut operators: Vec<String> = Vec::new();
        for name in lesson.touches().into_iter().map(kind) {
            if !operators.contains(&name) {
                operators.push(name);
            }
        }
        Entry {
            name: lesson.name,
            about: mistake.about,
            right: mistake.right,
            numbers: lesson.numbers,
            mend: lesson.mend,
            made: Some(Made {
                wrong_code: lesson.wrong,
                right_code: lesson.right,
                visible: mistake.visible,
                operators,
                made_in,
                witnesses: witnesses(lesson.name).collect(),
            }),
        }
    }

    /// What is told of a kind of what a search finds.
    pub fn searched(found: &Found) -> Self {
        let Mistake { name, about, right, .. } = *found.kind;
        Entry { name, about, right, numbers: found.numbers, mend: found.mend, made: None }
    }
}

impl Made {
    /// The models in which it can be made, in words.
    pub(super) fn models(&self) -> String {
        if self.made_in.is_empty() { "none that is released or built in".to_owned() } else { self.made_in.join(", ") }
    }

    /// What it did in another implementation, a sentence for each dump.
    pub(super) fn witnessed(&self) -> Vec<String> {
        self.witnesses.iter().map(|witness| witnessed(witness)).collect()
    }
}

fn witnessed(witness: &Witness) -> String {
    let Witness { case, description, .. } = witness;
    let mut said = format!("in transformers on {case} ({description})");
    if let Some(change) = witness.largest_change_of_logits {
        let _ = write!(said, ": logits change by up to {change:.3}");
    }
    if let Some(tokens @ 1..) = witness.changed_best_tokens {
        let _ = write!(said, ", and behind {} another token is the likeliest", counted(tokens, "token"));
    }
    said
}

/// A line for each.
pub fn list(entries: &[Entry]) -> String {
    let mut known = with_header(&["mistake", "operators", "what the code does"]);
    let mut searched = with_header(&["what is searched", "what the code does"]);
    for entry in entries {
        match &entry.made {
            Some(made) => known.add_row([entry.name, &made.operators.join(", "), entry.about]),
            None => searched.add_row([entry.name, entry.about]),
        };
    }
    let (all, others) = counts(entries);
    format!(
        "{known}\n{all}; `parity mistakes NAME` tells more of one, `parity demo NAME` makes and finds it.\n\n{searched}\n{others} \
         that `parity diagnose` finds by search where none of those explains a dump; `parity mistakes NAME` tells more of one."
    )
}

/// How many are known, and how many kinds of others there are.
pub(super) fn counts(entries: &[Entry]) -> (String, String) {
    let known = entries.iter().filter(|entry| entry.made.is_some()).count();
    (counted(known, "known mistake"), counted(entries.len() - known, "kind of others"))
}

/// All of one.
pub fn text(entry: &Entry) -> String {
    let mut text = format!("{}\n", entry.name.bold());
    let mut part = |title: &str, body: &str| {
        let _ = writeln!(text, "\n{}\n{}", title.dimmed(), wrapped(INDENT, body));
    };
    part("What the code does", entry.about);
    part("What is right", entry.right);
    part("What it does to the numbers", entry.numbers);
    part("How to mend it", entry.mend);
    let Some(made) = &entry.made else {
        part("How it is found", SEARCHED);
        return text;
    };
    let _ = writeln!(text, "\n{}\n{INDENT}wrong  {}", "In code".dimmed(), made.wrong_code);
    let _ = writeln!(text, "{INDENT}right  {}", made.right_code);
    let mut part = |title: &str, body: &str| {
        let _ = writeln!(text, "\n{}\n{}", title.dimmed(), wrapped(INDENT, body));
    };
    part("What a dump must have to show it", &made.operators.join(", "));
    part("Where it is visible", made.visible);
    part("In which models it can be made", &made.models());
    if !made.witnesses.is_empty() {
        part("What it did", &made.witnessed().join("\n"));
    }
    let _ = writeln!(text, "\nSee it: parity demo {}", entry.name);
    text
}
