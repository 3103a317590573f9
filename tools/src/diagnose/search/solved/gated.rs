//! What gated networks do otherwise than they should between their input and their output: experts, the shared one, or a dense
//! layer's.
//!
//! ```text
//! yᵢ − ŷᵢ = Σₙ cᵢₙ·Dₙ·(m ⊙ (h′(gᵢₙ, uᵢₙ) − h(gᵢₙ, uᵢₙ)))        solved for h′ among functions, and for m
//! ```
//!
//! with y \[rows, H\] the candidate's and ŷ the right values, n the networks that row i goes through, c how much each counts, and its
//! gate and up projection g and u; m is 1, or 1 in some experts or hidden channels alone, and else 0. [`network`] has the networks,
//! [`functions`] what may stand for h, [`families`] those that have a number and [`combined`] sums of two; [`outputs`] has what is
//! rounded behind them, [`mask`] solves for m, [`layouts`] has rows of g and u in other places, and [`spans`] looks for input
//! channels that they lack.

mod combined;
mod families;
mod functions;
mod layouts;
mod mask;
mod network;
mod outputs;
mod spans;

use ndarray::{Array2, ArrayView1, Axis};

use self::functions::Function;
use self::network::{Kind, Network};
use super::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// The share of the squares of what is off that may be left: where roundings are as coarse as a fault, near is not enough.
const LEFT: f64 = 0.1;

/// How often rounding on the way may leave what one rounding of a row may.
const SEVERAL: f64 = 2.0;

/// The share of what is off that a function explains which holds in one of sixteen channels, about.
const LEAST: f64 = 0.02;

/// Functions that are tried in parts, those first that explain the most.
const TRIED: usize = 12;

/// Networks of one or two kinds, and what is off behind them.
struct Gated<'a, 'b, 'c> {
    bench: &'a Bench<'b, 'c>,
    /// The site's rows that are looked at.
    rows: Vec<usize>,
    /// Whether each is off.
    is_off: Vec<bool>,
    /// The candidate's values less its twin's in those that are off, and 0 in the others.
    apart: Array2<f64>,
    networks: Vec<Network>,
    which: &'static [Kind],
}

/// What explains all that is off.
struct Found {
    said: String,
    /// By how much it changes each row that is looked at.
    by: Array2<f64>,
}

/// What networks do.
pub(super) struct OfNetworks {
    pub(super) solution: Solution,
    /// Whether it changes no row that is right.
    pub(super) is_everywhere: bool,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<OfNetworks>, Failure> {
    let off: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    if off.is_empty() {
        return Ok(None);
    }
    for which in Kind::sets(bench) {
        let rows = network::within_budget(bench, which, &off);
        let Some(networks) = network::all(bench, which, &rows)? else { continue };
        let is_off: Vec<bool> = rows.iter().map(|row| off.contains(row)).collect();
        let apart = (&bench.candidate - &bench.twin.computed).select(Axis(0), &rows);
        let gated = Gated { bench, rows, is_off, apart, networks, which };
        let gated = Gated { apart: gated.where_off(gated.apart.clone()), ..gated };
        if let Some(found) = gated.found()? {
            return Ok(Some(gated.told(found)));
        }
    }
    Ok(None)
}

impl Gated<'_, '_, '_> {
    /// What explains all rows that are off: another function, the same in some experts or channels, or input channels that are left
    /// out; of several, what reproduces the most values.
    fn found(&self) -> Result<Option<Found>, Failure> {
        let right: Vec<Array2<f64>> =
            self.networks.iter().map(|own| own.activated(self.bench)).collect::<Result<_, _>>()?;
        let functions = functions::all(self.bench.config().swiglu_oai);
        let mut found = Vec::new();
        let mut near = Vec::new();
        for function in &functions {
            let deltas = self.deltas(function, &right);
            let by = self.sum(&deltas, |_| true);
            let explained = self.explained(&by);
            if self.holds(&by) {
                found.push(Found { said: self.said(&function.said, None, None), by });
            } else if explained > LEAST {
                near.push((explained, function, deltas));
            }
        }
        if found.is_empty() {
            found.extend(self.of_numbers(&right));
        }
        if found.is_empty() {
            found.extend(self.of_two(&right).or_else(|| self.of_outputs(&right)));
        }
        if found.is_empty() {
            near.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
            for (_, function, deltas) in near.iter().take(TRIED) {
                found.extend(self.of_some_experts(function, deltas));
                found.extend(self.of_some_channels(function, deltas));
            }
        }
        if found.is_empty() {
            found.extend(self.of_layouts(&right)?);
        }
        if found.is_empty() {
            found.extend(self.of_spans(&right)?);
        }
        let equal = |own: &Found| self.bench.equal(&self.bench.stored(&self.values(&own.by))).equal;
        Ok(found
            .into_iter()
            .map(|own| (equal(&own), own))
            .reduce(|a, b| if b.0 > a.0 { b } else { a })
            .map(|(_, own)| own))
    }

    /// A function with a number of its own, by the number that comes nearest.
    fn of_numbers(&self, right: &[Array2<f64>]) -> Option<Found> {
        let off = |function: &Function| {
            let left = &self.apart - &self.where_off(self.sum(&self.deltas(function, right), |_| true));
            left.iter().map(|x| x * x).sum::<f64>()
        };
        let all = families::all(self.bench.config().swiglu_oai);
        all.iter()
            .map(|family| family.nearest(off))
            .map(|function| {
                let by = self.sum(&self.deltas(&function, right), |_| true);
                Found { said: self.said(&function.said, None, None), by }
            })
            .find(|found| self.holds(&found.by))
    }

    /// What a function makes otherwise of each network's hidden values.
    fn deltas(&self, function: &Function, right: &[Array2<f64>]) -> Vec<Array2<f64>> {
        self.networks.iter().zip(right).map(|(own, right)| function.of(own, right) - right).collect()
    }

    /// What hidden values add to each row, of some networks.
    fn sum(&self, hidden: &[Array2<f64>], is_in: impl Fn(&Network) -> bool) -> Array2<f64> {
        let mut by = Array2::zeros(self.apart.dim());
        let each = self.networks.iter().zip(hidden).filter(|(own, _)| is_in(own));
        each.for_each(|(own, hidden)| own.add(&mut by, hidden));
        by
    }

    /// Values in rows that are off, and 0 in the others.
    fn where_off(&self, mut values: Array2<f64>) -> Array2<f64> {
        let right = values.rows_mut().into_iter().zip(&self.is_off).filter(|(_, is_off)| !**is_off);
        right.for_each(|(mut row, _)| row.fill(0.0));
        values
    }

    /// The share of the squares of what is off that a multiple of it explains.
    fn explained(&self, by: &Array2<f64>) -> f64 {
        let by = self.where_off(by.clone());
        let product = |a: &Array2<f64>, b: &Array2<f64>| -> f64 { (a * b).sum() };
        let (size, total) = (product(&by, &by), product(&self.apart, &self.apart));
        let along = product(&by, &self.apart);
        if size > 0.0 && along > 0.0 { along * along / size / total } else { 0.0 }
    }

    /// Whether all rows that are off are so by so much, within what rounds on the way.
    fn holds(&self, by: &Array2<f64>) -> bool {
        let left = &self.apart - &self.where_off(by.clone());
        let is = |i: usize| self.is_small(i, by, left.row(i));
        self.comes_near(by) && (0..self.rows.len()).filter(|i| self.is_off[*i]).all(is)
    }

    /// Whether most of the squares of what is off is gone: of what rounds, some values go the other way.
    fn comes_near(&self, by: &Array2<f64>) -> bool {
        let squares = |values: &Array2<f64>| values.iter().map(|x| x * x).sum::<f64>();
        let left = &self.apart - &self.where_off(by.clone());
        squares(&left) <= LEFT * squares(&self.apart)
    }

    /// Whether what is left of a row is no more than roundings of what it has, or is changed by.
    fn is_small(&self, i: usize, by: &Array2<f64>, left: ArrayView1<'_, f64>) -> bool {
        let (own, by) = (self.bench.candidate.row(self.rows[i]), by.row(i));
        let size = own.dot(&own).max(by.dot(&by)).sqrt();
        left.dot(&left).sqrt() <= SEVERAL * self.bench.rounding() * size
    }

    /// Whether it changes no row that is not off, and all were looked at.
    fn is_everywhere(&self, by: &Array2<f64>) -> bool {
        let mut right = (0..self.rows.len()).filter(|i| !self.is_off[*i]);
        self.rows.len() == self.bench.candidate.nrows() && right.all(|i| self.is_small(i, by, by.row(i)))
    }

    /// The site's values under it.
    fn values(&self, by: &Array2<f64>) -> Array2<f64> {
        let mut values = self.bench.ideal.clone();
        let by = if self.is_everywhere(by) { by.clone() } else { self.where_off(by.clone()) };
        self.rows.iter().zip(by.rows()).for_each(|(row, by)| values.row_mut(*row).scaled_add(1.0, &by));
        values
    }

    /// What some networks do, in some hidden channels, if not in all.
    fn said(&self, what: &str, experts: Option<&[usize]>, channels: Option<(&[usize], usize)>) -> String {
        let (which, are_several) = match experts {
            Some([expert]) => (format!("expert {expert}"), false),
            Some(experts) => (format!("experts {}", listed::ranges(experts)), true),
            None => (Kind::all_of(self.which, &self.networks), self.which.len() > 1),
        };
        let verb = what.split_once(' ').map_or(what.to_owned(), |(verb, rest)| {
            if are_several { format!("{} {rest}", verb.trim_end_matches('s')) } else { what.to_owned() }
        });
        let place = channels.map(|(own, all)| format!(", in hidden channels {} of {all}", listed::ranges(own)));
        format!("{which} {verb}{}", place.unwrap_or_default())
    }

    fn told(&self, found: Found) -> OfNetworks {
        let off: Vec<usize> = self.rows.iter().zip(&self.is_off).filter(|(_, is)| **is).map(|(row, _)| *row).collect();
        let is_everywhere = self.is_everywhere(&found.by);
        let place = if is_everywhere {
            String::new()
        } else {
            format!("in {}: ", listed::rows(self.bench, &off).trim_end_matches(','))
        };
        let solution = Solution::new(vec![format!("{place}{}", found.said)], self.values(&found.by));
        OfNetworks { solution, is_everywhere }
    }
}
