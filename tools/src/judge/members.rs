//! The runs that measure a lens's noise floor on their way through a phase: side by side where weights are large, which are then read once
//! for all of them.

use std::thread;

use reference::Site;
use reference::abreast::{Abreast, Seat};
use reference::config::Config;
use reference::site::Extent;

use super::floor::MEMBERS;
use super::state::{Phase, State};
use crate::failure::Failure;

/// Values that runs side by side have of a phase at most, all together.
pub(crate) const AT_ONCE: usize = 1 << 25;

/// Channels from which on weights are so large that reading them takes longer than threads need to meet.
const LARGE: usize = 1024;

/// How many runs go through a phase side by side. One that is on a worker of a pool goes alone: those beside it would wait for it, and
/// their products for the worker.
pub(super) fn at_once(config: &Config, phase: Phase, extent: Extent) -> usize {
    if config.hidden_size < LARGE || rayon::current_thread_index().is_some() {
        return 1;
    }
    let is_of = |site: &Site| match (phase, site) {
        (Phase::Layer(layer), Site::Layer(of, _)) => layer == *of,
        (Phase::Head, site) => matches!(site, Site::FinalNorm | Site::LmHead | Site::Logits),
        _ => false,
    };
    let values = Site::all(config).filter(|site| is_of(site) && !site.on_request()).map(|site| {
        let (rows, columns) = site.matrix(config, extent);
        rows * columns
    });
    match values.sum() {
        0 => 1,
        values => (AT_ONCE / values).clamp(1, MEMBERS),
    }
}

/// What is made of each run, of which the first has the seed `first`.
pub(super) fn side_by_side<T: Send>(
    members: &mut [State],
    first: u64,
    run: impl Fn(&mut State, u64, Option<&Seat<'_, f64>>) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    if let [member] = members {
        return Ok(vec![run(member, first, None)?]);
    }
    let abreast = Abreast::of(members.len());
    thread::scope(|scope| {
        let seats = members.iter_mut().enumerate().map(|(index, member)| (abreast.seat(index), member)).zip(first..);
        let run = &run;
        let threads: Vec<_> =
            seats.map(|((seat, member), seed)| scope.spawn(move || run(member, seed, Some(&seat)))).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    })
}
