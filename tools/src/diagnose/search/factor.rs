//! The factor by which a part of a tensor is multiplied.

use ndarray::Array2;
use reference::Storage;

use super::suspects::Suspect;
use super::{Bench, kinds};
use crate::diagnose::catalogue::fit::Fit;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::{Part, Scaled};
use crate::diagnose::catalogue::tensors::TensorChange;
use crate::diagnose::share::Share;
use crate::failure::Failure;

/// By how much a factor is moved for a derivative: a power of 2, by which products round least.
pub(super) const STEP: f64 = 1.0 / 1024.0;

/// Standard deviations by which a column, or a block, stands out.
pub(super) const STANDS_OUT: f64 = 6.0;

/// Of the squares that the one explains that explains the most, how many another must.
pub(super) const SMALLEST: f64 = 0.05;

/// How likely it may be by chance that a factor is the root of a whole number.
const BY_CHANCE: f64 = 1e-3;

/// How often a factor is corrected.
const ROUNDS: usize = 6;

/// A part that may be scaled.
pub(super) struct Candidate {
    pub(super) suspect: Suspect,
    pub(super) part: Part,
    /// The site's columns that it changes.
    pub(super) columns: Vec<usize>,
    /// Of the site's values by the factor.
    pub(super) derivative: Array2<f64>,
    /// The squares that it explains.
    pub(super) explained: f64,
    /// The factor that is tried first: 1, where nothing tells a nearer one.
    pub(super) start: f64,
}

/// The factor, where it is not 1: of the numbers within its error, with few digits first, the one that reproduces the most, in the
/// type that the checkpoint has or in a wider one.
pub(super) fn fit(bench: &Bench<'_, '_>, candidate: &Candidate) -> Result<Option<Assumed>, Failure> {
    let mut best: Option<(Share, Assumed)> = None;
    for stored in [true, false] {
        let Some(fit) = candidate.factor(bench, stored)? else { continue };
        for value in roots(fit).into_iter().chain(near(fit)) {
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
        let (mut factor, mut error) = (self.start, f64::INFINITY);
        let mut values =
            if factor == 1.0 { bench.twin.computed.clone() } else { bench.twin_under(&of(factor, stored))? };
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
        let error = error.max(3.0 * Storage::F32.unit_roundoff() * factor.abs().max(1.0));
        Ok((factor.is_finite() && (factor - 1.0).abs() > error).then_some(Fit { value: factor, error }))
    }
}

/// The root of a whole number that a factor may be, as f32 and as f64 have it.
fn roots(Fit { value, error }: Fit) -> Vec<f64> {
    let root = value.powi(2).round().sqrt().copysign(value);
    // A square is as near to a whole number by chance as its error has room between two.
    let is_one = (root - value).abs() <= error && 4.0 * value.abs() * error < BY_CHANCE;
    if is_one { vec![Storage::F32.nearest(root), root] } else { Vec::new() }
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
