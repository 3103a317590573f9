//! What a sum has in the place of one of its summands, as where a buffer is read before it is written, or a tile is not added.
//!
//! ```text
//! yᵢⱼ = Σₖ cₖ·pₖᵢⱼ        for rows i and channels j that are off; one summand p solved for, the others as they are
//! ```
//!
//! with y \[n, H\] the candidate's values and p \[n, H\]: of the residual stream, what it was and what an operator adds; of a network
//! with a shared expert, the routed experts' sum times their factor, and the shared expert's output. [`rounded`] has sums of fewer bits.

mod rounded;

use ndarray::{Array2, Axis};
use reference::{LayerSite, Site};

use super::solution::Solution;
use super::{listed, sites};
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Values of a row by which it is told whose they are.
const LEAST: usize = 4;

/// How far a factor is from 1, at least, in what roundings leave of a row.
const CERTAIN: f64 = 16.0;

/// How far a factor may be from a whole number to be that, as a share: what bf16 leaves of it, several times.
const WHOLE: f64 = 0.02;

/// A summand with its factor.
struct Summand {
    site: Site,
    values: Array2<f64>,
}

/// A sum, where it is off.
struct Sum<'a, 'b, 'c> {
    bench: &'a Bench<'b, 'c>,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let (rows, columns) = off(bench);
    if rows.is_empty() || columns.len() < LEAST {
        return Ok(None);
    }
    let Some(summands) = summands(bench)? else { return Ok(None) };
    let values: Vec<&Array2<f64>> = summands.iter().map(|own| &own.values).collect();
    if let Some(found) = rounded::solve(bench, &values) {
        return Ok(Some(found));
    }
    let sum = Sum { bench, rows, columns };
    for (k, own) in summands.iter().enumerate() {
        let mut others = Array2::zeros(bench.candidate.dim());
        summands.iter().enumerate().filter(|(i, _)| *i != k).for_each(|(_, other)| others += &other.values);
        let apart = &bench.candidate - &others;
        let found = sum.times(own, &apart).or_else(|| sum.of_rows(own, &apart));
        let found = match found {
            Some(found) => Some(found),
            None => sum.of_sites(own, &apart)?,
        };
        if let Some((what, instead)) = found {
            let mut values = bench.ideal.clone();
            for (i, j) in sum.places() {
                values[[i, j]] = others[[i, j]] + instead[[i, j]];
            }
            let rows = listed::rows(bench, &sum.rows);
            let columns = listed::columns(&sum.columns, values.ncols());
            let said = format!("in {}{columns}: {what}", rows.trim_end_matches(','));
            return Ok(Some(Solution::new(vec![said], values)));
        }
    }
    Ok(None)
}

/// Rows and columns that are off.
fn off(bench: &Bench<'_, '_>) -> (Vec<usize>, Vec<usize>) {
    let rows: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    let (y, right) = (bench.candidate.select(Axis(0), &rows), bench.ideal.select(Axis(0), &rows));
    let columns = y.columns().into_iter().zip(right.columns()).enumerate().filter_map(|(column, (y, right))| {
        let apart = &y - &right;
        (apart.dot(&apart).sqrt() > bench.rounding() * right.dot(&right).sqrt()).then_some(column)
    });
    let columns = columns.collect();
    (rows, columns)
}

/// What a site adds up.
fn summands(bench: &Bench<'_, '_>) -> Result<Option<Vec<Summand>>, Failure> {
    use LayerSite::{Attention, Experts, Mlp, OProj, Output, Residual, Shared};
    let Site::Layer(layer, at) = bench.site else { return Ok(None) };
    let of = |site| Site::Layer(layer, site);
    let stream = if layer == 0 { Site::InputsEmbeds } else { Site::Layer(layer - 1, Output) };
    let config = bench.config();
    let sites = match at {
        Mlp if config.is_shared(layer) => vec![(of(Experts), config.routed_scaling_factor), (of(Shared), 1.0)],
        Residual => vec![(stream, 1.0), (of(Attention), 1.0)],
        Output => vec![(of(Residual), 1.0), (of(Mlp), 1.0)],
        _ => return Ok(None),
    };
    let mut found = Vec::new();
    for (site, factor) in sites {
        // Two names of the same values.
        let other = match site {
            Site::InputsEmbeds => Some(Site::Embedding),
            site if site == of(Attention) => Some(of(OProj)),
            _ => None,
        };
        let values = match (bench.in_all_steps(site)?, other) {
            (None, Some(other)) => bench.in_all_steps(other)?,
            (values, _) => values,
        };
        let Some(values) = values.filter(|values| values.dim() == bench.candidate.dim()) else { return Ok(None) };
        found.push(Summand { site, values: factor * values });
    }
    // What is not this sum has nothing to be solved for.
    let none = Array2::<f64>::zeros(bench.candidate.dim());
    let total = found.iter().fold(none, |sum, own| sum + &own.values);
    let is_sum = total.iter().zip(&bench.ideal).all(|(a, b)| (a - b).abs() <= bench.rounding() * (a.abs() + 1.0));
    Ok(is_sum.then_some(found))
}

impl Sum<'_, '_, '_> {
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rows.iter().flat_map(|i| self.columns.iter().map(|j| (*i, *j)))
    }

    /// Whether what is left of a row is a summand's, within the sum's roundings.
    fn is(&self, apart: &Array2<f64>, instead: impl Fn(usize) -> f64, row: usize) -> bool {
        let (mut left, mut size) = (0.0, 0.0);
        for &j in &self.columns {
            let (own, value) = (self.bench.candidate[[row, j]], instead(j));
            left += (apart[[row, j]] - value).powi(2);
            size += own * own + value * value;
        }
        left.sqrt() <= self.bench.rounding() * size.sqrt()
    }

    /// The summand times one number: 0 where it is left out.
    fn times(&self, own: &Summand, apart: &Array2<f64>) -> Option<(String, Array2<f64>)> {
        let (mut along, mut size) = (0.0, 0.0);
        for at in self.places() {
            along += own.values[at] * apart[at];
            size += own.values[at] * own.values[at];
        }
        let times = along / size;
        let whole = times.round();
        let times = if (times - whole).abs() < WHOLE { whole + 0.0 } else { times };
        let is_other = (times - 1.0).abs() > CERTAIN * self.bench.rounding();
        let is = |row: &usize| self.is(apart, |j| times * own.values[[*row, j]], *row);
        if !times.is_finite() || !is_other || !self.rows.iter().all(is) {
            return None;
        }
        let how = if times == 0.0 { "is not added".to_owned() } else { format!("is added {times:.4} times") };
        Some((format!("{} {how}", own.site), times * &own.values))
    }

    /// Other rows of the summand.
    fn of_rows(&self, own: &Summand, apart: &Array2<f64>) -> Option<(String, Array2<f64>)> {
        let is = |row: usize, other: usize| self.is(apart, |j| own.values[[other, j]], row);
        let others = listed::find_others(&self.rows, own.values.nrows(), is)?;
        let mut values = own.values.clone();
        self.rows.iter().zip(&others).for_each(|(row, other)| values.row_mut(*row).assign(&own.values.row(*other)));
        Some((format!("what is added of {} is that {}", own.site, listed::others(&self.rows, &others)), values))
    }

    /// What the candidate shows at another site.
    fn of_sites(&self, own: &Summand, apart: &Array2<f64>) -> Result<Option<(String, Array2<f64>)>, Failure> {
        for site in sites::alike(self.bench, own.site) {
            let shown = self.bench.shown_in_all_steps(site)?;
            let Some(values) = shown.filter(|values| values.dim() == apart.dim()) else { continue };
            if self.rows.iter().all(|row| self.is(apart, |j| values[[*row, j]], *row)) {
                return Ok(Some((format!("{site} is added in the place of {}", own.site), values)));
            }
        }
        Ok(None)
    }
}
