//! Experts whose outputs are put in each other's rows, as where those of one, one after the other, go back in another order.
//!
//! ```text
//! yᵢ = Σₛ w·E(cᵢₛ, xⱼ)        with j the token before or behind i among those of expert cᵢₛ, and w its own weight or that of j
//! yᵢ = Σₛ oₖᵢ₊ₛ                with o all k·n outputs one expert after the other, as they were computed, and not put back
//! yᵢ = Σₛ w·(E(cᵢₛ, xᵢ) + E(cᵢₛ, xⱼ) + …)        j so many before i among the tokens of expert cᵢₛ; solved for how many
//! yᵢ − ŷᵢ = wᵢₑ·(E(e, xⱼ) − E(e, xᵢ))        of one expert e; solved for j, another of its tokens
//! ```

use ndarray::{Array1, Array2};

use super::Mixture;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// Rows of an accumulator that is used again.
const TILES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

impl Mixture<'_, '_, '_> {
    /// What follows from `each` expert's output of every token, if that explains all tokens that are off.
    pub(super) fn of_other_outputs(&self, each: &[Array2<f64>], off: &[usize]) -> Option<Solution> {
        self.of_neighbours(each, off)
            .or_else(|| self.in_order_of_experts(each))
            .or_else(|| self.of_earlier_tiles(each))
            .or_else(|| self.of_one_expert(each, off))
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

    /// Each expert's tokens, with their weights.
    fn tokens(&self, experts: usize) -> Vec<Vec<(usize, f64)>> {
        let mut tokens = vec![Vec::new(); experts];
        for ((token, slot), &expert) in self.chosen.indexed_iter() {
            tokens[expert].push((token, self.weights[[token, slot]]));
        }
        tokens
    }

    /// Outputs stay in the order of their experts, of which each token has as many as it has chosen: weighed by their own weights, or
    /// by those of the token that has them.
    fn in_order_of_experts(&self, each: &[Array2<f64>]) -> Option<Solution> {
        let k = self.chosen.ncols();
        let ways =
            [(true, "with their weights"), (false, "and are multiplied by the weights of the token that has them")];
        ways.into_iter().find_map(|(is_weighed, how)| {
            let mut sum = Array2::zeros(self.apart.dim());
            let sorted = self.tokens(each.len()).into_iter().zip(each).flat_map(|(own, outputs)| {
                own.into_iter().map(move |(token, weight)| (outputs.row(token), weight))
            });
            for (place, (output, weight)) in sorted.enumerate() {
                let weight = if is_weighed { weight } else { self.weights[[place / k, place % k]] };
                sum.row_mut(place / k).scaled_add(self.scale * weight, &output);
            }
            let more = sum - self.routed(each);
            let said = format!(
                "experts' outputs stay in the order of experts, {how}: each token has the next {k}, and none is put back in its place"
            );
            self.if_all(&more, said)
        })
    }

    /// Each token of an expert also has the output of the one so many before it, or of all that are so many further apart, as where an
    /// accumulator is not made 0 between tiles of rows.
    fn of_earlier_tiles(&self, each: &[Array2<f64>]) -> Option<Solution> {
        let tokens = self.tokens(each.len());
        let ways = TILES.into_iter().flat_map(|tile| [(tile, true), (tile, false)]);
        ways.into_iter().find_map(|(tile, is_of_all)| {
            let mut more = Array2::zeros(self.apart.dim());
            for (own, outputs) in tokens.iter().zip(each) {
                for (rank, (token, weight)) in own.iter().enumerate() {
                    let before = (1..=rank / tile).take(if is_of_all { rank } else { 1 });
                    for (other, _) in before.map(|tiles| own[rank - tiles * tile]) {
                        more.row_mut(*token).scaled_add(self.scale * weight, &outputs.row(other));
                    }
                }
            }
            let which = if is_of_all { "those of all tiles" } else { "that of the tile" };
            let said = format!(
                "to a token's output of an expert {which} of {tile} rows before it is added, row by row: an accumulator is not made 0"
            );
            self.if_all(&more, said)
        })
    }

    /// The sum as it should be.
    fn routed(&self, each: &[Array2<f64>]) -> Array2<f64> {
        let mut sum = Array2::zeros(self.apart.dim());
        for ((token, slot), &expert) in self.chosen.indexed_iter() {
            let weight = self.scale * self.weights[[token, slot]];
            sum.row_mut(token).scaled_add(weight, &each[expert].row(token));
        }
        sum
    }

    /// What is said where all tokens are off by so much, those that are right by nothing.
    fn if_all(&self, more: &Array2<f64>, said: String) -> Option<Solution> {
        let is = |token: usize| self.is(token, &more.row(token).to_owned());
        (0..more.nrows()).all(is).then(|| Solution::new(vec![said], &self.bench.ideal + more))
    }

    /// Of each expert's outputs, one after the other, a token has its neighbour's.
    fn of_neighbours(&self, each: &[Array2<f64>], off: &[usize]) -> Option<Solution> {
        let tokens = self.tokens(each.len());
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
