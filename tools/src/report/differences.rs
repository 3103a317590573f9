//! Two dumps' difference for reading: a line a pair, the drift by layer, where it begins.

use std::fmt::Write;

use comfy_table::Cell;

use super::table::{number, with_header};
use crate::compare::difference::{Difference, Pair};
use crate::compare::metrics::Metrics;
use crate::report::output::Output;

/// Names told that only one dump has.
const TOLD: usize = 5;
/// Characters of the bar at a relative difference of 1; one fewer a factor of 4 below.
const BAR: f64 = 30.0;

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

fn figures(pairs: &[Pair]) -> String {
    let header = [
        "site", "max abs", "max rel", "max ulp", "rms", "SNR dB", "cosine", "bias", "NaN a/b", "Inf a/b", "worst at",
        "",
    ];
    let mut table = with_header(&header);
    for pair in pairs {
        let mut cells = vec![Cell::new(&pair.name)];
        match &pair.metrics {
            Some(metrics) => cells.extend(of_metrics(pair, metrics).map(number)),
            None => cells.extend((0..10).map(|_| Cell::new(""))),
        }
        let [a, b] = &pair.shapes;
        let remark = match (&pair.metrics, pair.fault()) {
            (None, _) => format!("{a:?} in a, {b:?} in b"),
            (_, Some(fault)) => fault.to_owned(),
            (Some(metrics), _) if metrics.unequal == 0 => "equal".to_owned(),
            _ => String::new(),
        };
        table.add_row(cells.into_iter().chain([Cell::new(remark)]));
    }
    table.to_string()
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
