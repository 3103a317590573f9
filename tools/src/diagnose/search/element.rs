//! One element of a weight times a factor, as where a bit of it is another.
//!
//! ```text
//! yᵢₖ = ŷᵢₖ + (c − 1)·wₖⱼ·xᵢⱼ        in one output channel k; solved for j and c
//! ```
//!
//! with y \[n, m\] the candidate's values, ŷ those of its twin, the weight W \[m, d\], and x \[n, d\] what it multiplies, as the
//! candidate shows it, or as it follows from what it shows.

use ndarray::{Array2, ArrayView1};
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{LayerSite, RoundingContract, Site};

use super::bench::NEARER;
use super::factor::{Candidate, STEP, fit};
use super::suspects::{self, Suspect};
use super::{Bench, activated, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;
use crate::failure::Failure;
use crate::judge::way;

/// Rows, at least, by which an input channel is told from all others.
const ROWS: usize = 8;

/// Of the squares that the next input channel leaves, how many the right one may: of unrelated channels, all but a few are left.
const LEFT: f64 = 0.25;

/// Of each weight on the way whose output channels are the site's own, the element.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let (apart, squares) = (&bench.candidate - &bench.twin.computed, bench.off_by_column());
    let Some(column) = (0..squares.len()).max_by(|a, b| squares[*a].total_cmp(&squares[*b])) else {
        return Ok(Vec::new());
    };
    if apart.nrows() < ROWS || squares[column] <= (1.0 - NEARER) * bench.off() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for suspect in suspects::of(bench) {
        let own = suspect.first.and_then(|first| column.checked_sub(first));
        let rows = suspects::rows_of(suspect.of, &bench.config()).unwrap_or_default();
        let Some(row) = own.filter(|row| *row < rows && !suspect.of.is_norm()) else { continue };
        let Some(x) = read(bench, suspect.of)?.filter(|x| x.nrows() == apart.nrows()) else { continue };
        let Some(input) = input(bench, apart.column(column), &x) else { continue };
        found.extend(fitted(bench, suspect, Part::Element(row, input), column)?);
    }
    Ok(found)
}

/// The part of a weight whose factor one column tells, with that.
pub(super) fn fitted(
    bench: &Bench<'_, '_>,
    suspect: Suspect,
    part: Part,
    column: usize,
) -> Result<Option<Assumed>, Failure> {
    let moved = bench.ideal_under(&[bench.assumed(&kinds::SCALED, suspect.times(part.clone(), 1.0 + STEP))])?;
    let derivative = (moved - &bench.ideal) / STEP;
    fit(bench, &Candidate { suspect, part, columns: vec![column], derivative, explained: 0.0, start: 1.0 })
}

/// The input channel that leaves the least of a column, if it leaves far less than any other.
fn input(bench: &Bench<'_, '_>, apart: ArrayView1<'_, f64>, x: &Array2<f64>) -> Option<usize> {
    let counts = bench.counts();
    let product = |a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>| -> f64 {
        a.iter().zip(b).zip(counts).map(|((a, b), count)| a * b * count).sum()
    };
    let all = product(apart, apart);
    let left = |x: ArrayView1<'_, f64>| {
        let size = product(x, x);
        if size > 0.0 { all - product(apart, x).powi(2) / size } else { all }
    };
    let mut each: Vec<(f64, usize)> = x.columns().into_iter().map(left).zip(0..).collect();
    each.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    match each[..] {
        [(least, input), (next, _), ..] if least <= LEFT * next => Some(input),
        _ => None,
    }
}

/// What a weight multiplies, in all steps.
fn read(bench: &Bench<'_, '_>, of: Weight) -> Result<Option<Array2<f64>>, Failure> {
    if let (Weight::Layer(_, LayerWeight::Expert(expert, Projection::Down)), Some(layer)) = (of, bench.site.layer()) {
        return of_expert(bench, layer, expert);
    }
    let Some(product) = suspects::product_with(bench, of) else { return Ok(None) };
    let [input] = way::inputs(product)[..] else { return Ok(None) };
    bench.in_all_steps(input)?.map(|x| activated::of(bench, product, x)).transpose()
}

/// What an expert's output projection multiplies, times how much the expert counts: 0 for tokens that did not choose it. Where each
/// token's experts stand apart, none is counted.
fn of_expert(bench: &Bench<'_, '_>, layer: usize, expert: usize) -> Result<Option<Array2<f64>>, Failure> {
    let sites = [LayerSite::ExpertHidden, LayerSite::GateWeights].map(|site| Site::Layer(layer, site));
    let mut run = bench.rerun(&[], RoundingContract::IDEAL, &sites)?;
    let [hidden, weights] = sites.map(|site| run.beside.remove(&site));
    let (Some(hidden), Some(weights), Some(chosen)) = (hidden, weights, run.experts) else { return Ok(None) };
    let (n, k) = weights.dim();
    if hidden.nrows() != n * k || chosen.dim() != (n, k) {
        return Ok(None);
    }
    let are_apart = bench.site == Site::Layer(layer, LayerSite::ExpertOutput);
    let mut x = Array2::zeros((if are_apart { n * k } else { n }, hidden.ncols()));
    for ((token, slot), _) in chosen.indexed_iter().filter(|(_, own)| **own == expert) {
        let row = token * k + slot;
        let (to, times) = if are_apart { (row, 1.0) } else { (token, weights[[token, slot]]) };
        x.row_mut(to).scaled_add(times, &hidden.row(row));
    }
    Ok(Some(x))
}
