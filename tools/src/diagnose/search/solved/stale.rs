//! Rows that are those of another site bit for bit, as of a buffer that was not written, or was read before it was.
//!
//! ```text
//! yᵢ = pᵢ₊ₛ        for the rows i that are off; solved for the site of p, and for s
//! ```
//!
//! with y \[n, m\] the candidate's, and p \[n, m\] what it shows at another site.

use ndarray::Array2;
use reference::{LayerSite, Site};

use super::listed::{find_others, others, ranges};
use super::sites;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;
use crate::judge::way;

/// Channels of a row that are not 0, at least.
const CHANNELS: usize = 16;

/// How many layers before the site's, or behind it, others are looked at.
const NEAR: usize = 8;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let (y, all) = (&bench.candidate, bench.candidate.nrows());
    let off: Vec<usize> = (0..all).filter(|row| bench.row_is_off(*row)).collect();
    let is_filled = |row: &usize| y.row(*row).iter().filter(|x| **x != 0.0).count() >= CHANNELS;
    // What is off in all rows is no buffer that some are left in.
    if off.is_empty() || off.len() == all || !off.iter().all(is_filled) {
        return Ok(None);
    }
    let here = bench.site.layer();
    let is_near = |layer: usize| here.is_none_or(|here| layer.abs_diff(here) <= NEAR);
    // What is computed of it alone, as a network's output of its experts', is it by another name.
    let is_made_of_it = |site: &Site| way::inputs(*site).contains(&bench.site);
    let is_told = |site: &Site| site.layer().is_none_or(is_near) && !is_read(bench.site, *site) && !is_made_of_it(site);
    for site in sites::alike(bench, bench.site).into_iter().filter(is_told) {
        let Some(p) = bench.shown_in_all_steps(site)?.filter(|p| p.dim() == y.dim()) else { continue };
        let is = |row: usize, other: usize| y.row(row) == p.row(other);
        let (said, from) = if off.iter().all(|row| is(*row, *row)) {
            (format!("those of {site}"), off.clone())
        } else if let Some(from) = find_others(&off, all, is) {
            (format!("those of {site}, {}", others(&off, &from)), from)
        } else {
            continue;
        };
        let mut values: Array2<f64> = bench.ideal.clone();
        off.iter().zip(&from).for_each(|(row, from)| values.row_mut(*row).assign(&p.row(*from)));
        let rows = ranges(&off);
        let said =
            format!("rows {rows} of {all} are {said}, bit for bit: as of a buffer that was not written for them");
        return Ok(Some(Solution::new(vec![said], values)));
    }
    Ok(None)
}

/// Whether a site is computed from another: where rows are those that go in, something is left out.
fn is_read(site: Site, other: Site) -> bool {
    use LayerSite::{InputNorm, Output, Residual};
    match (site, other) {
        (Site::Layer(layer, InputNorm | Residual | Output), Site::Layer(before, Output)) => before + 1 == layer,
        (Site::Layer(0, InputNorm | Residual | Output), Site::InputsEmbeds | Site::Embedding) => true,
        _ => way::inputs(site).contains(&other),
    }
}
