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
        let d = self.config().head_dim;
        let viewed = |x: Tracked<T>| {
            let (tokens, heads) = (x.dim().0, x.dim().1 / d);
            let of_head = |block: usize| block % heads * tokens + block / heads;
            x.with_blocks(d, &(0..tokens * heads).map(of_head).collect::<Vec<_>>())
        };
        let [of_queries, of_keys, of_values] = self.semantics().heads_viewed.has();
        let [q, k, v] = projected;
        let one = |x: Tracked<T>, is_viewed: bool| if is_viewed { viewed(x) } else { x };
        [one(q, of_queries), one(k, of_keys), one(v, of_values)]
    }

    /// Attention's context of a call that begins at a position, as the output projection reads it.
    pub(super) fn context_as_written<T: Real>(&self, first: usize, x: Tracked<T>) -> Tracked<T> {
        let x = self.written(Written::Context, first, x);
        let (d, columns) = (self.config().head_dim, x.dim().1);
        let x = if self.semantics().heads_viewed.has_context() {
            let (tokens, heads) = (x.dim().0, columns / d);
            let of_token = |block: usize| block % tokens * heads + block / tokens;
            x.with_blocks(d, &(0..tokens * heads).map(of_token).collect::<Vec<_>>())
        } else {
            x
        };
        let Some(shared) = self.semantics().shared_head else { return x };
        x.with_columns(&(0..columns).map(|column| shared.source(column, d, columns)).collect::<Vec<_>>())
    }
}
