//! The rounds of the loop that tunes an operator, as a table, and what it came to.

use std::fmt::Write;

use comfy_table::Cell;

use super::bench::microseconds;
use super::table::{number, with_header};
use crate::tune::history::{History, Round, State};
use crate::tune::space::Space;

/// The table, what was optimized, and what to write where.
pub fn tune(model: &str, history: &History, (state, space): (&State, &Space), asked: usize) -> String {
    let of = |name: &str| history.of.get(name).map_or("", String::as_str);
    let mut text = format!(
        "{} of {model}: {} new of {} tokens, on {}\noptimized: {}\n",
        of("operator"),
        of("tokens"),
        of("context"),
        of("device"),
        of("measure")
    );
    let mut table = with_header(&["round", "bottleneck", "change", "time", "speed", "verdict"]);
    let baseline = history.baseline;
    let own = ["", "as it is"].map(Cell::new).into_iter();
    table.add_row([number(0)].into_iter().chain(own).chain([
        number(microseconds(baseline.microseconds)),
        number("1.000"),
        Cell::new("baseline"),
    ]));
    for Round { round, limit, change, verdict, cost, score, .. } in &history.rounds {
        let time = cost.map_or_else(String::new, |cost| microseconds(cost.microseconds));
        let score = score.map_or_else(String::new, |score| format!("{score:.3}"));
        table.add_row([
            number(round),
            Cell::new(limit),
            Cell::new(change),
            number(time),
            number(score),
            Cell::new(verdict),
        ]);
    }
    let _ = writeln!(text, "\n{table}\n");
    for Round { round, verdict, why, .. } in &history.rounds {
        if let Some(why) = why {
            let _ = writeln!(text, "round {round}, {verdict}: {why}");
        }
    }
    let count = history.rounds.len();
    if count < asked {
        let _ = writeln!(text, "after {count} rounds, nothing is left to try");
    }
    text + &told(history, state, space)
}

fn told(history: &History, state: &State, space: &Space) -> String {
    let best = state.evolution.state();
    let defaults = space.defaults();
    let changed = space.parameters.iter().zip(best.iter().zip(&defaults)).filter(|(_, (best, own))| best != own);
    let changed: Vec<String> =
        changed.map(|(parameter, (best, own))| format!("{} {own} → {best}", parameter.name())).collect();
    if changed.is_empty() {
        return "nothing is better by more than the threshold: the kernels' parameters stay as they are\n".to_owned();
    }
    let [before, after] = [history.baseline, state.cost].map(|cost| microseconds(cost.microseconds));
    let improvement = 100.0 * state.evolution.improvement().unwrap_or(0.0);
    format!(
        "best: {}; {before} → {after}, {improvement:.1} % faster\n\
         to keep it, write these constants into optimized/src/kernel/table.rs\n",
        changed.join(", ")
    )
}
