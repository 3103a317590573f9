//! A row of the router times a factor, seen behind the choice of experts.
//!
//! The factor changes the weights of tokens that chose the row's expert, and the choice of some others, of which a derivative tells
//! nothing: each token says which factor would be its own, and the median of these is where least squares begin.

use ndarray::Array2;
use rayon::prelude::*;
use reference::weights::{LayerWeight, Weight};

use super::factor::{Candidate, STEP, fit};
use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;
use crate::failure::Failure;

/// Experts whose rows are looked at.
const EXPERTS: usize = 16;

/// Rows that are fitted, those that come nearest first.
const FITTED: usize = 2;

/// Of the squares that a token's derivative has, of those that have the most, how many one must have to be asked.
const ASKED: f64 = 1e-3;

/// The rows of experts that tokens were sent to.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let is_router = |suspect: &Suspect| matches!(suspect.of, Weight::Layer(_, LayerWeight::Gate));
    let Some(suspect) = suspects::of(bench).into_iter().find(|suspect| is_router(suspect) && suspect.first.is_none())
    else {
        return Ok(Vec::new());
    };
    let apart = &bench.candidate - &bench.twin.computed;
    let near = |e: usize| -> Result<Option<(f64, Candidate)>, Failure> {
        let row = Part::Rows(vec![e]);
        let times = |factor| [bench.assumed(&kinds::SCALED, suspect.times(row.clone(), factor))];
        let derivative = (bench.ideal_under(&times(1.0 + STEP))? - &bench.ideal) / STEP;
        let Some(start) = median(bench, &apart, &derivative).map(|by| 1.0 + by) else { return Ok(None) };
        let off = bench.distance(&bench.ideal_under(&times(start))?);
        let columns = (0..apart.ncols()).collect();
        let candidate = Candidate { suspect, part: row.clone(), columns, derivative, explained: 0.0, start };
        Ok((off < bench.off()).then_some((off, candidate)))
    };
    let experts = suspects::standing_out(bench, EXPERTS);
    let mut all: Vec<(f64, Candidate)> =
        experts.into_par_iter().map(near).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let fitted = all.iter().take(FITTED).map(|(_, candidate)| fit(bench, candidate));
    Ok(fitted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// By how much the factor is off that most tokens have.
fn median(bench: &Bench<'_, '_>, apart: &Array2<f64>, derivative: &Array2<f64>) -> Option<f64> {
    let sizes = derivative.rows().into_iter().zip(bench.counts()).map(|(row, count)| count * row.dot(&row));
    let sizes: Vec<f64> = sizes.collect();
    let least = ASKED * sizes.iter().copied().fold(0.0, f64::max);
    let rows = derivative.rows().into_iter().zip(apart.rows()).zip(sizes).filter(|(_, size)| *size > least);
    let mut own: Vec<f64> = rows.map(|((d, a), _)| d.dot(&a) / d.dot(&d)).collect();
    own.sort_by(f64::total_cmp);
    own.get(own.len() / 2).copied().filter(|own| own.is_finite())
}
