//! What was measured on a device, as tables.

use std::fmt::Write;

use comfy_table::Cell;

use super::table::{number, with_header};
use crate::bench::floor::Floor;
use crate::bench::instructions::{Compared, Instructions};
use crate::bench::measuring::{Bench, Counted, Measured, Times};
use crate::claims::unit::{DECIMAL, OPERATIONS, fitting};

/// The tables, and what their columns mean.
pub fn bench(model: &str, bench: &Bench, instructions: Option<&Instructions>) -> String {
    let Bench { device, is_timed, rates, tokens, context, .. } = bench;
    let mut text = format!("{model}: {tokens} new of {context} tokens, on {device}\n");
    for (count, experts) in &bench.layers {
        if *experts > 0 {
            let _ = writeln!(text, "{count} layers whose tokens choose {experts} different experts");
        }
    }
    if let Some(instructions) = instructions {
        text += &told(instructions);
    }
    let table = if *is_timed { times(bench) } else { counts(bench) };
    let [bandwidth, tensor, scalar] = [rates.bandwidth, rates.tensor, rates.scalar].map(|rate| rate / 1e12);
    let floor = format!("{bandwidth:.2} TB/s, {tensor:.0} TFLOP/s of tensor cores, {scalar:.0} in f32");
    let _ = writeln!(text, "\n{table}\n");
    if *is_timed {
        let _ = writeln!(
            text,
            "time: median of replays of a graph, caches cold; spread: from a tenth to nine tenths of them.\n\
             floor: what {floor} take for the bytes that must move, or for the operations.\n\
             of it: the floor's share of the time."
        );
    } else {
        let _ = writeln!(
            text,
            "read, written: bytes of global memory, each sector of 32 once a launch. floor: the bytes that must move; of it:\n\
             their share of those that do. asked: bytes of all sectors that warps asked for, each time, through the second-level\n\
             cache. idle: multiprocessors that have no block, on average over the bytes that launches move: what takes time and\n\
             is in no count. conflicts: shared memory's, of its accesses. tensor: operations of the tensor cores, of rows that\n\
             only fill a tile, too. at best: the floor's time at {floor}.\n\
             Counted, not timed: on a GPU the same command measures time."
        );
    }
    if bench.works.iter().any(|work| work.reference.is_some()) {
        text += "reference: its own time for the same, in f64, on this processor; of several operators, the sum.\n";
    }
    text += &of_model(bench);
    text
}

fn told(instructions: &Instructions) -> String {
    let Instructions { with, compared, lacking, .. } = instructions;
    let words: usize = compared.iter().map(|compared| compared.words).sum();
    let mut text = format!("instructions: {} in {words} words next to {with}: ", compared.len());
    let different: Vec<&Compared> = compared.iter().filter(|compared| compared.different > 0).collect();
    text += if different.is_empty() { "bit for bit the same\n" } else { "they DIFFER\n" };
    if !lacking.is_empty() {
        let _ = writeln!(text, "  not compared, as this device lacks them: {}", lacking.join("; "));
    }
    for Compared { name, words, different, first } in different {
        let _ = write!(text, "  {name}: {different} of {words} words");
        if let Some((place, own, other)) = first {
            let _ = write!(text, "; word {place} is {own:08x}, there {other:08x}");
        }
        text += "\n";
    }
    text
}

fn counts(bench: &Bench) -> String {
    let mut moved = with_header(&["", "launches", "read", "written", "floor", "of it"]);
    let mut asked = with_header(&["", "asked", "idle", "conflicts", "tensor", "at best", "reference"]);
    for work in &bench.works {
        let Some(counted) = &work.counted else { continue };
        let figures = [
            counted.launches.to_string(),
            fitting(&DECIMAL, counted.read),
            fitting(&DECIMAL, counted.written),
            fitting(&DECIMAL, totals(work)[0]),
            share(work.fraction),
        ];
        moved.add_row([Cell::new(&work.name)].into_iter().chain(figures.map(number)));
        let figures = [
            fitting(&DECIMAL, counted.asked),
            work.idle.map_or_else(String::new, share),
            conflicts(counted),
            fitting(&OPERATIONS, counted.tensor_operations),
            microseconds(work.floor_microseconds),
            work.reference.map_or_else(String::new, microseconds),
        ];
        asked.add_row([Cell::new(&work.name)].into_iter().chain(figures.map(number)));
    }
    format!("{moved}\n\n{asked}")
}

fn conflicts(counted: &Counted) -> String {
    if counted.wavefronts == 0 { String::new() } else { share(counted.conflicts as f64 / counted.wavefronts as f64) }
}

fn times(bench: &Bench) -> String {
    let header = ["", "time", "spread", "rate", "", "floor", "of it", "reference"];
    let mut table = with_header(&header);
    for work in &bench.works {
        let Some(Times { median, tenth, ninetieth, .. }) = work.timed else { continue };
        let [bytes, operations] = totals(work).map(|total| total / median * 1e6);
        let figures = [
            microseconds(median),
            format!("{} to {}", microseconds(tenth), microseconds(ninetieth)),
            format!("{}/s", fitting(&DECIMAL, bytes)),
            format!("{}/s", fitting(&OPERATIONS, operations)),
            microseconds(work.floor_microseconds),
            share(work.fraction),
            work.reference.map_or_else(String::new, microseconds),
        ];
        table.add_row([Cell::new(&work.name)].into_iter().chain(figures.map(number)));
    }
    table.to_string()
}

/// Bytes and operations that work cannot do without.
fn totals(work: &Measured) -> [f64; 2] {
    let sum = |of: fn(&Floor) -> f64| work.floor.iter().map(of).sum();
    [sum(Floor::bytes), sum(|floor| floor.operations)]
}

/// What a step of the whole model takes, from a step with one layer of each kind and the layers.
fn of_model(bench: &Bench) -> String {
    let of = |name: &str| bench.works.iter().find(|work| work.name == name);
    let layers: Vec<&Measured> =
        bench.works.iter().filter(|work| work.name.rsplit('.').next() == Some("layer")).collect();
    let Some(step) = of("step").filter(|_| layers.len() == bench.layers.len()) else { return String::new() };
    let more = |figure: &dyn Fn(&Measured) -> f64| {
        let others = layers.iter().zip(&bench.layers).map(|(layer, (count, _))| (count - 1) as f64 * figure(layer));
        figure(step) + others.sum::<f64>()
    };
    let count: usize = bench.layers.iter().map(|(count, _)| count).sum();
    let floor = more(&|work| work.floor_microseconds);
    let all = format!("a step of all {count} layers, from this one and the layers");
    if bench.is_timed {
        let time = more(&|work| work.timed.map_or(0.0, |times| times.median));
        return format!("{all}: {}; floor {}, {}\n", microseconds(time), microseconds(floor), share(floor / time));
    }
    let launches = more(&|work| work.counted.map_or(0.0, |counted| counted.launches as f64));
    let bytes = more(&|work| work.counted.map_or(0.0, |counted| counted.read + counted.written));
    let least = more(&|work| totals(work)[0]);
    format!(
        "{all}: {launches} launches, {}; floor {}, {}, at best {}\n",
        fitting(&DECIMAL, bytes),
        fitting(&DECIMAL, least),
        share(least / bytes),
        microseconds(floor)
    )
}

fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Microseconds in a unit that fits.
pub(super) fn microseconds(time: f64) -> String {
    match time {
        1e6.. => format!("{:.2} s", time / 1e6),
        1e3.. => format!("{:.2} ms", time / 1e3),
        _ => format!("{time:.2} µs"),
    }
}
