//! Attention tile by tile, in an order that is fixed: each tile of keys by itself, then the tiles of a group merged upward,
//! then the groups. Scores are exponents of 2, and what is merged is brought to the larger of two largest scores.

use std::ops::Range;

use ndarray::{Array1, ArrayView1, ArrayView2, Axis, s};

use super::Attention;
use crate::Real;
use crate::order::{Order, Tiles};

/// Largest score, sum of weights and weighted sum of values, of some keys.
struct Part<T> {
    largest: T,
    sum: T,
    values: Array1<T>,
}

impl Attention {
    /// o of one query over runs of keys, each cut into tiles of its own.
    pub(in crate::ops) fn over_tiles<T: Real>(
        &self,
        tiles: Tiles,
        q: ArrayView1<'_, T>,
        [k, v]: [ArrayView2<'_, T>; 2],
        keys: impl Iterator<Item = Range<usize>>,
    ) -> Array1<T> {
        let cut: Vec<Range<usize>> = keys.flat_map(|run| pieces(run, tiles.keys)).collect();
        let group = |group: &[Range<usize>]| group.iter().map(|tile| self.tile(tiles, q, [k, v], tile)).reduce(merged);
        let total = cut.chunks(tiles.group).filter_map(group).reduce(merged).expect("a query sees a key");
        total.values.mapv(|value| self.output.round(value / total.sum)) // R3
    }

    /// One tile. The sum is of weights that are not rounded.
    fn tile<T: Real>(
        &self,
        tiles: Tiles,
        q: ArrayView1<'_, T>,
        [k, v]: [ArrayView2<'_, T>; 2],
        tile: &Range<usize>,
    ) -> Part<T> {
        let keys = s![tile.clone(), ..];
        let scores = self.product(q.insert_axis(Axis(0)), k.slice(keys).reversed_axes());
        let scores = scores.mapv_into(|score| score * T::of(self.exponent_of_2()));
        let largest = scores.iter().copied().fold(T::neg_infinity(), T::max);
        let weights = scores.mapv_into(|score| (score - largest).map_once(f64::exp2));
        let sum = Order::Lanes(tiles.weights).sum(tile.len(), |sum: T, j| sum + weights[[0, j]]);
        let rounded = weights.mapv_into(|weight| self.probabilities.round(weight)); // R2
        let values = self.product(rounded.view(), v.slice(keys)).remove_axis(Axis(0));
        Part { largest, sum, values }
    }
}

/// A total with a part that follows it.
fn merged<T: Real>(total: Part<T>, part: Part<T>) -> Part<T> {
    let largest = total.largest.max(part.largest);
    let share = |of: T| (of - largest).map_once(f64::exp2);
    let (of_total, of_part) = (share(total.largest), share(part.largest));
    let both = |total: T, part: T| total.mul_add(of_total, part * of_part);
    let mut values = total.values;
    values.zip_mut_with(&part.values, |total, &part| *total = both(*total, part));
    Part { largest, sum: both(total.sum, part.sum), values }
}

/// A run in pieces of a length, from its start on.
pub(in crate::ops) fn pieces(run: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    run.clone().step_by(length).map(move |first| first..(first + length).min(run.end))
}
