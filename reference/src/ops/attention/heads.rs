//! Heads of queries, and of the keys and values that they read.

use ndarray::{Array2, ArrayView2, Axis, CowArray, Ix2, s};

use super::{Attention, BLOCK, Softmax};
use crate::Real;
use crate::parallel;

impl Attention {
    /// Each key head's columns for n tokens. Where several read them they are copied: neighbouring keys are then neighbours
    /// in memory.
    pub(in crate::ops) fn by_head<'x, T: Real>(&self, x: ArrayView2<'x, T>, n: usize) -> Vec<CowArray<'x, T, Ix2>> {
        let head = |head| {
            let own = self.head(x, head);
            if n == 1 { own.into() } else { own.as_standard_layout().into_owned().into() }
        };
        (0..self.key_heads).map(head).collect()
    }

    /// Calls `f` with each head, first query and block of the head's columns of `o`, which so many keys are seen for.
    pub(super) fn for_each_block<T: Send + Sync>(
        &self,
        o: &mut Array2<T>,
        keys: usize,
        f: impl Fn(usize, usize, ndarray::ArrayViewMut2<'_, T>) + Sync,
    ) {
        let multiplications = o.len() * keys;
        let heads = o.axis_chunks_iter_mut(Axis(1), self.head_dim).enumerate();
        parallel::for_each(heads, multiplications, |(head, mut columns)| {
            for (block, rows) in columns.axis_chunks_iter_mut(Axis(0), BLOCK).enumerate() {
                f(head, block * BLOCK, rows);
            }
        });
    }

    /// One row for each head and query, over all keys; `masked` beyond those that `f` gives.
    pub(super) fn rows_by_head<T: Real>(
        &self,
        q: ArrayView2<'_, T>,
        k: ArrayView2<'_, T>,
        masked: T,
        f: impl Fn(Softmax<T>) -> Array2<T> + Sync,
    ) -> Array2<T> {
        let n = q.nrows();
        let mut all = Array2::from_elem((self.query_heads * n, k.nrows()), masked);
        let multiplications = all.len() * self.head_dim;
        parallel::for_each(all.axis_chunks_iter_mut(Axis(0), n).enumerate(), multiplications, |(head, mut rows)| {
            let k = self.head(k, self.key_head(head));
            for (block, mut rows) in rows.axis_chunks_iter_mut(Axis(0), BLOCK).enumerate() {
                let part = f(self.softmax(q, k, head, block * BLOCK, rows.nrows()));
                rows.slice_mut(s![.., ..part.ncols()]).assign(&part);
            }
        });
        all
    }
}
