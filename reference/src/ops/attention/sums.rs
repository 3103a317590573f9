//! The sums of attention: of products, in their order, and of weights.

use std::ops::Range;
use std::slice;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};

use super::Attention;
use crate::accumulator::Accumulator;
use crate::{Real, Rounding};

impl Attention {
    /// Σⱼ wⱼ·vⱼ for rows of weights of queries from `position` on. What a query does not see has no weight, but 0·∞ is NaN:
    /// it must be left out where it is not finite.
    pub(super) fn weighted<T: Real>(&self, w: ArrayView2<'_, T>, v: ArrayView2<'_, T>, position: usize) -> Array2<T> {
        let (rows, keys) = w.dim();
        let seen = |i: usize| self.seen(position + i, v.nrows()).min(keys);
        let unseen = (0..rows).map(seen).min().unwrap_or(keys);
        if v.slice(s![unseen..keys, ..]).iter().all(|v| v.is_finite()) {
            return self.product(w, v.slice(s![..keys, ..]));
        }
        let mut y = Array2::zeros((rows, v.ncols()));
        for (i, row) in y.axis_chunks_iter_mut(Axis(0), 1).enumerate() {
            self.product(w.slice(s![i..=i, ..seen(i)]), v.slice(s![..seen(i), ..])).assign_to(row);
        }
        y
    }

    /// Σⱼ exp(sⱼ)·vⱼ / Σⱼ exp(sⱼ) of rows of scores, key by key, in a running sum that is rounded at each step and rescaled where a
    /// score is the largest so far.
    pub(super) fn running<T: Real>(&self, scores: ArrayView2<'_, T>, values: ArrayView2<'_, T>) -> Array2<T> {
        let kept = Rounding { storage: self.sum, mode: self.mode };
        let mut y = Array2::zeros((scores.nrows(), values.ncols()));
        for (row, mut y) in scores.rows().into_iter().zip(y.rows_mut()) {
            let (mut top, mut total) = (T::neg_infinity(), T::zero());
            let seen = row.iter().zip(values.rows()).filter(|(score, _)| **score != T::neg_infinity());
            for (&score, value) in seen {
                if score > top {
                    let rescale = (top - score).exp();
                    y.mapv_inplace(|y| kept.round(y * rescale)); // R4
                    (top, total) = (score, total * rescale);
                }
                let weight = (score - top).exp();
                y.zip_mut_with(&value, |y, &v| *y = kept.round(*y + weight * v)); // R4
                total += weight;
            }
            if let Some(sink) = self.sink {
                total += (T::of(sink) - top).exp();
            }
            y.mapv_inplace(|y| y / total);
        }
        y
    }

    /// a·b in its order, with the sums' errors drawn in a stochastic run.
    pub(in crate::ops) fn product<T: Real>(&self, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
        let any = || self.product_with(a, b, slice::from_ref(&(0..b.nrows())));
        self.products.product(a, b).unwrap_or_else(any)
    }

    /// a·b with those rows of b that are in `runs`, for each of which a has a column.
    pub(in crate::ops) fn product_with<T: Real>(
        &self,
        a: ArrayView2<'_, T>,
        b: ArrayView2<'_, T>,
        runs: &[Range<usize>],
    ) -> Array2<T> {
        let draws = self.mode.draws() && self.accumulator != Accumulator::F64;
        let mut y = Array2::zeros((a.nrows(), b.ncols()));
        let mut squares = Array2::zeros(if draws { y.dim() } else { (0, 0) });
        let mut first = 0;
        for run in runs {
            let (a, b) = (a.slice(s![.., first..first + run.len()]), b.slice(s![run.clone(), ..]));
            general_mat_mul(T::one(), &a, &b, T::one(), &mut y);
            if draws {
                general_mat_mul(T::one(), &a.mapv(|x| x * x), &b.mapv(|x| x * x), T::one(), &mut squares);
            }
            first += run.len();
        }
        if draws {
            y.zip_mut_with(&squares, |y, &squares| *y = self.accumulator.drawn(self.mode, a.ncols(), squares, *y));
        }
        y
    }

    /// Σ of a row, in a few sums side by side. Zeros after it change nothing, not even the order: what a token does not see.
    pub(super) fn total<T: Real>(row: ArrayView1<'_, T>) -> T {
        let mut sums = [T::zero(); 8];
        for part in row.to_slice().expect("rows of a new array are contiguous").chunks(sums.len()) {
            sums.iter_mut().zip(part).for_each(|(sum, &x)| *sum += x);
        }
        sums.into_iter().fold(T::zero(), |all, sum| all + sum)
    }
}
