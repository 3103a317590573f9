//! Two dumps' difference for reading: a line a pair, the drift by layer, where it begins.

use std::fmt::Write;
use std::ops::Range;

use comfy_table::Cell;

use super::table::{columns, number, with_header};
use crate::compare::difference::{Difference, Pair};
use crate::compare::metrics::Metrics;
use crate::report::output::Output;

/// Names told that only one dump has.
const TOLD: usize = 5;
/// Characters of the bar at a relative difference of 1; one fewer a factor of 4 below.
const BAR: f64 = 30.0;

/// A line's columns; the last is a remark.
const HEADER: [&str; 12] =
    ["site", "max abs", "max rel", "max ulp", "rms", "SNR dB", "cosine", "bias", "NaN a/b", "Inf a/b", "worst at", ""];
/// Which of them are numbers.
const FIGURES: Range<usize> = 1..11;
/// What there is room for last, beginning with what is missed least.
const LEAST: [&str; 6] = ["bias", "cosine", "rms", "max ulp", "max rel", "worst at"];
/// Spaces beside a cell, and between it and the next.
const PADDING: usize = 3;

/// Prints a difference.
pub fn print_difference(difference: &Difference, output: Output) {
    output.say(&plain(difference));
}

/// The same as text, which has no colours.
pub fn plain(difference: &Difference) -> String {
    let mut text = format!("a {}\nb {}\n", difference.a, difference.b);
    let _ = writeln!(text, "{}", figures(&difference.pairs));
    text += &drift(&difference.pairs);
    for (which, names) in [("a", &difference.only_a), ("b", &difference.only_b)] {
        if !names.is_empty() {
            let more = names.len().saturating_sub(TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = writeln!(text, "only in {which}: {}{more}", names[..names.len().min(TOLD)].join(", "));
        }
    }
    text + &first(difference)
}

/// A line a pair. What no pair has is not shown, nor what there is no room for.
fn figures(pairs: &[Pair]) -> String {
    let rows: Vec<[String; 12]> = pairs.iter().map(row).collect();
    let width = |column: usize| {
        let texts = rows.iter().map(|row| row[column].chars().count());
        texts.chain([HEADER[column].len()]).max().unwrap_or_default() + PADDING
    };
    let mut shown: Vec<usize> =
        (0..HEADER.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let mut left_out = Vec::new();
    for least in LEAST {
        if shown.iter().map(|&column| width(column)).sum::<usize>() <= columns() {
            break;
        }
        if let Some(place) = shown.iter().position(|&column| HEADER[column] == least) {
            shown.remove(place);
            left_out.push(least);
        }
    }
    let mut table = with_header(&shown.iter().map(|&column| HEADER[column]).collect::<Vec<_>>());
    for row in &rows {
        let cell =
            |&column: &usize| if FIGURES.contains(&column) { number(&row[column]) } else { Cell::new(&row[column]) };
        table.add_row(shown.iter().map(cell));
    }
    let note = format!("\nno room for {}, which a wider terminal and --json show", left_out.join(", "));
    format!("{table}{}", if left_out.is_empty() { "" } else { &note })
}

/// A pair's line.
fn row(pair: &Pair) -> [String; 12] {
    let figures = pair.metrics.as_ref().map_or_else(Default::default, |metrics| of_metrics(pair, metrics));
    let [a, b] = &pair.shapes;
    let remark = match (&pair.metrics, pair.fault()) {
        (None, _) => format!("{a:?} in a, {b:?} in b"),
        (_, Some(fault)) => fault.to_owned(),
        (Some(metrics), _) if metrics.unequal == 0 => "equal".to_owned(),
        _ => String::new(),
    };
    let mut cells = [pair.name.clone()].into_iter().chain(figures).chain([remark]);
    std::array::from_fn(|_| cells.next().unwrap_or_default())
}

fn of_metrics(pair: &Pair, m: &Metrics) -> [String; 10] {
    let both = |[a, b]: [usize; 2]| if a + b == 0 { String::new() } else { format!("{a}/{b}") };
    [
        format!("{:.2e}", m.max_absolute),
        format!("{:.1e}", m.max_relative),
        m.max_ulp.to_string(),
        format!("{:.2e}", m.rms),
        m.snr.map_or_else(String::new, |snr| format!("{snr:.1}")),
        format!("{:.9}", m.cosine),
        format!("{:+.1e}", m.bias),
        both(m.nan),
        both(m.infinite),
        m.worst.map_or_else(String::new, |flat| format!("{:?}", pair.index(flat))),
    ]
}

/// A bar a layer, its length the logarithm of how far the layer's output is off.
fn drift(pairs: &[Pair]) -> String {
    let mut text = String::new();
    for pair in pairs {
        let (Some((step, layer)), Some(relative)) = (pair.layer(), pair.relative()) else { continue };
        if text.is_empty() {
            text += "\ndrift of the layers' outputs, relative; a character is a factor of 4\n";
        }
        let name = if step == 0 { layer.to_string() } else { format!("{step}:{layer}") };
        let _ = writeln!(text, "{name:>7}  {relative:8.1e}  {}", bar(relative));
    }
    text
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of 0 to 40 characters")]
fn bar(relative: f64) -> String {
    let length = if relative > 0.0 { (BAR + relative.log(4.0)).clamp(1.0, BAR + 10.0) } else { 0.0 };
    "█".repeat(length as usize)
}

fn first(difference: &Difference) -> String {
    let count = difference.pairs.len();
    let Some(pair) = difference.first() else {
        return format!("\nall {count} are equal, value by value");
    };
    let equal = difference.pairs.iter().filter(|pair| pair.metrics.is_some_and(|m| m.unequal == 0)).count();
    let place = pair.metrics.and_then(|m| Some((m.unequal, m.count, pair.index(m.first_unequal?))));
    let place = place.map_or_else(
        || "shapes differ".to_owned(),
        |(unequal, count, index)| format!("{unequal} of {count} values differ, the first at {index:?}"),
    );
    format!("\n{equal} of {count} are equal; the first that is not: {}, {place}", pair.name)
}
