//! Measures work on a device: counts on the emulated one, times on a GPU; and the reference's own time.

use std::collections::HashMap;

use optimized::device::Gpu;
use optimized::emulated::Counts;
use optimized::timing::Repeats;
use reference::config::Config;
use serde::Serialize;

use super::device::OnDevice;
use super::floor::{Floor, Rates};
use super::operators::{Chosen, Step, Work, kinds};
use super::pattern::Pattern;
use super::reference::OnReference;
use crate::failure::Failure;

/// Bytes of a sector.
const SECTOR: f64 = 32.0;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Of which model.
    pub config: Config,
    /// Tokens.
    pub step: Step,
    /// What.
    pub works: Vec<Work>,
    /// How often it is timed; without it, its accesses are counted, for which the device must be in its counting form.
    pub timing: Option<Repeats>,
    /// Floors are at these rates.
    pub rates: Rates,
    /// Whether the reference is timed, too.
    pub times_reference: bool,
}

/// Of several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// Microseconds of the middle one.
    pub median: f64,
    /// Of the one that a tenth are below.
    pub tenth: f64,
    /// Of the one that nine tenths are below.
    pub ninetieth: f64,
    /// Runs.
    pub runs: usize,
}

/// What accesses were counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Counted {
    /// Launches of kernels.
    pub launches: u64,
    /// Times that memory was set to zero by no kernel.
    pub fills: u64,
    /// Blocks of all launches.
    pub blocks: u64,
    /// Bytes read of global memory, each sector of 32 once a launch.
    pub read: f64,
    /// Bytes written, likewise, and set to zero.
    pub written: f64,
    /// Bytes of the sectors that warps asked for, each time: what goes through the second-level cache.
    pub asked: f64,
    /// Instructions of warps that accessed global memory.
    pub requests: u64,
    /// Sectors of 32 bytes that these asked for: transactions.
    pub sectors: u64,
    /// Times that shared memory was accessed, of up to 128 bytes.
    pub wavefronts: u64,
    /// Those of them that are bank conflicts.
    pub conflicts: u64,
    /// Operations of the tensor cores, of rows that only fill a tile, too.
    pub tensor_operations: f64,
}

/// What was found of one work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it cannot do without: of each of its operators.
    pub floor: Vec<Floor>,
    /// Microseconds of the floors, one after the other.
    pub floor_microseconds: f64,
    /// On the emulated device.
    pub counted: Option<Counted>,
    /// There, multiprocessors that have no block, of all, on average over the bytes that launches move.
    pub idle: Option<f64>,
    /// On a GPU.
    pub timed: Option<Times>,
    /// Of the floor: its bytes by those moved, or its time by the median.
    pub fraction: f64,
    /// The reference's, in f64; a sum of its operators', where it consists of several.
    pub reference: Option<f64>,
}

/// A model's step, from what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bench {
    /// The device.
    pub device: String,
    /// Whether time was measured, else accesses.
    pub is_timed: bool,
    /// What floors are computed with.
    pub rates: Rates,
    /// Tokens of a step, and of its sequence.
    pub tokens: usize,
    /// The latter.
    pub context: usize,
    /// Kinds of layers: how many there are of each, and how many experts its tokens chose.
    pub layers: Vec<(usize, usize)>,
    /// All that was measured.
    pub works: Vec<Measured>,
}

impl Times {
    /// Of runs, from the shortest.
    fn of(sorted: &[f64]) -> Option<Self> {
        let at = |tenths: usize| sorted.get((sorted.len().saturating_sub(1) * tenths + 5) / 10).copied();
        Some(Times { median: at(5)?, tenth: at(1)?, ninetieth: at(9)?, runs: sorted.len() })
    }
}

impl Counted {
    /// Of all of some.
    fn sum(all: &[Self]) -> Self {
        all.iter().fold(Counted::default(), |sum, one| Counted {
            launches: sum.launches + one.launches,
            fills: sum.fills + one.fills,
            blocks: sum.blocks + one.blocks,
            read: sum.read + one.read,
            written: sum.written + one.written,
            asked: sum.asked + one.asked,
            requests: sum.requests + one.requests,
            sectors: sum.sectors + one.sectors,
            wavefronts: sum.wavefronts + one.wavefronts,
            conflicts: sum.conflicts + one.conflicts,
            tensor_operations: sum.tensor_operations + one.tensor_operations,
        })
    }

    /// Of what was counted.
    pub fn of(counts: &Counts) -> Self {
        Counted {
            launches: counts.launches,
            fills: counts.fills,
            blocks: counts.blocks,
            read: SECTOR * counts.read.touched as f64,
            written: SECTOR * counts.written.touched as f64 + counts.filled_bytes as f64,
            asked: SECTOR * (counts.read.sectors + counts.written.sectors) as f64,
            requests: counts.read.requests + counts.written.requests,
            sectors: counts.read.sectors + counts.written.sectors,
            wavefronts: counts.shared_wavefronts,
            conflicts: counts.shared_conflicts,
            tensor_operations: 2.0 * counts.multiply_adds as f64,
        }
    }
}

/// Steps of the work, for who shows how far it is.
pub fn steps(asked: &Asked) -> usize {
    1 + kinds(&asked.config).len() + asked.works.len()
}

/// Measures all of it.
pub fn measured(gpu: Gpu, asked: &Asked, mut progress: impl FnMut()) -> Result<Bench, Failure> {
    let pattern = Pattern::drawn();
    let device = gpu.name().to_owned();
    let on_device = OnDevice::new(gpu, &asked.config, (asked.step, &asked.works), &pattern, &mut progress)?;
    let chosen = on_device.chosen()?;
    let reference = OnReference::new(&asked.config, asked.step, &pattern);
    let mut works: Vec<Measured> = Vec::new();
    let mut known = HashMap::new();
    for &work in &asked.works {
        let reference = asked.times_reference.then(|| of_reference(work, &asked.config, &reference, &mut known));
        works.push(Measured { reference: reference.transpose()?, ..one(work, asked, &on_device, &chosen)? });
        progress();
    }
    let layers = kinds(&asked.config).into_iter().zip(&chosen).map(|((_, count), chosen)| (count, chosen.experts));
    Ok(Bench {
        device,
        is_timed: asked.timing.is_some(),
        rates: asked.rates,
        tokens: asked.step.tokens,
        context: asked.step.context,
        layers: layers.collect(),
        works,
    })
}

/// The operators of a work.
fn pieces(work: Work, config: &Config) -> Vec<Work> {
    let pieces = work.pieces(config);
    if pieces.is_empty() { vec![work] } else { pieces }
}

/// Microseconds of the reference's operators, one after the other; each is run once for all that consist of it.
fn of_reference(
    work: Work,
    config: &Config,
    reference: &OnReference<'_>,
    known: &mut HashMap<Work, f64>,
) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for piece in pieces(work, config) {
        let time = match known.get(&piece) {
            Some(time) => *time,
            None => Times::of(&reference.time(piece)?).map_or(0.0, |times| times.median),
        };
        known.insert(piece, time);
        sum += time;
    }
    Ok(sum)
}

fn one(work: Work, asked: &Asked, on_device: &OnDevice, chosen: &[Chosen]) -> Result<Measured, Failure> {
    let config = &asked.config;
    let pieces = pieces(work, config);
    let floor: Vec<Floor> = pieces.iter().filter_map(|piece| piece.floor(config, asked.step, chosen)).collect();
    let floor_microseconds = floor.iter().map(|floor| floor.microseconds(&asked.rates)).sum();
    let gpu = on_device.gpu();
    let (counted, idle, timed, fraction) = match asked.timing {
        None => {
            let launches = gpu.launches(|| on_device.run(work))?;
            let each: Vec<Counted> = launches.iter().map(|launched| Counted::of(&launched.counts)).collect();
            let counted = Counted::sum(&each);
            let idle = idle_in(&each, gpu.limits()?.multiprocessors);
            let bytes: f64 = floor.iter().map(Floor::bytes).sum();
            (Some(counted), Some(idle), None, bytes / (counted.read + counted.written))
        }
        Some(repeats) => {
            let times = Times::of(&gpu.time(repeats, || on_device.run(work))?);
            let Some(Times { median, .. }) = times else {
                return Err(Failure::new("--replays 0: nothing is timed").help("expected at least 1"));
            };
            (None, None, times, floor_microseconds / median)
        }
    };
    Ok(Measured { name: work.name(config), floor, floor_microseconds, counted, idle, timed, fraction, reference: None })
}

/// Multiprocessors of so many that have no block, of all, on average over the bytes that launches move: what moves little is soon
/// over.
fn idle_in(launches: &[Counted], multiprocessors: u32) -> f64 {
    let all: f64 = launches.iter().map(|launch| launch.read + launch.written).sum();
    let without = |launch: &Counted| (1.0 - launch.blocks as f64 / f64::from(multiprocessors)).max(0.0);
    launches.iter().map(|launch| (launch.read + launch.written) * without(launch)).sum::<f64>() / all
}
