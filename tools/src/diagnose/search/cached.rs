//! Keys or values that a cache keeps on another grid, or later calls read so, each grid with scales of heads, tokens, channels or
//! calls, or clipped.
//!
//! A quantizer is deterministic: applied to keys or values that are shown it gives what attention read, number by number. Where
//! they are clipped, to what follows from the squares that are left, a function of one number.

use rayon::prelude::*;
use reference::LayerSite::{Context, Probabilities};
use reference::semantics::{CacheForm, CacheGrid, CacheHalf, CacheSteps, ScaleOf};
use reference::{Site, Storage};
use strum::IntoEnumIterator;

use super::bench::NEARER;
use super::{Bench, golden, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};

/// Limits of a clip that are tried at first, each so many times the next, from the largest element that a right one may leave.
const LIMITS: usize = 10;
const LARGEST: f64 = 64.0;
const EACH: f64 = 1.6;

/// What the best of these limits leaves of the distance, at most, where others are looked at.
const WORTH: f64 = 0.9;

/// Tokens that are first, and values of which one is off where many are.
const FIRST: usize = 8;
const FEW: usize = 8;

/// How often the interval around the best limit is made shorter, to 10⁻⁴ of itself.
const SECTIONS: usize = 20;

/// Digits of a limit that people write.
const DIGITS: [usize; 3] = [1, 2, 3];

pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let has = |at| bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, own) if *own == at));
    let reads = |of: CacheHalf| match (of.has(), has(Context)) {
        ([_, true], false) => false,
        // Values that are weighed by what is shown tell nothing of keys.
        ([true, _], true) => has(Probabilities),
        _ => has(Probabilities) || has(Context),
    };
    let halves: Vec<CacheHalf> =
        [CacheHalf::Keys, CacheHalf::Values, CacheHalf::Both].into_iter().filter(|of| reads(*of)).collect();
    let of_grids = |assumed: fn(CacheHalf, CacheGrid) -> Assumed| {
        let all = |of: &CacheHalf| grids().chain([CacheGrid::E5m2]).map(|grid| assumed(*of, grid)).collect::<Vec<_>>();
        halves.iter().flat_map(all).collect::<Vec<_>>()
    };
    let mut found = match (is_early(bench), bench.calls().len()) {
        (true, _) => of_grids(kept),
        (false, 2..) => of_grids(read),
        (false, _) => Vec::new(),
    };
    found.extend(halves.iter().filter_map(|of| clipped(bench, *of)));
    found
}

/// Whether the first tokens are off, as they are where every number is on another grid: rows are, or many of their values.
fn is_early(bench: &Bench<'_, '_>) -> bool {
    let calls = bench.calls();
    let (tokens, first) = (calls.iter().sum::<usize>(), calls.first().copied().unwrap_or_default());
    let each = bench.candidate.nrows() / tokens.max(1);
    let rows: Vec<usize> = (0..each * first).filter(|row| row % first < FIRST).collect();
    let differs =
        |row: usize| bench.candidate.row(row).into_iter().zip(bench.twin.computed.row(row)).filter(|(a, b)| a != b);
    let (off, all) =
        rows.iter().fold((0, 0), |(off, all), row| (off + differs(*row).count(), all + bench.candidate.ncols()));
    // Few values are the twin's in f32, whose sums are in any order.
    let is_coarse = bench.unit() > Storage::F32.unit_roundoff();
    is_coarse && FEW * off > all || rows.into_iter().any(|row| bench.row_is_off(row))
}

fn kept(of: CacheHalf, grid: CacheGrid) -> Assumed {
    let form = CacheForm { of, grid };
    Assumed::everywhere(&kinds::CACHE_FORM, Change::Reading("cache_form", form.to_string()))
}

/// The same, of what later calls read.
fn read(of: CacheHalf, grid: CacheGrid) -> Assumed {
    let form = CacheForm { of, grid };
    Assumed::everywhere(&kinds::CACHE_READ_FORM, Change::Reading("cache_read_form", form.to_string()))
}

/// Every grid that has scales.
fn grids() -> impl Iterator<Item = CacheGrid> {
    CacheSteps::iter().flat_map(|steps| ScaleOf::iter().map(move |of| CacheGrid::Scaled(steps, of)))
}

/// The limit that leaves least, if it comes much nearer, as people write it where that comes as near.
fn clipped(bench: &Bench<'_, '_>, of: CacheHalf) -> Option<Assumed> {
    let off = |limit: f64| {
        let values = bench.twin_under(&[kept(of, CacheGrid::Clip(limit))]);
        values.map_or(f64::INFINITY, |values| bench.distance(&values))
    };
    let limits: Vec<f64> = (0..LIMITS).map(|step| LARGEST / EACH.powf(step as f64)).collect();
    let (least, at) = limits.into_par_iter().map(|limit| (off(limit), limit)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    if least > WORTH * bench.off() {
        return None;
    }
    let (left, limit) = golden::least((at / EACH, at * EACH), SECTIONS, off);
    if left > NEARER * bench.off() {
        return None;
    }
    let rounded = DIGITS.into_iter().map(|digits| rounded(limit, digits));
    let written = rounded.into_iter().find(|written| off(*written) <= left.max(f64::MIN_POSITIVE) * NEARER.recip());
    Some(kept(of, CacheGrid::Clip(written.unwrap_or(limit))))
}

/// A number to so many significant digits.
fn rounded(x: f64, digits: usize) -> f64 {
    format!("{x:.*e}", digits.saturating_sub(1)).parse().unwrap_or(x)
}
