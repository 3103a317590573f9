//! Rows of the router in another order, or one of them times a factor, seen behind the choice of experts.
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
use crate::diagnose::catalogue::order::Order;
use crate::diagnose::catalogue::part::Part;
use crate::diagnose::catalogue::tensors::TensorChange;
use crate::failure::Failure;

/// Experts whose rows are looked at.
const EXPERTS: usize = 16;

/// Into how many parts the rows of more are cut, that may be exchanged.
const PARTS: usize = 8;

/// Rows that are fitted, those that come nearest first.
const FITTED: usize = 2;

/// Of the squares that a token's derivative has, of those that have the most, how many one must have to be asked.
const ASKED: f64 = 1e-3;

/// Rows in the order of devices that have each others', from the last to the first, or by turns.
fn orders(experts: usize) -> Vec<Order> {
    let each = if experts > EXPERTS { experts / PARTS } else { 1 };
    let shifts = (1..experts).filter(|by| by.is_multiple_of(each));
    let shifted = shifts.map(|by| (0..experts).map(|e| Some((e + by) % experts)).collect());
    let reversed = (0..experts).rev().map(Some).collect();
    let turns = (2..experts).filter(|n| experts.is_multiple_of(*n));
    let in_turns = turns.map(|n| (0..experts).map(|e| Some(e % n * (experts / n) + e / n)).collect());
    shifted.chain([reversed]).chain(in_turns).collect()
}

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
    let fitted = fitted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
    let moved = orders(bench.config().num_local_experts).into_iter();
    let moved = moved.map(|order| bench.assumed(&kinds::ROWS, TensorChange::Rows(suspect.of, 1, order)));
    Ok(fitted.chain(moved).collect())
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
