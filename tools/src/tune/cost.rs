//! What launches cost on the emulated device: a model, not a measurement.
//!
//! ```text
//! t = Σ (t₀ + waves · max(memory, cache, shared, tensor)) + t₀·fills
//! memory = bytes / min(B, in flight / latency)        cache = asked / (C·s)        shared = wavefronts / (s·M·f)
//! tensor = operations / (s·P)        s = min(blocks, M) / M        waves = r·⌈blocks/r⌉ / blocks, 1 where blocks ≤ r
//! ```
//!
//! - M multiprocessors of a clock f, B bytes a second of memory, C of the second-level cache, P operations of the tensor
//!   cores: an H200's. t₀ is a launch's own time.
//! - r: blocks that are resident at once, by threads, registers and shared memory; bank conflicts are wavefronts.
//! - In flight: what resident blocks have asked for and wait for, by Little's law: 16 bytes a thread, or all stages of a ring
//!   but the one that is computed from.

use optimized::kernel::Kernel;
use optimized::tuning::Launched;
use serde::{Deserialize, Serialize};

use crate::bench::floor::Rates;
use crate::bench::measuring::Counted;

/// Multiprocessors.
const MULTIPROCESSORS: f64 = 132.0;
/// Their clock, in Hz.
const CLOCK: f64 = 1.83e9;
/// Bytes a second of the second-level cache.
const CACHE: f64 = 5.5e12;
/// From a request to the memory until its answer, in seconds.
const LATENCY: f64 = 0.7e-6;
/// Of a launch, in seconds.
const LAUNCH: f64 = 2e-6;
/// Of a multiprocessor: threads, blocks, registers, bytes of shared memory, of which a block takes some for itself.
const THREADS: f64 = 2048.0;
const BLOCKS: f64 = 32.0;
const REGISTERS: f64 = 65536.0;
const SHARED: f64 = 233_472.0;
const SHARED_OF_BLOCK: f64 = 1024.0;
/// Bytes of a thread's request.
const REQUEST: f64 = 16.0;

/// What takes the most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Limit {
    /// Launches themselves.
    Launches,
    /// Bytes of memory, or too few of them in flight.
    Memory,
    /// Sectors asked of the second-level cache.
    Cache,
    /// Shared memory, its bank conflicts among it.
    Shared,
    /// The tensor cores, and what only fills a tile.
    Tensor,
    /// It is not known: time was measured.
    Time,
}

/// What a candidate costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// By the model, or measured.
    pub microseconds: f64,
    /// What takes the most of it.
    pub limit: Limit,
}

/// A launch, as the model sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launch {
    /// Its blocks.
    pub blocks: f64,
    /// Threads of each.
    pub threads: f64,
    /// Registers of each thread.
    pub registers: f64,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: f64,
    /// Of a ring, the share of its stages that is in flight; 0 without one.
    pub ahead: f64,
    /// What it accessed.
    pub counted: Counted,
}

impl Launch {
    /// Of what was counted.
    pub fn of(launched: &Launched, registers: u32) -> Self {
        let Launched { kernel, entry, counts } = launched;
        let blocks = counts.blocks.max(1) as f64;
        Launch {
            blocks,
            threads: counts.threads as f64 / blocks,
            registers: f64::from(registers),
            shared_bytes: counts.shared_bytes as f64 / blocks,
            ahead: ahead(kernel, entry),
            counted: Counted::of(counts),
        }
    }

    /// Blocks that one multiprocessor has at once; 0 if it can have none.
    fn resident(&self) -> f64 {
        let by_registers = REGISTERS / (self.registers * self.threads).max(1.0);
        let by_shared = SHARED / (self.shared_bytes + SHARED_OF_BLOCK);
        (THREADS / self.threads.max(1.0)).min(by_registers).min(by_shared).min(BLOCKS).floor()
    }

    /// Seconds of each of memory, cache, shared memory and tensor cores; `None` if no block fits.
    fn terms(&self) -> Option<[(Limit, f64); 4]> {
        let Counted { read, written, asked, wavefronts, tensor_operations, .. } = self.counted;
        let slots = MULTIPROCESSORS * self.resident();
        if slots == 0.0 {
            return None;
        }
        let waves = (self.blocks / slots).ceil();
        let last = if waves > 1.0 { waves * slots / self.blocks } else { 1.0 };
        let busy = self.blocks.min(MULTIPROCESSORS) / MULTIPROCESSORS;
        let of_block = (REQUEST * self.threads).max(self.ahead * self.shared_bytes);
        let in_flight = of_block * self.blocks.min(slots);
        let bandwidth = Rates::H200.bandwidth.min(in_flight / LATENCY);
        let terms = [
            (Limit::Memory, (read + written) / bandwidth),
            (Limit::Cache, asked / (CACHE * busy)),
            (Limit::Shared, wavefronts as f64 / (MULTIPROCESSORS * busy * CLOCK)),
            (Limit::Tensor, tensor_operations / (Rates::H200.tensor * busy)),
        ];
        Some(terms.map(|(limit, seconds)| (limit, last * seconds)))
    }
}

/// The stages of a ring but one, of all.
fn ahead(kernel: &Kernel, entry: &str) -> f64 {
    let name = if entry.ends_with("few_rows") { "FEW_STAGES" } else { "STAGES" };
    kernel.get(name).map_or(0.0, |stages| f64::from(stages - 1) / f64::from(stages))
}

/// Of an operator's launches; `None` if a block of one does not fit on a multiprocessor.
pub fn cost(launches: &[Launch]) -> Option<Cost> {
    let mut all =
        [Limit::Launches, Limit::Memory, Limit::Cache, Limit::Shared, Limit::Tensor].map(|limit| (limit, 0.0));
    for launch in launches {
        let terms = launch.terms()?;
        let (limit, seconds) = terms.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("four terms");
        for (known, sum) in &mut all {
            *sum += match *known {
                Limit::Launches => LAUNCH * (1 + launch.counted.fills) as f64,
                known if known == limit => seconds,
                _ => 0.0,
            };
        }
    }
    let seconds: f64 = all.iter().map(|(_, seconds)| seconds).sum();
    let (limit, _) = all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("five terms");
    Some(Cost { microseconds: 1e6 * seconds, limit })
}
