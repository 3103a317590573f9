//! Rows of an operator's output that a port never writes, and heads that it takes from another's place.

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

    /// Attention's context of a call that begins at a position, as the output projection reads it.
    pub(super) fn context_as_written<T: Real>(&self, first: usize, x: Tracked<T>) -> Tracked<T> {
        let x = self.written(Written::Context, first, x);
        let Some(shared) = self.semantics().shared_head else { return x };
        let (d, columns) = (self.config().head_dim, x.dim().1);
        x.with_columns(&(0..columns).map(|column| shared.source(column, d, columns)).collect::<Vec<_>>())
    }
}
