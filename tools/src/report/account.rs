//! What a deployment costs, for reading: a table of its places, and bars of what fills memory and what is read.

use std::fmt::Write;

use comfy_table::Cell;

use super::table::{number, with_header};
use crate::claims::account::{Account, Costs, Place, Row};
use crate::claims::unit::{BINARY, DECIMAL, ONE, OPERATIONS, PARAMETERS, Unit, fitting};

/// Characters of the longest bar.
const BAR: f64 = 50.0;

/// A model's account.
pub fn account(name: &str, account: &Account) -> String {
    let load = account.load;
    let mut text = format!(
        "{name}: a batch of {} with {} tokens each\n\n{}\n\n{}\n",
        ONE.show(load.batch as f64, 0),
        ONE.show(load.context as f64, 0),
        table(account, ["held", "parameters", "of a token", "weights", "cache", "memory"], held),
        table(account, ["done", "prefill", "a step", "read", "of weights", "of cache"], done)
    );
    for rows in alike(account).filter(|rows| !rows[0].kind.is_empty()) {
        let _ = writeln!(text, "{}: {}", title(rows), rows[0].kind);
    }
    let _ = writeln!(
        text,
        "of several layers, the numbers are those of each; prefill: of all prompts; a step: the next token of each\nsequence; \
         read: by a step, of experts those that are expected to be chosen; cache: in bf16\n█ weights, ░ cache"
    );
    text += &bars(account, "memory", &DECIMAL, [("█", |costs| costs.weights), ("░", |costs| costs.cache)]);
    text += &bars(
        account,
        "read by a step",
        &DECIMAL,
        [("█", |costs| costs.read - costs.read_of_cache), ("░", |costs| costs.read_of_cache)],
    );
    text += &bars(account, "operations of a step", &OPERATIONS, [("█", |costs| costs.step), ("", |_| 0.0)]);
    let total = account.total;
    let [weights, memory] = [total.weights, total.memory].map(|bytes| (ONE.show(bytes, 0), fitting(&BINARY, bytes)));
    let _ = writeln!(
        text,
        "\nweights: {} bytes, {}; with the cache {} bytes, {}",
        weights.0, weights.1, memory.0, memory.1
    );
    let intensity = total.step / total.read;
    let _ = writeln!(text, "a step: {} operations for each byte that it reads", ONE.show(intensity, 0));
    text
}

/// Places one behind the other that cost the same, as one.
fn alike(account: &Account) -> impl Iterator<Item = &[Row]> {
    account.places.chunk_by(|a, b| {
        let is_layer = |row: &Row| matches!(row.place, Place::Layer(_) | Place::Module(_));
        is_layer(a) && is_layer(b) && (&a.kind, a.costs) == (&b.kind, b.costs)
    })
}

/// What such places are called.
fn title(rows: &[Row]) -> String {
    match (rows, rows[0].place, rows[rows.len() - 1].place) {
        ([row], ..) => row.place.to_string(),
        (_, Place::Layer(first), Place::Layer(last)) => format!("layers {first} to {last}"),
        (_, Place::Module(first), Place::Module(last)) => format!("MTP modules {first} to {last}"),
        (rows, ..) => rows[0].place.to_string(),
    }
}

/// A table of places, in one group of columns.
fn table(account: &Account, header: [&str; 6], columns: fn(&Costs) -> [String; 5]) -> String {
    let mut table = with_header(&header);
    let mut row = |title: String, costs: &Costs| {
        table.add_row([Cell::new(title)].into_iter().chain(columns(costs).map(number)));
    };
    for rows in alike(account) {
        row(title(rows), &rows[0].costs);
    }
    row("total".to_owned(), &account.total);
    table.to_string()
}

/// What is held.
fn held(costs: &Costs) -> [String; 5] {
    let [all, active] = [costs.parameters, costs.active].map(|parameters| none_or(&PARAMETERS, parameters as f64));
    let [weights, cache, memory] = [costs.weights, costs.cache, costs.memory].map(|bytes| none_or(&DECIMAL, bytes));
    [all, active, weights, cache, memory]
}

/// What is done.
fn done(costs: &Costs) -> [String; 5] {
    let [prefill, step] = [costs.prefill, costs.step].map(|operations| none_or(&OPERATIONS, operations));
    let [read, weights] = [costs.read, costs.read - costs.read_of_cache].map(|bytes| none_or(&DECIMAL, bytes));
    [prefill, step, read, weights, none_or(&DECIMAL, costs.read_of_cache)]
}

/// Nothing for 0.
fn none_or(units: &[Unit], value: f64) -> String {
    if value == 0.0 { String::new() } else { fitting(units, value) }
}

/// A part of a bar: the character that it is made of, and what it shows.
type BarPart = (&'static str, fn(&Costs) -> f64);

/// A bar for places that are alike, as long as what all of them cost, in two parts.
fn bars(account: &Account, what: &str, units: &[Unit], parts: [BarPart; 2]) -> String {
    let all = |rows: &[Row]| parts.map(|(_, of)| rows.iter().map(|row| of(&row.costs)).sum::<f64>());
    let sum = |rows: &[Row]| all(rows).iter().sum::<f64>();
    let longest = alike(account).map(sum).fold(0.0, f64::max);
    let width = alike(account).map(|rows| title(rows).chars().count()).max().unwrap_or(0);
    let mut text = format!("\n{what}\n");
    for rows in alike(account).filter(|rows| sum(rows) > 0.0) {
        let bar: String =
            parts.iter().zip(all(rows)).map(|((with, _), value)| with.repeat(length(value / longest))).collect();
        let _ = writeln!(text, "{:width$}  {bar} {}", title(rows), fitting(units, sum(rows)));
    }
    text
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of 0 to 50 characters")]
fn length(share: f64) -> usize {
    (BAR * share).round() as usize
}
