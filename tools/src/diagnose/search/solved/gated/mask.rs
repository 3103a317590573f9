//! A function in some experts, or in some hidden channels, alone.
//!
//! ```text
//! yᵢ − ŷᵢ = Σₖ mₖ·bᵢₖ        by least squares for m, which is then 0 or 1
//! ```
//!
//! with bᵢₖ what the function changes row i by in expert k, or in channel k of all networks. Channels that are left out may be
//! summed twice instead: then m is −1.

use ndarray::{Array1, Array2, s};

use super::functions::Function;
use super::{Found, Gated};
use crate::diagnose::search::solved::{least_squares, listed};

/// How far m may be from a whole number.
const WHOLE: f64 = 0.25;

/// Multiplications that are spent on channels that are solved for: some seconds of a processor.
const BUDGET: usize = 4_000_000_000;

/// Of the largest part, the size below which one has no influence.
const NONE: f64 = 1e-6;

impl Gated<'_, '_, '_> {
    /// Experts in which alone it holds.
    pub(super) fn of_some_experts(&self, function: &Function, deltas: &[Array2<f64>]) -> Option<Found> {
        let experts: Vec<usize> = self.networks.iter().filter_map(|own| own.expert).collect();
        if experts.len() < self.networks.len() || experts.len() < 2 {
            return None;
        }
        let parts: Vec<Array1<f64>> = experts
            .iter()
            .map(|expert| self.where_off(self.sum(deltas, |own| own.expert == Some(*expert))).into_iter().collect())
            .collect();
        let m = self.solved(&parts)?;
        let chosen: Vec<usize> = (0..experts.len()).filter(|i| (m[*i] - 1.0).abs() <= WHOLE).collect();
        let is_mask = m.iter().all(|m| m.abs() <= WHOLE || (m - 1.0).abs() <= WHOLE);
        let of: Vec<usize> = chosen.iter().map(|i| experts[*i]).collect();
        if !is_mask || of.is_empty() || of.len() == experts.len() {
            return None;
        }
        let by = self.sum(deltas, |own| own.expert.is_some_and(|expert| of.contains(&expert)));
        self.holds(&by).then(|| Found { said: self.said(&function.said, Some(&of), None), by })
    }

    /// Hidden channels in which alone it holds.
    pub(super) fn of_some_channels(&self, function: &Function, deltas: &[Array2<f64>]) -> Option<Found> {
        let width = deltas.first()?.ncols();
        let equations = self.is_off.iter().filter(|is| **is).count() * self.apart.ncols();
        let is_alike = deltas.iter().all(|own| own.ncols() == width);
        if !is_alike || equations <= 2 * width || equations * width * width > BUDGET {
            return None;
        }
        let mut parts = vec![Array2::zeros(self.apart.dim()); width];
        for (own, delta) in self.networks.iter().zip(deltas) {
            for ((row, counts), hidden) in own.rows.iter().zip(delta.rows()) {
                for (channel, part) in parts.iter_mut().enumerate() {
                    part.row_mut(*row).scaled_add(counts * hidden[channel], &own.down.column(channel));
                }
            }
        }
        let parts: Vec<Array1<f64>> =
            parts.into_iter().map(|part| self.where_off(part).into_iter().collect()).collect();
        let m = self.solved(&parts)?;
        let value = if function.is_nothing() && m.iter().any(|m| (m + 1.0).abs() <= WHOLE) { -1.0 } else { 1.0 };
        let chosen: Vec<usize> = (0..width).filter(|channel| (m[*channel] - value).abs() <= WHOLE).collect();
        let is_mask = m.iter().all(|m| m.abs() <= WHOLE || (m - value).abs() <= WHOLE);
        if !is_mask || chosen.is_empty() || chosen.len() == width {
            return None;
        }
        let mut masked = deltas.to_vec();
        for hidden in &mut masked {
            for channel in 0..width {
                let times = if chosen.contains(&channel) { value } else { 0.0 };
                hidden.slice_mut(s![.., channel]).mapv_inplace(|h| times * h);
            }
        }
        let by = self.sum(&masked, |_| true);
        if !self.holds(&by) {
            return None;
        }
        let said = if function.is_nothing() {
            let how = if value > 0.0 { "leaves out" } else { "sums twice" };
            self.said(&format!("{how} hidden channels {} of {width}", listed::ranges(&chosen)), None, None)
        } else {
            self.said(&function.said, None, Some((&chosen, width)))
        };
        Some(Found { said, by })
    }

    /// m by least squares; what has next to no influence has none.
    fn solved(&self, parts: &[Array1<f64>]) -> Option<Vec<f64>> {
        let sizes: Vec<f64> = parts.iter().map(|part| part.dot(part)).collect();
        let most = sizes.iter().copied().fold(0.0, f64::max);
        let used: Vec<usize> = (0..parts.len()).filter(|i| sizes[*i] > NONE * most).collect();
        let columns = Array2::from_shape_fn((self.apart.len(), used.len()), |(i, k)| parts[used[k]][i]);
        let apart: Array1<f64> = self.apart.iter().copied().collect();
        let found = least_squares::solve(columns.view(), apart.view())?;
        let mut m = vec![0.0; parts.len()];
        used.iter().zip(found.x).for_each(|(i, x)| m[*i] = x);
        Some(m)
    }
}
