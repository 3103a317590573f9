//! What the networks of a layer read.

use crate::Tracked;
use crate::semantics::NetworkInput;

/// What networks may read.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'x, T> {
    /// The norm of the stream behind attention.
    pub(super) normed: &'x Tracked<T>,
    /// That stream.
    pub(super) residual: &'x Tracked<T>,
    /// The stream before the layer.
    pub(super) layer: &'x Tracked<T>,
    /// The position that the call begins at.
    pub(super) first: usize,
}

impl<'x, T> Inputs<'x, T> {
    pub(super) fn of(self, input: NetworkInput) -> &'x Tracked<T> {
        match input {
            NetworkInput::Normed => self.normed,
            NetworkInput::Residual => self.residual,
            NetworkInput::LayerInput => self.layer,
        }
    }
}
