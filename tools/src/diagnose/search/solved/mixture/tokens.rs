//! Tokens that have others' inputs or routing in a sum of experts, as where an index of tokens is off.
//!
//! ```text
//! yᵢ = Σₛ wᵢₛ·E(cᵢₛ, xⱼ)        experts read another token's row; solved for j of each token i that is off
//! yᵢ = Σₛ wⱼₛ·E(cⱼₛ, xᵢ)        a token has another's experts and weights; solved alike
//! yᵢ = Σₛ wⱼₛ·E(cᵢₛ, xᵢ)        its weights alone
//! yᵢ = Σₛ wᵢₛ·E(cⱼₛ, xᵢ)        its experts alone
//! yᵢ = Σₛ q(wᵢₛ)·E(cᵢₛ, xᵢ)      weights are rounded; solved for q
//! ```

use std::collections::BTreeSet;

use ndarray::{Array1, Array2};
use reference::Storage;

use super::Mixture;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// How often rounding on the way may leave what one rounding of a row may.
const SEVERAL: f64 = 2.0;

/// The share of the squares of what is off that rounded weights leave, at most.
const ROUNDED: f64 = 0.01;

/// What is said of a way, what it adds to a token by another, and whether some of many tokens may fit it by chance: few weights, or
/// choices among few experts, are near another token's.
type Way<'a> = (&'a str, &'a dyn Fn(usize, usize) -> Array1<f64>, bool);

/// Whether tokens are one, or as many as places.
fn are_regular(tokens: &[usize]) -> bool {
    let different: BTreeSet<&usize> = tokens.iter().collect();
    different.len() == 1 || different.len() == tokens.len()
}

impl Mixture<'_, '_, '_> {
    /// What follows from `each` expert's output of every token, if that explains all tokens that are off.
    pub(super) fn of_other_tokens(&self, each: &[Array2<f64>]) -> Option<Solution> {
        let n = self.chosen.nrows();
        let off: Vec<usize> = (0..n).filter(|token| self.bench.row_is_off(*token)).collect();
        if off.is_empty() {
            return None;
        }
        let sum = |[chosen, weighed]: [usize; 2], read: usize| -> Array1<f64> {
            let mut sum = Array1::zeros(self.apart.ncols());
            for (expert, weight) in self.chosen.row(chosen).iter().zip(self.weights.row(weighed)) {
                sum.scaled_add(self.scale * weight, &each[*expert].row(read));
            }
            sum
        };
        let right = |token: usize| sum([token; 2], token);
        let inputs = |token: usize, other: usize| sum([token; 2], other) - right(token);
        let routing = |token: usize, other: usize| sum([other; 2], token) - right(token);
        let weights = |token: usize, other: usize| sum([token, other], token) - right(token);
        let experts = |token: usize, other: usize| sum([other, token], token) - right(token);
        let ways: [Way<'_>; 4] = [
            ("experts read the input", &inputs, false),
            ("tokens have the experts and weights", &routing, false),
            ("tokens have the routing weights, with their own experts,", &weights, true),
            ("tokens have the experts, with their own routing weights,", &experts, true),
        ];
        ways.iter()
            .find_map(|(what, way, by_chance)| {
                let others = listed::find_others(&off, n, |token, other| self.is(token, &way(token, other)))?;
                if *by_chance && !are_regular(&others) {
                    return None;
                }
                let mut values = self.bench.ideal.clone();
                off.iter()
                    .zip(&others)
                    .for_each(|(token, other)| values.row_mut(*token).scaled_add(1.0, &way(*token, *other)));
                let rows = listed::rows(self.bench, &off);
                let said = format!("in {}: {what} {}", rows.trim_end_matches(','), listed::others(&off, &others));
                Some(Solution::new(vec![said], values))
            })
            .or_else(|| self.of_other_outputs(each, &off))
            .or_else(|| self.of_rounded_weights(each))
    }

    /// The same where weights are rounded.
    fn of_rounded_weights(&self, each: &[Array2<f64>]) -> Option<Solution> {
        let squares = |values: &Array2<f64>| values.iter().map(|x| x * x).sum::<f64>();
        [Storage::Bf16, Storage::F16].into_iter().find_map(|to| {
            let mut more = Array2::zeros(self.apart.dim());
            for ((token, slot), &expert) in self.chosen.indexed_iter() {
                let weight = self.weights[[token, slot]];
                let outputs = each[expert].row(token);
                more.row_mut(token).scaled_add(self.scale * (to.nearest(weight) - weight), &outputs);
            }
            let is_nearer = squares(&(self.apart - &more)) <= ROUNDED * squares(self.apart);
            let is = |token: usize| self.is(token, &more.row(token).to_owned());
            (is_nearer && (0..more.nrows()).all(is)).then(|| {
                let said =
                    format!("routing weights are rounded to {to} before experts' outputs are multiplied by them");
                Solution::new(vec![said], &self.bench.ideal + &more)
            })
        })
    }

    /// Whether a token is off by so much, within what rounds on the way.
    pub(super) fn is(&self, token: usize, by: &Array1<f64>) -> bool {
        let (own, left) = (self.bench.candidate.row(token), &self.apart.row(token) - by);
        let size = own.dot(&own).max(by.dot(by)).sqrt();
        left.dot(&left).sqrt() <= SEVERAL * self.bench.rounding() * size
    }
}
