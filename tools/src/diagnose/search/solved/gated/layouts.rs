//! Gate and up projection that are stacked in one way and read in another: as halves, or as blocks that alternate.
//!
//! ```text
//! f = [G₀; U₀; G₁; U₁; …]        read as [G; U], or the other way round; solved for the rows b of a block
//! ```

use ndarray::{Array2, Axis, concatenate};

use super::network::Network;
use super::{Found, Gated};
use crate::failure::Failure;

impl Gated<'_, '_, '_> {
    /// The layout that explains all that is off.
    pub(super) fn of_layouts(&self, right: &[Array2<f64>]) -> Result<Option<Found>, Failure> {
        let Some(width) = right.first().map(Array2::ncols) else { return Ok(None) };
        if right.iter().any(|own| own.ncols() != width) {
            return Ok(None);
        }
        for block in (1..width).filter(|block| width.is_multiple_of(*block)) {
            let ways = [
                ("reads as halves gate and up projections that are stacked", stored_alternately(width, block)),
                ("reads as stacked gate and up projections that are halves,", read_alternately(width, block)),
            ];
            for (what, order) in ways {
                let mut hidden = Vec::with_capacity(right.len());
                for (own, right) in self.networks.iter().zip(right) {
                    let both =
                        concatenate(Axis(1), &[own.gate.view(), own.up.view()]).expect("they have the same rows");
                    let read = both.select(Axis(1), &order);
                    let (gate, up) = read.view().split_at(Axis(1), width);
                    hidden.push(Network::activated_of(self.bench, &gate.to_owned(), &up.to_owned())? - right);
                }
                let by = self.sum(&hidden, |_| true);
                if self.holds(&by) {
                    let said = format!("{what} in turns of {block} of {width} rows");
                    return Ok(Some(Found { said: self.said(&said, None, None), by }));
                }
            }
        }
        Ok(None)
    }
}

/// Of two halves, the columns that are read as gate and up projection where blocks alternate that are taken for halves.
fn stored_alternately(width: usize, block: usize) -> Vec<usize> {
    let own = |k: usize| k / block % 2 * width + k / block / 2 * block + k % block;
    (0..2 * width).map(own).collect()
}

/// The same where halves are taken for blocks that alternate.
fn read_alternately(width: usize, block: usize) -> Vec<usize> {
    let own = |c: usize, is_up: usize| (2 * (c / block) + is_up) * block + c % block;
    [0, 1].into_iter().flat_map(|is_up| (0..width).map(move |c| own(c, is_up))).collect()
}
