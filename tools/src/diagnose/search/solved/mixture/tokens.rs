//! Tokens that have others' inputs or routing in a sum of experts, as where an index of tokens is off.
//!
//! ```text
//! yᵢ = Σₛ wᵢₛ·E(cᵢₛ, xⱼ)        experts read another token's row; solved for j of each token i that is off
//! yᵢ = Σₛ wⱼₛ·E(cⱼₛ, xᵢ)        a token has another's experts and weights; solved alike
//! ```

use ndarray::{Array1, Array2};

use super::Mixture;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// How often rounding on the way may leave what one rounding of a row may.
const SEVERAL: f64 = 2.0;

/// What is said of a way, and what it adds to a token by another.
type Way<'a> = (&'a str, &'a dyn Fn(usize, usize) -> Array1<f64>);

impl Mixture<'_, '_, '_> {
    /// What follows from `each` expert's output of every token, if that explains all tokens that are off.
    pub(super) fn of_other_tokens(&self, each: &[Array2<f64>]) -> Option<Solution> {
        let n = self.chosen.nrows();
        let off: Vec<usize> = (0..n).filter(|token| self.bench.row_is_off(*token)).collect();
        if off.is_empty() {
            return None;
        }
        let sum = |routed: usize, read: usize| -> Array1<f64> {
            let mut sum = Array1::zeros(self.apart.ncols());
            for (expert, weight) in self.chosen.row(routed).iter().zip(self.weights.row(routed)) {
                sum.scaled_add(self.scale * weight, &each[*expert].row(read));
            }
            sum
        };
        let inputs = |token: usize, other: usize| sum(token, other) - sum(token, token);
        let routing = |token: usize, other: usize| sum(other, token) - sum(token, token);
        let ways: [Way<'_>; 2] =
            [("experts read the input", &inputs), ("tokens have the experts and weights", &routing)];
        ways.iter().find_map(|(what, way)| {
            let others = listed::find_others(&off, n, |token, other| self.is(token, &way(token, other)))?;
            let mut values = self.bench.ideal.clone();
            off.iter()
                .zip(&others)
                .for_each(|(token, other)| values.row_mut(*token).scaled_add(1.0, &way(*token, *other)));
            let rows = listed::rows(self.bench, &off);
            let said = format!("in {}: {what} {}", rows.trim_end_matches(','), listed::others(&off, &others));
            Some(Solution::new(vec![said], values))
        })
    }

    /// Whether a token is off by so much, within what rounds on the way.
    pub(super) fn is(&self, token: usize, by: &Array1<f64>) -> bool {
        let (own, left) = (self.bench.candidate.row(token), &self.apart.row(token) - by);
        let size = own.dot(&own).max(by.dot(by)).sqrt();
        left.dot(&left).sqrt() <= SEVERAL * self.bench.rounding() * size
    }
}
