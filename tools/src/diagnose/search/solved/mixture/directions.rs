//! Few directions in which one expert's output is off, as where a matrix of low rank is added to its output projection.
//!
//! ```text
//! (yᵢ − ŷᵢ)/wᵢₑ = B·(A·hᵢ)        of the tokens i of expert e; solved for the rank of B·A
//! ```

use nalgebra::DMatrix;
use ndarray::Axis;

use super::Mixture;
use crate::diagnose::search::solved::directions::{ADAPTER, BIAS, of_rank};
use crate::diagnose::search::solved::solution::Solution;

/// Tokens at least, and how many of them there are for each direction.
const TOKENS: usize = 6;
const FEW: usize = 3;

/// How many times as large as the next singular value the last of those is that count.
const GAP: f64 = 16.0;

impl Mixture<'_, '_, '_> {
    /// Of the one expert that all tokens that are off have in common.
    pub(super) fn of_directions(&self, experts: usize, off: &[usize]) -> Option<Solution> {
        let weight = |token: usize, expert: usize| {
            let mut own = self.chosen.row(token).into_iter().zip(self.weights.row(token));
            own.find(|(own, _)| **own == expert).map(|(_, weight)| self.scale * weight)
        };
        let mut common = (0..experts).filter(|expert| off.iter().all(|token| weight(*token, *expert).is_some()));
        let (expert, None) = (common.next()?, common.next()) else { return None };
        let weights: Vec<f64> = off.iter().filter_map(|token| weight(*token, expert)).collect();
        let mut apart = self.apart.select(Axis(0), off);
        apart.rows_mut().into_iter().zip(&weights).for_each(|(mut row, weight)| row /= *weight);
        let (n, m) = apart.dim();
        let parts = DMatrix::from_row_iterator(n, m, apart.iter().copied()).svd(true, true);
        let sizes = &parts.singular_values;
        let rank =
            (1..=n.min(m) / FEW).find(|rank| sizes.get(*rank).is_none_or(|next| GAP * next < sizes[rank - 1]))?;
        if n < TOKENS {
            return None;
        }
        let more = of_rank(&parts, rank)?;
        let first = more.row(0);
        let is_same = more.rows().into_iter().all(|row| {
            let apart = &row - &first;
            GAP * apart.dot(&apart).sqrt() <= first.dot(&first).sqrt()
        });
        let said = if is_same {
            format!("to what expert {expert} gives, the same is added for each of its tokens: {BIAS}")
        } else {
            format!(
                "what is added to the output of expert {expert} lies in {rank} of {n} directions: down_proj has a matrix of rank \
                 {rank} more, {ADAPTER}"
            )
        };
        let mut values = self.bench.ideal.clone();
        let rows = off.iter().zip(more.rows()).zip(&weights);
        rows.for_each(|((token, more), weight)| values.row_mut(*token).scaled_add(*weight, &more));
        Some(Solution::new(vec![said], values))
    }
}
