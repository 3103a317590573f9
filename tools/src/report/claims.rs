//! The ledger, and a model's numbers, for reading.

use std::fmt::Write;

use comfy_table::Cell;
use owo_colors::OwoColorize;

use super::figures::counted;
use super::table::{columns, number, with_header};
use crate::claims::claim::{Claim, Figure};
use crate::claims::sizing::{Operations, Sizing};
use crate::claims::unit::{BINARY, DECIMAL, ONE, OPERATIONS, PARAMETERS, fitting};
use crate::claims::verdict::Verdict;

/// Where a claim's text begins, below its label.
const INDENT: usize = 8;
/// Columns of a line of text, at most: longer ones are hard to read.
const LINE: usize = 120;
/// A per cent sign that stays with its number.
const KEPT: &str = "\u{a0}%";

/// Claims by document: a line a figure, then what is claimed, and what is to be known of it.
pub fn ledger(claims: &[Claim]) -> String {
    let mut text = String::new();
    for of_document in claims.chunk_by(|a, b| a.document == b.document) {
        let widths = Widths::of(of_document);
        let title = format!("{}: {}", of_document[0].document, of_document[0].document.title());
        let _ = writeln!(text, "\n{}\n{}", title.bold(), widths.header().dimmed());
        for claim in of_document {
            text += &widths.rows(claim);
            let _ = writeln!(text, "{}", wrapped(claim.claim));
            if !claim.note.is_empty() {
                let _ = writeln!(text, "{}", wrapped(&format!("– {}", claim.note)).dimmed());
            }
        }
    }
    let _ = writeln!(text, "\n{}", tally(claims));
    text
}

/// How many of each verdict, and what those say.
fn tally(claims: &[Claim]) -> String {
    use Verdict::{Close, External, Fails, Holds, Unstated};
    let count = |verdict: &Verdict| claims.iter().filter(|claim| claim.verdict == *verdict).count();
    let all = [Holds, Close, Fails, External, Unstated];
    let counts: Vec<String> = all.iter().map(|verdict| format!("{verdict} {}", count(verdict))).collect();
    format!(
        "{}: {}\nholds: reads as stated when it is rounded to as many digits; close: within 1 % of it;\nexternal: follows \
         from no hyperparameter; unstated: the documents lack it\noff: (stated − recomputed) / recomputed, from twice on \
         stated / recomputed",
        counted(claims.len(), "claim"),
        counts.join(", ")
    )
}

/// Columns of the ledger's table.
struct Widths {
    place: usize,
    stated: usize,
    recomputed: usize,
}

impl Widths {
    fn of(claims: &[Claim]) -> Self {
        let widest = |of: fn(&Figure) -> &str, least: usize| {
            let figures = claims.iter().flat_map(|claim| &claim.figures);
            figures.map(|figure| of(figure).chars().count()).fold(least, usize::max)
        };
        Widths {
            place: claims.iter().map(|claim| claim.place.chars().count()).fold(5, usize::max),
            stated: widest(|figure| &figure.stated, 6),
            recomputed: widest(|figure| &figure.recomputed, 10),
        }
    }

    fn line(&self, [id, place, stated, recomputed, off]: [&str; 5]) -> String {
        format!(
            "{id:6}  {place:place_width$}  {stated:>stated_width$}  {recomputed:>recomputed_width$}  {off:>8}  ",
            place_width = self.place,
            stated_width = self.stated,
            recomputed_width = self.recomputed
        )
    }

    fn header(&self) -> String {
        self.line(["", "where", "stated", "recomputed", "off"]) + "verdict"
    }

    /// A line for each figure, of which the first has the claim's label; the claim's own verdict below figures that differ.
    fn rows(&self, claim: &Claim) -> String {
        let mut text = String::new();
        let mut label = [claim.id, claim.place];
        for figure in &claim.figures {
            let [id, place] = label;
            let line = self.line([id, place, &figure.stated, &figure.recomputed, &off(figure)]);
            let verdict = if claim.figures.len() == 1 { claim.verdict } else { figure.verdict };
            let _ = writeln!(text, "{line}{}", coloured(verdict));
            label = [""; 2];
        }
        let is_said = claim.figures.len() == 1 || claim.figures.iter().all(|figure| figure.verdict == claim.verdict);
        if !is_said || claim.figures.is_empty() {
            let [id, place] = label;
            let _ = writeln!(text, "{}{}", self.line([id, place, "", "", ""]), coloured(claim.verdict).bold());
        }
        text
    }
}

/// The relative difference in per cent, with a sign, or how many times as much; nothing where there is none to tell.
fn off(figure: &Figure) -> String {
    match figure.relative_difference {
        Some(0.0) => "0".to_owned(),
        Some(difference) if difference >= 1.0 => format!("{:.1}×", 1.0 + difference),
        Some(difference) => format!("{:+.2} %", 100.0 * difference),
        None => String::new(),
    }
}

fn coloured(verdict: Verdict) -> String {
    match verdict {
        Verdict::Holds => verdict.green().to_string(),
        Verdict::Close => verdict.yellow().to_string(),
        Verdict::Fails => verdict.red().to_string(),
        Verdict::External | Verdict::Unstated => verdict.cyan().to_string(),
    }
}

/// Text in lines that fit, indented.
fn wrapped(text: &str) -> String {
    let room = columns().min(LINE) - INDENT;
    let mut lines = vec![String::new()];
    for word in text.replace(" %", KEPT).split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.iter().map(|line| format!("{:INDENT$}{line}", "")).collect::<Vec<_>>().join("\n").replace(KEPT, " %")
}

/// A model's numbers.
pub fn sizing(name: &str, sizing: &Sizing) -> String {
    format!("{name}\n\n{}\n{}\n{}", parameters(sizing), memory(sizing), operations(sizing))
}

/// A share of all.
fn share(part: f64, all: f64) -> Cell {
    number(format!("{:.2} %", 100.0 * part / all))
}

fn parameters(sizing: &Sizing) -> String {
    let mut table = with_header(&["parameters", "all", "share", "of a token", "share"]);
    let [total, active] = [sizing.total_parameters, sizing.active_parameters].map(|parameters| parameters as f64);
    let mut row = |name: String, of_all: usize, of_token: usize| {
        let [of_all, of_token] = [of_all, of_token].map(|parameters| parameters as f64);
        let [all, token] = [of_all, of_token].map(|parameters| number(fitting(&PARAMETERS, parameters)));
        table.add_row([Cell::new(name), all, share(of_all, total), token, share(of_token, active)]);
    };
    for size in &sizing.parameters {
        row(size.part.to_string(), size.total, size.active);
    }
    row("total".to_owned(), sizing.total_parameters, sizing.active_parameters);
    format!(
        "{table}\nof a token: those that one text token is computed with, of the embedding its row; {} without\nembedding and \
         LM head\n",
        fitting(&PARAMETERS, sizing.active_in_layers as f64)
    )
}

fn memory(sizing: &Sizing) -> String {
    let mut table = with_header(&["memory", "bytes", "decimal", "binary"]);
    let mut row = |name: String, bytes: f64| {
        let cells = [ONE.show(bytes, 0), fitting(&DECIMAL, bytes), fitting(&BINARY, bytes)].map(number);
        table.add_row([Cell::new(name)].into_iter().chain(cells));
    };
    let cache = &sizing.cache;
    row("weights as stored".to_owned(), sizing.weights.stored);
    row("weights in bf16".to_owned(), sizing.weights.bf16);
    row("KV cache a token, bf16".to_owned(), cache.of_token);
    if cache.index_of_token > 0.0 {
        row("index K cache a token, bf16".to_owned(), cache.index_of_token);
    }
    row(format!("cache of {} tokens, bf16", cache.context), cache.bf16);
    row("the same in FP8".to_owned(), cache.fp8);
    format!("{table}\n")
}

fn operations(sizing: &Sizing) -> String {
    let mut table = with_header(&["operations of a token", "prefill", "share", "decode", "share"]);
    let total = sizing.total_operations;
    let mut row = |name: String, Operations { prefill, decode }: Operations| {
        let [prefilled, decoded] = [prefill, decode].map(|operations| number(fitting(&OPERATIONS, operations)));
        table.add_row([
            Cell::new(name),
            prefilled,
            share(prefill, total.prefill),
            decoded,
            share(decode, total.decode),
        ]);
    };
    for size in &sizing.operations {
        row(size.work.to_string(), size.operations);
    }
    row("total".to_owned(), total);
    format!(
        "{table}\ntwo for each multiply-add; prefill: of a prompt of {context} tokens, for each on average;\ndecode: the last \
         of {context}\n",
        context = sizing.cache.context
    )
}
