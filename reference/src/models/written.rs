//! Rows of an operator's output that a port never writes.

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
}
