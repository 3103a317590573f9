//! How much anonymous memory a verification needs, by an estimate from shapes: what is mapped from files does not count.
//!
//! Held are, at any time, what one phase of a pass makes (a layer, the head, a layer of the tower), and what runs carry from phase
//! to phase: the residual stream, and keys and values of each layer until the pass is through. With A, the values of all sites of
//! a phase, and S, those of the sites that the candidate shows, in f64:
//!
//! ```text
//! phase   local: 3·A, values with both errors · 4·S, what was seen and the candidate's · 12·S in f32, of the twin's runs
//!         others: 2·A; and for the noise floor of the largest site that is judged, 12 runs in f32
//! runs    local 3 + 12 + 12, others 1 + 12 each: stream and keys and values of layers, a run's with errors counts three times
//! shared  products of the candidate's values with weights, 4·A, at most 512 MiB; panels of widened weights
//! ```
//!
//! A quarter is added for what is not counted.

use std::collections::BTreeMap;
use std::ops::Range;

use fixtures::checkpoint::Checkpoint;
use fixtures::names::at::At;
use reference::Site;
use reference::config::Config;
use reference::site::Extent;

use super::units::{Kind, Unit};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::floor::MEMBERS;
use crate::judge::found::phase;
use crate::judge::lens::Lens;
use crate::judge::members::AT_ONCE;

/// The program itself, its threads and what it reads of files.
const BASE: u64 = 64 << 20;

/// Products that are kept at most.
const PRODUCTS: u64 = 512 << 20;

/// A panel of a weight, widened, for each thread.
const PANEL: u64 = 32 << 20;

/// Bytes of a value.
const VALUE: u64 = 8;

/// Runs of a value with its two errors.
const WITH_ERRORS: u64 = 3;

/// Values that are the largest of any phase.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    /// At all sites.
    all: u64,
    /// At those that the candidate shows.
    shown: u64,
    /// At the largest of these that lenses beside the local one judge.
    judged: u64,
}

/// What a unit needs.
pub(super) fn of_unit(unit: &Unit, lenses: &[Lens], comparison: &Comparison<'_>) -> Result<u64, Failure> {
    let is_of = |lens: &Lens| (*lens == Lens::Global) == (unit.kind == Kind::Global);
    Ok(match unit.kind {
        Kind::Layers => of_lenses(comparison, &lenses.iter().copied().filter(is_of).collect::<Vec<_>>(), &unit.layers)?,
        // The others go beside it, and keep nothing but their own state.
        Kind::Global => of_lenses(comparison, &[Lens::Global], &unit.layers)? + state(comparison, &unit.layers) * 4,
        Kind::Decode => of_decode(comparison),
        Kind::Coverage => {
            let local = of_lenses(comparison, &[Lens::Local], &unit.layers)?;
            let kept: u64 = phases(comparison, &unit.layers)?.values().map(|values| WITH_ERRORS * values.shown).sum();
            2 * local + kept
        }
    })
}

/// What all items need together, in one run over the layers.
pub(super) fn of_lenses(comparison: &Comparison<'_>, lenses: &[Lens], layers: &Range<usize>) -> Result<u64, Failure> {
    Ok(together(&phases(comparison, layers)?, lenses, state(comparison, layers)))
}

/// What putting the CUDA path's values next to the reference needs, of all tokens in one pass: those values in f32, and what all
/// lenses need where every site is shown.
pub(super) fn of_check(config: &Config, extent: Extent) -> u64 {
    let all = 0..config.num_hidden_layers;
    let sites = || Site::all(config).filter(|site| !site.on_request());
    let values = |site: Site| {
        let (rows, columns) = site.matrix(config, extent);
        (rows * columns) as u64
    };
    let computed: u64 = sites().map(|site| size_of::<f32>() as u64 * values(site)).sum();
    let phases = by_phase(sites().map(|site| (site, VALUE * values(site), true)));
    computed + together(&phases, &Lens::ALL, carried(config, extent.positions, &all))
}

/// What lenses need whose runs carry so much from phase to phase.
fn together(phases: &BTreeMap<(usize, usize, usize), Values>, lenses: &[Lens], state: u64) -> u64 {
    let members = MEMBERS as u64;
    let largest = phases.values().fold(Values::default(), |most, values| Values {
        all: most.all.max(values.all),
        shown: most.shown.max(values.shown),
        judged: most.judged.max(values.judged),
    });
    let runs: u64 =
        lenses.iter().map(|lens| if *lens == Lens::Local { WITH_ERRORS + 2 * members } else { 1 + members }).sum();
    let products = (4 * largest.all).min(PRODUCTS);
    // Of runs in other orders and of noise runs, values are kept in f32.
    let of_runs = members * (largest.shown + largest.judged) / 2;
    let of_local = WITH_ERRORS * largest.all + 4 * largest.shown + of_runs + products;
    let at_once = 2 * (members * largest.all).min(VALUE * AT_ONCE as u64);
    let of_others = 2 * largest.all + (members / 2 + 4) * largest.judged + at_once;
    let of_phase = if lenses.contains(&Lens::Local) { of_local.max(of_others) } else { of_others };
    with_rest(of_phase + runs * state)
}

/// What judging the decoded tokens needs: logits of noise runs at each of them, and one run at a time.
fn of_decode(comparison: &Comparison<'_>) -> u64 {
    let config = comparison.compared.config;
    let all = 0..config.num_hidden_layers;
    let read = comparison.compared.steps.iter().map(Vec::len).sum::<usize>();
    let logits = read.saturating_sub(comparison.compared.prompt) + 1;
    let logits = VALUE * (logits * config.vocab_size) as u64;
    with_rest((MEMBERS as u64 + 2 * WITH_ERRORS) * logits + WITH_ERRORS * state(comparison, &all))
}

fn with_rest(counted: u64) -> u64 {
    let panels = rayon::current_num_threads() as u64 * PANEL;
    BASE + panels + counted + counted / 4
}

/// What a run carries from phase to phase through some layers.
fn state(comparison: &Comparison<'_>, layers: &Range<usize>) -> u64 {
    carried(comparison.compared.config, comparison.compared.steps.iter().map(Vec::len).sum(), layers)
}

/// The same of a run that reads so many tokens.
fn carried(config: &Config, positions: usize, layers: &Range<usize>) -> u64 {
    let of_layer = |layer: usize| 2 * config.key_width() + config.index_of(layer).map_or(0, |index| index.head_dim);
    let kept: usize = layers.clone().map(of_layer).sum();
    VALUE * (positions * (2 * config.hidden_size + kept)) as u64
}

/// What a run of the reference needs that reads so many tokens, the first of them at once, and keeps nothing of them.
pub(super) fn of_run(config: &Config, extent: Extent, positions: usize) -> u64 {
    let mut phases: BTreeMap<(usize, usize, usize), u64> = BTreeMap::new();
    for site in Site::all(config).filter(|site| !site.on_request()) {
        let (rows, columns) = site.matrix(config, extent);
        *phases.entry(phase(site)).or_default() += VALUE * (rows * columns) as u64;
    }
    let largest = phases.into_values().max().unwrap_or(0);
    with_rest(WITH_ERRORS * largest + carried(config, positions, &(0..config.num_hidden_layers)))
}

/// What the weights take on an emulated device, which has them in bf16.
pub(super) fn of_weights(checkpoint: &Checkpoint) -> u64 {
    checkpoint.tensors().map(|tensor| 2 * tensor.shape.iter().product::<usize>() as u64).sum()
}

/// The values of each phase of the longest pass through some layers.
fn phases(
    comparison: &Comparison<'_>,
    layers: &Range<usize>,
) -> Result<BTreeMap<(usize, usize, usize), Values>, Failure> {
    let model = comparison.model()?;
    let config = model.config();
    let verification = comparison.verification(&model, &[Lens::Local], layers.clone());
    let steps = comparison.compared.steps.len();
    let longest = (0..steps).max_by_key(|step| comparison.compared.steps[*step].len()).unwrap_or(0);
    let extent = verification.extent(longest);
    let is_passed = |site: &Site| match site {
        Site::Layer(layer, _) => layers.contains(layer),
        Site::FinalNorm | Site::LmHead | Site::Logits => layers.end == config.num_hidden_layers,
        Site::Vision(..) => layers.start == 0,
        Site::Embedding | Site::Module(_) | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => true,
    };
    let shown = |site: Site| comparison.compared.candidate.has(At { step: longest, site });
    let sites = Site::all(config).filter(is_passed).filter(|site| !site.on_request() || shown(*site));
    Ok(by_phase(sites.map(|site| {
        let (rows, columns) = site.matrix(config, extent);
        (site, VALUE * (rows * columns) as u64, shown(site))
    })))
}

/// Sites with the bytes of their values, and whether they are shown, by phase.
fn by_phase(sites: impl Iterator<Item = (Site, u64, bool)>) -> BTreeMap<(usize, usize, usize), Values> {
    let mut phases: BTreeMap<(usize, usize, usize), Values> = BTreeMap::new();
    for (site, bytes, shown) in sites {
        let values = phases.entry(phase(site)).or_default();
        values.all += bytes;
        if shown {
            values.shown += bytes;
            let is_judged = site.is_stream() || site == Site::Logits;
            values.judged = values.judged.max(if is_judged { bytes } else { 0 });
        }
    }
    phases
}
