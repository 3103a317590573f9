//! Rows of an operator's output that a port never writes, heads that it takes from another's place, and all heads as they lie where
//! it does not transpose them.

use super::decoder::Decoder;
use crate::semantics::Written;
use crate::{Real, Tracked};

impl Decoder<'_> {
    /// An operator's output, of a call that begins at a position, without the rows that are never written.
    pub(super) fn written<T: Real>(&self, of: Written, first: usize, mut x: Tracked<T>) -> Tracked<T> {
        if let Some(unwritten) = self.semantics().unwritten.filter(|unwritten| unwritten.of == of) {
            (0..x.dim().0).filter(|row| unwritten.has(first + row)).for_each(|row| x.clear(row));
        }
        x
    }

    /// Queries, keys and values of a call as they are cut into heads.
    pub(super) fn as_viewed<T: Real>(&self, projected: [Tracked<T>; 3]) -> [Tracked<T>; 3] {
        let [of_queries, of_keys, of_values] = self.semantics().heads_viewed.has();
        let [q, k, v] = projected;
        let one = |x: Tracked<T>, is_viewed: bool| {
            let heads = x.dim().1 / self.config().head_dim;
            if is_viewed { self.exchanged(&x, heads) } else { x }
        };
        [one(q, of_queries), one(k, of_keys), one(v, of_values)]
    }

    /// Heads of d channels, of which those in a row of so many come to stand in a column.
    fn exchanged<T: Real>(&self, x: &Tracked<T>, row: usize) -> Tracked<T> {
        let d = self.config().head_dim;
        let count = x.dim().0 * x.dim().1 / d;
        x.with_blocks(d, &(0..count).map(|block| block % row * (count / row) + block / row).collect::<Vec<_>>())
    }

    /// Attention's context of a call that begins at a position, as the output projection reads it.
    pub(super) fn context_as_written<T: Real>(&self, first: usize, x: Tracked<T>) -> Tracked<T> {
        let x = self.written(Written::Context, first, x);
        let x = if self.semantics().heads_viewed.has_context() { self.exchanged(&x, x.dim().0) } else { x };
        let Some(shared) = self.semantics().shared_head else { return x };
        let (d, columns) = (self.config().head_dim, x.dim().1);
        x.with_columns(&(0..columns).map(|column| shared.source(column, d, columns)).collect::<Vec<_>>())
    }
}
