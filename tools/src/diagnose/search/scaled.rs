//! A tensor, or a part of it, times a factor.
//!
//! What the candidate has otherwise than its twin is put next to the derivative of the site's values by the factor. Their
//! quotient, by least squares, is the factor less 1; columns that have it alone are heads or rows.

use ndarray::Array2;
use reference::Storage;

use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::tensors::{Fit, Part, Scaled, TensorChange};
use crate::diagnose::trial::Share;
use crate::failure::Failure;

/// By how much a factor is moved for a derivative: a power of 2, by which products round least.
const STEP: f64 = 1.0 / 1024.0;

/// Parts that are fitted, those that explain the most first.
const FITTED: usize = 8;

/// Standard deviations by which a column stands out.
const STANDS_OUT: f64 = 6.0;

/// Of the squares that the column explains that explains the most, how many another must.
const SMALLEST: f64 = 0.05;

/// Rows that are named one by one, at most.
const NAMED: usize = 8;

/// How often a factor is corrected.
const ROUNDS: usize = 6;

/// A part that may be scaled.
struct Candidate {
    suspect: Suspect,
    part: Part,
    columns: Vec<usize>,
    derivative: Array2<f64>,
    /// The squares that it explains.
    explained: f64,
}

/// Every tensor on the way, whole or in part.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let apart = &bench.candidate - &bench.twin.computed;
    let mut all = Vec::new();
    for suspect in suspects::of(bench) {
        let moved = [bench.assumed(&kinds::SCALED, change(&suspect, Part::All, 1.0 + STEP, false))];
        let Ok(values) = bench.ideal_under(&moved) else { continue };
        let derivative = (values - &bench.ideal) / STEP;
        all.extend(parts(bench, suspect, &derivative, &apart));
    }
    all.sort_by(|a, b| b.explained.total_cmp(&a.explained));
    all.truncate(FITTED);
    let mut found = Vec::new();
    for candidate in &all {
        found.extend(fit(bench, candidate)?);
    }
    Ok(found)
}

fn change(suspect: &Suspect, part: Part, factor: f64, stored: bool) -> TensorChange {
    let factor = Fit { value: factor, error: 0.0 };
    TensorChange::Scaled(Scaled { of: suspect.of, part, factor, stored })
}

/// The whole tensor, and the columns of which alone it may be.
fn parts(bench: &Bench<'_, '_>, suspect: Suspect, derivative: &Array2<f64>, apart: &Array2<f64>) -> Vec<Candidate> {
    let columns = apart.ncols();
    let sums: Vec<(f64, f64)> = (0..columns)
        .map(|column| (bench.product(apart, derivative, column), bench.product(derivative, derivative, column)))
        .collect();
    let explained = |columns: &[usize]| {
        let (along, size) = columns.iter().map(|j| sums[*j]).fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        if size > 0.0 { along * along / size } else { 0.0 }
    };
    let candidate = |part, columns: Vec<usize>| Candidate {
        suspect,
        part,
        explained: explained(&columns),
        columns,
        derivative: derivative.clone(),
    };
    let mut found = vec![candidate(Part::All, (0..columns).collect())];
    if let Some(first) = suspect.first {
        // The noise is what no column's own factor explains.
        let own: Vec<f64> = (0..columns).map(|j| explained(&[j])).collect();
        let left = (bench.off() - own.iter().sum::<f64>()).max(0.0);
        let noise = left / apart.len() as f64;
        let least = SMALLEST * own.iter().copied().fold(0.0, f64::max);
        let stands_out = |j: &usize| own[*j] > least.max(STANDS_OUT.powi(2) * noise);
        let off: Vec<usize> = (first..columns).filter(stands_out).collect();
        if let Some(each) = suspect.head {
            let is_off = |head: &usize| off.iter().filter(|j| (**j - first) / each == *head).count() * 2 > each;
            let heads: Vec<usize> = (0..(columns - first) / each).filter(is_off).collect();
            if !heads.is_empty() && heads.len() * each < columns - first {
                let of_heads = heads.iter().flat_map(|head| first + head * each..first + (head + 1) * each).collect();
                found.push(candidate(Part::Heads(each, heads), of_heads));
            }
        }
        if !off.is_empty() && off.len() <= NAMED && off.len() < columns {
            found.push(candidate(Part::Rows(off.iter().map(|j| j - first).collect()), off));
        }
    }
    found.retain(|candidate| candidate.explained > 0.0);
    found
}

/// The factor, where it is not 1: of the numbers within its error, with few digits first, the one that reproduces the most, in the
/// type that the checkpoint has or in a wider one.
fn fit(bench: &Bench<'_, '_>, candidate: &Candidate) -> Result<Option<Assumed>, Failure> {
    let mut best: Option<(Share, Assumed)> = None;
    for stored in [true, false] {
        let Some(fit) = candidate.factor(bench, stored)? else { continue };
        for value in near(fit) {
            let error = fit.error.max((value - fit.value).abs());
            let assumed = candidate.assumed(bench, Fit { value, error }, stored);
            let share = bench.share_under(std::slice::from_ref(&assumed))?;
            if best.as_ref().is_none_or(|(most, _)| share.exceeds(*most)) {
                best = Some((share, assumed));
            }
        }
    }
    Ok(best.map(|(_, assumed)| assumed))
}

impl Candidate {
    fn assumed(&self, bench: &Bench<'_, '_>, factor: Fit, stored: bool) -> Assumed {
        let kind = if factor.value == 0.0 { &kinds::ZERO } else { &kinds::SCALED };
        let (of, part) = (self.suspect.of, self.part.clone());
        bench.assumed(kind, TensorChange::Scaled(Scaled { of, part, factor, stored }))
    }

    /// The factor by least squares, if it is not 1. What is stored is rounded in every step, as weights of few bits make a
    /// difference that has a direction of its own.
    fn factor(&self, bench: &Bench<'_, '_>, stored: bool) -> Result<Option<Fit>, Failure> {
        let of = |factor: f64, stored| [self.assumed(bench, Fit { value: factor, error: 0.0 }, stored)];
        let sum =
            |a: &Array2<f64>, b: &Array2<f64>| -> f64 { self.columns.iter().map(|j| bench.product(a, b, *j)).sum() };
        let ideal = |factor: f64| bench.ideal_under(&of(factor, false));
        let mut derivative = self.derivative.clone();
        let (mut factor, mut values, mut error) = (1.0, bench.twin.computed.clone(), f64::INFINITY);
        for round in 0..ROUNDS {
            let apart = &bench.candidate - &values;
            let step = sum(&apart, &derivative) / sum(&derivative, &derivative);
            if !step.is_finite() {
                return Ok(None);
            }
            if round > 0 && step.abs() < error / 16.0 {
                break;
            }
            factor += step;
            values = bench.twin_under(&of(factor, stored))?;
            let unrounded = ideal(factor)?;
            error = 3.0 * bench.deviation(&(&bench.candidate - &unrounded), &derivative, &self.columns);
            if step.abs() > 0.02 && round + 1 < ROUNDS {
                derivative = (ideal(factor + STEP)? - unrounded) / STEP;
            }
        }
        // A factor is no finer than the weights that it is seen through.
        let error = error.max(3.0 * Storage::F32.unit_roundoff());
        Ok((factor.is_finite() && (factor - 1.0).abs() > error).then_some(Fit { value: factor, error }))
    }
}

/// Numbers near a fitted one, those of few digits first, and itself. What rounds weights has an error of its own, so that the
/// right one may be a few errors away.
pub(super) fn near(fit: Fit) -> Vec<f64> {
    const FAR: f64 = 5.0;
    let Fit { value, error } = fit;
    if value.abs() <= error {
        return vec![0.0];
    }
    let rounded = |digits: usize| format!("{value:.digits$e}").parse::<f64>().unwrap_or(value);
    let mut all: Vec<f64> = (0..15).map(rounded).filter(|short| (short - value).abs() <= FAR * error).take(3).collect();
    all.push(value);
    all.dedup();
    all
}
