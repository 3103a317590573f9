//! A tensor, or a part of it, times a factor.
//!
//! What the candidate has otherwise than its twin is put next to the derivative of the site's values by the factor. Their
//! quotient, by least squares, is the factor less 1; columns that have it alone are heads or rows, and what is no column's alone is
//! left to [`blocks`].

use ndarray::Array2;
use rayon::prelude::*;

use super::factor::{Candidate, SMALLEST, STANDS_OUT, STEP, fit};
use super::suspects::{self, Suspect};
use super::{Bench, blocks, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;
use crate::failure::Failure;

/// Parts that are fitted, those that explain the most first.
const FITTED: usize = 8;

/// Rows that are named one by one, at most, where they do not follow each other.
const NAMED: usize = 8;

/// Every tensor on the way, whole or in part.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let apart = &bench.candidate - &bench.twin.computed;
    let of = |suspect: Suspect| {
        let moved = [bench.assumed(&kinds::SCALED, suspect.times(Part::All, 1.0 + STEP))];
        // What cannot be computed so is no hypothesis.
        let Ok(values) = bench.ideal_under(&moved) else { return Vec::new() };
        let derivative = (values - &bench.ideal) / STEP;
        let mut found = parts(bench, suspect, &derivative, &apart);
        found.extend(blocks::candidates(bench, suspect, &apart));
        found
    };
    let mut all: Vec<Candidate> = suspects::of(bench).into_par_iter().flat_map_iter(of).collect();
    all.sort_by(|a, b| b.explained.total_cmp(&a.explained));
    all.truncate(FITTED);
    let fitted: Vec<Option<Assumed>> =
        all.par_iter().map(|candidate| fit(bench, candidate)).collect::<Result<_, _>>()?;
    Ok(fitted.into_iter().flatten().collect())
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
        start: 1.0,
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
        // Whole heads are told as such.
        let are_heads = suspect.head.is_some_and(|each| off.len().is_multiple_of(each));
        let are_run = !are_heads && off.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        if !off.is_empty() && (are_run || off.len() <= NAMED) && off.len() < columns {
            found.push(candidate(Part::Rows(off.iter().map(|j| j - first).collect()), off));
        }
    }
    found.retain(|candidate| candidate.explained > 0.0);
    found
}
