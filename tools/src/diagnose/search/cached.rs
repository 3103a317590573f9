//! Keys or values that a cache keeps on another grid, each grid with scales of heads, tokens, channels or calls, or clipped.
//!
//! A quantizer is deterministic: applied to keys or values that are shown it gives what attention read, number by number. Where
//! they are clipped, to what follows from the squares that are left, a function of one number.

use rayon::prelude::*;
use reference::LayerSite::{Context, KRope, Probabilities};
use reference::Site;
use reference::semantics::{CacheForm, CacheGrid, CacheHalf, CacheSteps, ScaleOf};
use strum::IntoEnumIterator;

use super::bench::NEARER;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};

/// Limits of a clip that are tried at first, each so many times the next, from the largest element that a right one may leave.
const LIMITS: usize = 24;
const LARGEST: f64 = 256.0;
const EACH: f64 = 1.4;

/// What the best of these limits leaves of the distance, at most, where others are looked at.
const WORTH: f64 = 0.9;

/// How often the interval around the best limit is made shorter by a third.
const THIRDS: usize = 24;

/// Digits of a limit that people write.
const DIGITS: [usize; 3] = [1, 2, 3];

pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let has = |at| bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, own) if *own == at));
    let reads = |of: CacheHalf| match (of.has(), has(Context)) {
        ([_, true], false) => false,
        // Values that are weighed by what is shown tell nothing of keys.
        ([true, _], true) => has(KRope),
        _ => has(Probabilities) || has(Context),
    };
    let halves: Vec<CacheHalf> =
        [CacheHalf::Keys, CacheHalf::Values, CacheHalf::Both].into_iter().filter(|of| reads(*of)).collect();
    let mut found: Vec<Assumed> = halves.iter().flat_map(|of| grids().map(|grid| kept(*of, grid))).collect();
    found.extend(halves.iter().filter_map(|of| clipped(bench, *of)));
    found
}

fn kept(of: CacheHalf, grid: CacheGrid) -> Assumed {
    let form = CacheForm { of, grid };
    Assumed::everywhere(&kinds::CACHE_FORM, Change::Reading("cache_form", form.to_string()))
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
    let (mut low, mut high) = (at / EACH, at * EACH);
    for _ in 0..THIRDS {
        let third = (high - low) / 3.0;
        if off(low + third) < off(high - third) {
            high -= third;
        } else {
            low += third;
        }
    }
    let limit = f64::midpoint(low, high);
    let left = off(limit);
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
