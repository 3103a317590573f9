//! Numbers of the configuration, fitted to a site's values.

use std::cell::OnceCell;

use ndarray::Array2;
use rayon::prelude::*;
use reference::Site::{self, RopeCos, RopeSin};
use reference::Storage;
use reference::semantics::{PositionShift, Shifted};

use super::bench::NEARER;
use super::factor::near;
use super::numbers::{self, ROTATED};
use super::parameter::Parameter;
use super::{Bench, epsilons, golden, kinds};
use crate::diagnose::catalogue::fit::Fit;
use crate::diagnose::catalogue::fit::Fitted;
use crate::diagnose::catalogue::mistake::{Assumed, Change, Clue};
use crate::diagnose::share::Share;
use crate::failure::Failure;
use crate::judge::agreement::Agreement;

/// By how much positions may be off.
const OFFSETS: i32 = 64;

/// Golden sections of an interval, after which least squares converge.
const SECTIONS: usize = 16;

/// How often a value is corrected.
const ROUNDS: usize = 6;

/// Standard deviations of chance by which more values are the candidate's, where nothing else says that a number is another than the
/// configuration's: once in 10⁹ by chance.
const CERTAIN: f64 = 6.0;

/// How many of the least values of a grid are refined.
const REFINED: usize = 2;

fn all() -> impl Iterator<Item = &'static Parameter> {
    epsilons::PARAMETERS.iter().chain(&numbers::PARAMETERS)
}

/// Every parameter of the operators on the way to a site, those that these models have not where nothing explains it, and positions
/// that are off.
pub(super) fn search(bench: &Bench<'_, '_>, clue: Clue, is_unexplained: bool) -> Result<Vec<Assumed>, Failure> {
    let config = bench.config();
    let mut found = Vec::new();
    // Where one norm is on the way, every ε of norms is its own, and is searched for once.
    let is_alone = bench.suspects.iter().filter(|site| epsilons::is_norm(**site)).count() == 1;
    let epsilon = OnceCell::new();
    let touched = all().filter(|parameter| parameter.is_touched(bench));
    // The others are those of known mistakes, which the catalogue has with their usual numbers.
    for parameter in touched.filter(|parameter| is_unexplained || parameter.kind.is_searched()) {
        let Some(configured) = (parameter.configured)(&config) else { continue };
        let search = || {
            let fit = parameter.search(bench).filter(|fit| (fit.value - configured).abs() > fit.error);
            fit.or_else(|| parameter.nudged(bench, configured))
        };
        let fit = if is_alone && epsilons::is_one(parameter) { *epsilon.get_or_init(search) } else { search() };
        let Some(fit) = fit else { continue };
        found.extend(parameter.best(bench, fit).map(|(_, assumed)| assumed));
    }
    found.extend(offset(bench, clue)?);
    Ok(found)
}

/// A number that a candidate has otherwise than the configuration, where that is so little that only its twin shows it: with it, as
/// many values are the twin's as a right candidate has, of which too few are without it.
pub(in crate::diagnose) fn displaced(bench: &Bench<'_, '_>, agreement: &Agreement) -> Option<(Fitted, Share)> {
    let config = bench.config();
    let mut best: Option<(Fitted, Share)> = None;
    for parameter in all().filter(|parameter| parameter.is_touched(bench)) {
        let Some(configured) = (parameter.configured)(&config) else { continue };
        let Some(fit) = parameter.nudged(bench, configured) else { continue };
        let Some((share, assumed)) = parameter.best(bench, fit) else { continue };
        let Ok(values) = bench.twin_under(&[assumed]) else { continue };
        let fit = parameter.told_by_values(bench, fit, configured);
        let is_right = Agreement { equal: share.equal, ..*agreement }.is_right();
        if is_right && bench.is_more_by(CERTAIN, &values) && best.as_ref().is_none_or(|(_, most)| share.exceeds(*most))
        {
            best = Some((Fitted { parameter: parameter.name, fit, configured }, share));
        }
    }
    best
}

/// The parameter that a mistake changes, as values have it, beside what was assumed.
pub(in crate::diagnose) fn fitted(bench: &Bench<'_, '_>, assumed: &Assumed) -> Option<Fitted> {
    let Change::Reading(field, value) = &assumed.change else { return None };
    let config = bench.config();
    let d = config.head_dim as f64;
    let (field, value) = match (*field, value.as_str()) {
        ("attention_scale", "none") => ("score_scale", Some(1.0)),
        ("attention_scale", "rotary_dim") => ("score_scale", Some((config.rotary_dim.max(1) as f64).sqrt().recip())),
        ("attention_scale", "half_head_dim") => ("score_scale", Some((d / 2.0).sqrt().recip())),
        (field, value) => (field, value.parse::<f64>().ok()),
    };
    let parameter = all().find(|parameter| parameter.field == field)?;
    let (Some(value), Some(configured)) = (value.filter(|value| value.is_finite()), (parameter.configured)(&config))
    else {
        return None;
    };
    let fit = parameter.refined(bench, value).ok().flatten()?;
    let fit = parameter.told_by_values(bench, fit, configured);
    Some(Fitted { parameter: parameter.name, fit, configured })
}

impl Parameter {
    fn is_touched(&self, bench: &Bench<'_, '_>) -> bool {
        bench.suspects.iter().any(|site| match site {
            Site::Layer(_, site) => self.touches.contains(site),
            other => self.outside.contains(&epsilons::of_any(*other)),
        })
    }

    fn assumed(&self, bench: &Bench<'_, '_>, value: f64) -> Assumed {
        bench.of_own_table(Assumed::everywhere(self.kind, Change::Reading(self.field, value.to_string())))
    }

    /// How far the site is from the candidate's, without rounding, by a value.
    fn off(&self, bench: &Bench<'_, '_>, value: f64) -> f64 {
        let values = bench.ideal_under(&[self.assumed(bench, value)]);
        let off = values.map_or(f64::INFINITY, |values| bench.distance(&values));
        if off.is_nan() { f64::INFINITY } else { off }
    }

    /// The value at a place of the range, from 0 to 1.
    fn at(&self, place: f64) -> f64 {
        let (from, to, _) = self.range;
        if self.is_log { from * (to / from).powf(place) } else { from + (to - from) * place }
    }

    /// The best value of the range, if it comes much nearer than the configuration's.
    fn search(&self, bench: &Bench<'_, '_>) -> Option<Fit> {
        let steps = self.range.2;
        let place = |i: usize| i as f64 / steps as f64;
        let grid: Vec<f64> = (0..=steps).into_par_iter().map(|i| self.off(bench, self.at(place(i)))).collect();
        let is_least = |i: &usize| {
            let beside = [i.checked_sub(1), Some(i + 1)].into_iter().flatten().filter_map(|j| grid.get(j));
            grid[*i].is_finite() && beside.into_iter().all(|other| grid[*i] <= *other)
        };
        let mut least: Vec<usize> = (0..=steps).filter(is_least).collect();
        least.sort_by(|a, b| grid[*a].total_cmp(&grid[*b]));
        let sections = least.into_iter().take(REFINED).map(|i| {
            let (from, to) = (place(i.saturating_sub(1)), place((i + 1).min(steps)));
            golden::least((from, to), SECTIONS, |place| self.off(bench, self.at(place)))
        });
        let (off, place) = sections.min_by(|a, b| a.0.total_cmp(&b.0))?;
        if off > NEARER * bench.off() { None } else { self.refined(bench, self.at(place)).ok().flatten() }
    }

    /// A value next to the configuration's, from where values in few bits seem as near. Its error is that of what is rounded on the way,
    /// which the twin performs: whether it is another number is seen by the values that it reproduces.
    fn nudged(&self, bench: &Bench<'_, '_>, configured: f64) -> Option<Fit> {
        let fit = configured.is_finite().then(|| self.refined(bench, configured).ok().flatten())??;
        (fit.value != configured).then_some(fit)
    }

    /// A fit with the error that it has by how many values it reproduces, where that is less than by how far they are apart.
    fn told_by_values(&self, bench: &Bench<'_, '_>, fit: Fit, configured: f64) -> Fit {
        let Ok(values) = bench.twin_under(&[self.assumed(bench, fit.value)]) else { return fit };
        let error = bench.doubt_of(&values) * (fit.value - configured).abs();
        Fit { error: if error < fit.error { error } else { fit.error }, ..fit }
    }

    /// Of the numbers within a fit's error, with few digits first, the one that reproduces the most values, and how many these are.
    fn best(&self, bench: &Bench<'_, '_>, fit: Fit) -> Option<(Share, Assumed)> {
        let mut best: Option<(Share, Assumed)> = None;
        for value in near(fit) {
            let assumed = self.assumed(bench, value);
            // A number may be none that the operator takes.
            let Ok(share) = bench.share_under(std::slice::from_ref(&assumed)) else { continue };
            if best.as_ref().is_none_or(|(most, _)| share.exceeds(*most)) {
                best = Some((share, assumed));
            }
        }
        best
    }

    /// A value that is near, corrected by least squares, and three standard deviations of it. What the twin rounds on the way has
    /// a direction of its own, and is performed.
    fn refined(&self, bench: &Bench<'_, '_>, near: f64) -> Result<Option<Fit>, Failure> {
        let columns: Vec<usize> = (0..bench.candidate.ncols()).collect();
        let sum = |a: &Array2<f64>, b: &Array2<f64>| -> f64 { columns.iter().map(|j| bench.product(a, b, *j)).sum() };
        let (mut value, mut error) = (near, f64::INFINITY);
        for _ in 0..ROUNDS {
            let width = 1e-4 * value.abs().max(1e-9);
            let ideal = |value: f64| bench.ideal_under(&[self.assumed(bench, value)]);
            let derivative = (ideal(value + width)? - ideal(value - width)?) / (2.0 * width);
            let apart = &bench.candidate - &bench.twin_under(&[self.assumed(bench, value)])?;
            let step = sum(&apart, &derivative) / sum(&derivative, &derivative);
            if !step.is_finite() || step.abs() > 0.5 * value.abs() {
                return Ok(None);
            }
            error = 3.0 * bench.deviation(&(&bench.candidate - &ideal(value)?), &derivative, &columns);
            if step.abs() < error / 16.0 {
                break;
            }
            value += step;
        }
        // No finer than the numbers that it is seen through.
        let error = error.max(value.abs() * Storage::F32.unit_roundoff());
        Ok(error.is_finite().then_some(Fit { value, error }))
    }
}

/// Positions from the first that is off on, by the number that comes nearest.
fn offset(bench: &Bench<'_, '_>, clue: Clue) -> Result<Option<Assumed>, Failure> {
    let is_rotated = bench.suspects.iter().any(|site| match site {
        Site::Layer(_, site) => ROTATED.contains(site),
        other => matches!(other, RopeCos | RopeSin),
    });
    if !is_rotated {
        return Ok(None);
    }
    let first = clue.position;
    let assumed = |to: Shifted| {
        let shift = PositionShift { from: first, to };
        Assumed::everywhere(&kinds::POSITION, Change::Reading("position_shift", shift.to_string()))
    };
    let shifted = (-OFFSETS..=OFFSETS).filter(|by| by.abs() > 1).map(Shifted::By);
    // A table that is too short: its last row stands for all behind it, or it begins again.
    let of_table = first.checked_sub(1).into_iter().flat_map(|last| [Shifted::At(last), Shifted::Modulo(first)]);
    let tried: Vec<Shifted> = shifted.chain(of_table).collect();
    let off = |to: Shifted| Ok::<_, Failure>((bench.distance(&bench.ideal_under(&[assumed(to)])?), to));
    let all = tried.into_par_iter().map(off).collect::<Result<Vec<_>, _>>()?;
    let best = all.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b));
    Ok(best.filter(|(off, _)| *off <= NEARER * bench.off()).map(|(_, to)| assumed(to)))
}
