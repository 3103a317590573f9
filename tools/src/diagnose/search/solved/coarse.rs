//! An operator's output that is rounded to fewer bits than it is stored in, as in a cache or a message of eight bits.
//!
//! ```text
//! y = q(ŷ)        solved for q among what activations may be rounded to
//! ```
//!
//! with y \[n, m\] the candidate's values and ŷ its twin's.

use ndarray::Zip;
use reference::Storage;
use reference::matrix::Matrix;

use super::solution::Solution;
use crate::diagnose::catalogue::grid::Grid;
use crate::diagnose::search::Bench;

/// The share of values that are the candidate's bit for bit, at least. What twins have otherwise, a coarser grid mostly hides.
const MOST: f64 = 0.8;

/// Roundings of f32 that sums in another order leave of a value.
const SUMS: f64 = 16.0;

/// The share of these that the twin may have without it.
const WITHOUT: f64 = 0.5;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let count = bench.candidate.len() as f64;
    if bench.equal(&bench.twin.computed).equal as f64 > WITHOUT * count {
        return None;
    }
    // Of those that a scale is made of, sums in another order are nearly, and not quite, the candidate's.
    let near = |own: f64, twin: f64| (own - twin).abs() <= SUMS * Storage::F32.unit_roundoff() * twin.abs();
    let twin = Zip::from(&bench.candidate).and(&bench.twin.computed);
    let twin = twin.map_collect(|own, twin| if near(*own, *twin) { *own } else { *twin });
    let twin = Matrix::stored(twin.view(), Storage::F32);
    let of = |grid: Grid| {
        let values = grid.round(&twin).dense::<f64>();
        (bench.equal(&bench.stored(&values)).equal, grid, values)
    };
    // Of equals, the first.
    let (equal, grid, values) = Grid::of_activations().map(of).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    (equal as f64 >= MOST * count).then(|| Solution::new(vec![format!("its values are rounded to {grid}")], values))
}
