//! Input channels that gate or up projections do not sum, as where the last part of a split sum is dropped.
//!
//! ```text
//! g′ = G·x − Σⱼ∈S Gⱼ·xⱼ        u′ = U·x − Σⱼ∈S Uⱼ·xⱼ        of both, or of one; solved for S, channels in a row
//! ```

use ndarray::{Array2, Axis, s};

use super::network::Network;
use super::{Found, Gated};
use crate::failure::Failure;

/// Parts of all channels that begin or end a span, at most, and channels that one has at least.
const PARTS: usize = 64;
const LEAST: usize = 4;

/// Which projections lack them.
const WAYS: [(&str, [bool; 2]); 3] =
    [("gate and up projection", [true, true]), ("the gate", [true, false]), ("the up projection", [false, true])];

impl Gated<'_, '_, '_> {
    /// The first or the last channels, or one part of them.
    pub(super) fn of_spans(&self, right: &[Array2<f64>]) -> Result<Option<Found>, Failure> {
        let all = self.bench.config().hidden_size;
        let each = all.div_ceil(PARTS).max(LEAST);
        let bounds: Vec<usize> = (0..all).step_by(each).chain([all]).collect();
        let count = bounds.len() - 1;
        // Of each network and part, what gate and up projection have of it.
        let mut parts: Vec<Vec<Array2<f64>>> = Vec::new();
        for own in &self.networks {
            let w = own.reads(self.bench)?;
            let of = |part: usize| {
                let channels = s![.., bounds[part]..bounds[part + 1]];
                own.x.slice(channels).dot(&w.slice(channels).t())
            };
            parts.push((0..count).map(of).collect());
        }
        let spans = (1..count).flat_map(|n| [(0, n), (n, count)]).chain((1..count - 1).map(|n| (n, n + 1)));
        let mut nearest: Option<(f64, Found)> = None;
        for (from, end) in spans {
            for (what, [of_gate, of_up]) in WAYS {
                let mut hidden = Vec::with_capacity(right.len());
                for ((own, right), parts) in self.networks.iter().zip(right).zip(&parts) {
                    let width = own.gate.ncols();
                    let mut lost = Array2::<f64>::zeros((own.x.nrows(), 2 * width));
                    parts[from..end].iter().for_each(|part| lost += part);
                    let (lost_gate, lost_up) = lost.view().split_at(Axis(1), width);
                    let gate = if of_gate { &own.gate - &lost_gate } else { own.gate.clone() };
                    let up = if of_up { &own.up - &lost_up } else { own.up.clone() };
                    hidden.push(Network::activated_of(self.bench, &gate, &up)? - right);
                }
                let by = self.sum(&hidden, |_| true);
                let left = (&self.apart - &self.where_off(by.clone())).mapv(|x| x * x).sum();
                if nearest.as_ref().is_none_or(|(least, _)| left < *least) {
                    let (first, last) = (bounds[from], bounds[end] - 1);
                    let said = format!("leaves input channels {first} to {last} of {all} out of {what}");
                    nearest = Some((left, Found { said: self.said(&said, None, None), by }));
                }
            }
        }
        Ok(nearest.map(|(_, found)| found).filter(|found| self.holds(&found.by)))
    }
}
