//! A sum that is made in fewer bits, of summands that are rounded to them.
//!
//! ```text
//! y = r(Σₖ q(pₖ))        solved for q, and for r, which is q or nothing
//! ```

use ndarray::Array2;
use reference::Storage;

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// The share of values that are the candidate's bit for bit, at least: of summands that are not shown, some are rounded otherwise.
const MOST: f64 = 0.9;

/// The share of them that the twin may have without it.
const WITHOUT: f64 = 0.5;

/// Of several ways that which reproduces the most.
pub(super) fn solve(bench: &Bench<'_, '_>, summands: &[&Array2<f64>]) -> Option<Solution> {
    let count = bench.candidate.len() as f64;
    if bench.equal(&bench.twin.computed).equal as f64 > WITHOUT * count {
        return None;
    }
    let ways = [(true, true), (true, false), (false, true)];
    let all = [Storage::Bf16, Storage::F16].into_iter().flat_map(|to| ways.map(|way| (to, way)));
    let of = |(to, (of_each, of_sum)): (Storage, (bool, bool))| {
        let round = |is: bool| move |x: f64| if is { to.nearest(x) } else { x };
        let none = Array2::<f64>::zeros(bench.candidate.dim());
        let sum = summands.iter().fold(none, |sum, own| sum + own.mapv(round(of_each)));
        let values = sum.mapv(round(of_sum));
        let what = match (of_each, of_sum) {
            (true, true) => "what is added and the sum are",
            (true, false) => "what is added is",
            _ => "the sum is",
        };
        (bench.equal(&bench.stored(&values)).equal, format!("{what} rounded to {to}"), values)
    };
    let (equal, said, values) = all.into_iter().map(of).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    (equal as f64 >= MOST * count).then(|| Solution::new(vec![said], values))
}
