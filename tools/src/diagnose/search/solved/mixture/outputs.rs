//! Experts whose outputs are put in each other's rows, as where those of one, one after the other, go back in another order.
//!
//! ```text
//! yᵢ = Σₛ w·E(cᵢₛ, xⱼ)        with j the token before or behind i among those of expert cᵢₛ, and w its own weight or that of j
//! yᵢ − ŷᵢ = wᵢₑ·(E(e, xⱼ) − E(e, xᵢ))        of one expert e; solved for j, another of its tokens
//! ```

use ndarray::{Array1, Array2};

use super::Mixture;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

impl Mixture<'_, '_, '_> {
    /// What follows from `each` expert's output of every token, if that explains all tokens that are off.
    pub(super) fn of_other_outputs(&self, each: &[Array2<f64>], off: &[usize]) -> Option<Solution> {
        self.of_neighbours(each, off).or_else(|| self.of_one_expert(each, off))
    }

    /// Of the one expert that all tokens that are off have in common, each has the output of another token.
    fn of_one_expert(&self, each: &[Array2<f64>], off: &[usize]) -> Option<Solution> {
        let weight = |token: usize, expert: usize| {
            let mut own = self.chosen.row(token).into_iter().zip(self.weights.row(token));
            own.find(|(own, _)| **own == expert).map(|(_, weight)| self.scale * weight)
        };
        let mut common = (0..each.len()).filter(|expert| off.iter().all(|token| weight(*token, *expert).is_some()));
        common.find_map(|expert| {
            let outputs = &each[expert];
            let by = |token: usize, other: usize| -> Array1<f64> {
                (&outputs.row(other) - &outputs.row(token)) * weight(token, expert).unwrap_or_default()
            };
            let is = |token: usize, other: usize| weight(other, expert).is_some() && self.is(token, &by(token, other));
            let others = listed::find_others(off, outputs.nrows(), is)?;
            let mut values = self.bench.ideal.clone();
            off.iter()
                .zip(&others)
                .for_each(|(token, other)| values.row_mut(*token).scaled_add(1.0, &by(*token, *other)));
            let rows = listed::rows(self.bench, off);
            let said = format!(
                "in {}: what expert {expert} gives is that {}",
                rows.trim_end_matches(','),
                listed::others(off, &others)
            );
            Some(Solution::new(vec![said], values))
        })
    }

    /// Of each expert's outputs, one after the other, a token has its neighbour's.
    fn of_neighbours(&self, each: &[Array2<f64>], off: &[usize]) -> Option<Solution> {
        let mut tokens: Vec<Vec<(usize, f64)>> = vec![Vec::new(); each.len()];
        for ((token, slot), &expert) in self.chosen.indexed_iter() {
            tokens[expert].push((token, self.weights[[token, slot]]));
        }
        let all = [(-1, "before"), (1, "behind")].into_iter().flat_map(|side| [(side, false), (side, true)]);
        all.into_iter().find_map(|((by, side), is_weighed)| {
            let mut more = Array2::zeros(self.apart.dim());
            for (own, outputs) in tokens.iter().zip(each) {
                for (rank, (token, weight)) in own.iter().enumerate() {
                    let (other, of_other) =
                        own[(rank.cast_signed() + by).rem_euclid(own.len().cast_signed()).cast_unsigned()];
                    let counts = if is_weighed { of_other } else { *weight };
                    let mut row = more.row_mut(*token);
                    row.scaled_add(self.scale * counts, &outputs.row(other));
                    row.scaled_add(-self.scale * weight, &outputs.row(*token));
                }
            }
            off.iter().all(|token| self.is(*token, &more.row(*token).to_owned())).then(|| {
                let what = if is_weighed { "output and weight" } else { "output" };
                let said =
                    format!("of each expert, a token has the {what} of the one {side} it among the expert's tokens");
                Solution::new(vec![said], &self.bench.ideal + &more)
            })
        })
    }
}
