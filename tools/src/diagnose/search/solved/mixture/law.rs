//! What the weights of a sum of experts follow from their scores by, where every token has its own experts and other weights: what
//! a router's weights, where they are shown, are held to.

use std::iter::zip;

use ndarray::Array2;
use reference::{LayerSite, RoundingContract, Site, Storage};

use super::Mixture;
use super::row::Row;
use crate::diagnose::search::solved::routing::{SAME, Weights};
use crate::diagnose::search::solved::solution::Solution;
use crate::failure::Failure;

/// How far at most, as a share, for one law to be told from another.
const COARSEST: f64 = 0.05;

impl Mixture<'_, '_, '_> {
    /// What is said of all tokens, whose weights were solved for, if one law holds of them, and of those that have other experts; `each`
    /// has every expert's outputs.
    pub(super) fn of_law(
        &self,
        layer: usize,
        solved: &[Row],
        each: &[Array2<f64>],
    ) -> Result<Option<Solution>, Failure> {
        let k = self.chosen.ncols();
        if solved.len() != self.chosen.nrows() {
            return Ok(None);
        }
        let Some(used) = solved.iter().map(|row| self.used(row)).collect::<Option<Vec<_>>>() else { return Ok(None) };
        let of = Site::Layer(layer, LayerSite::GateScores);
        let rerun = self.bench.rerun(&[], RoundingContract::IDEAL, &[of])?;
        let Some(scores) = rerun.beside.get(&of).filter(|scores| scores.nrows() == solved.len()) else {
            return Ok(None);
        };
        let chosen = Array2::from_shape_fn((used.len(), k), |(token, slot)| used[token][slot]);
        let is_own = |token: usize| chosen.row(token) == self.chosen.row(token);
        let own = Array2::from_shape_fn(chosen.dim(), |at| solved[at.0].exact[chosen[at]]);
        let right = Array2::from_shape_fn(chosen.dim(), |at| {
            let sum = || used[at.0].iter().map(|expert| scores[[at.0, *expert]]).sum::<f64>();
            if is_own(at.0) { self.weights[at] } else { scores[[at.0, chosen[at]]] / sum() }
        });
        let same = solved.iter().fold(SAME * Storage::F32.unit_roundoff(), |most, row| most.max(row.same));
        // One factor for all is told as such.
        let factors = &own / &right;
        let is_one = factors.iter().all(|factor| (factor / factors[[0, 0]] - 1.0).abs() <= same);
        if same > COARSEST || is_one {
            return Ok(None);
        }
        let weights = Weights { right: &right, own: &own, same };
        let Some((said, law)) = weights.law(self.bench, layer, scores, &chosen) else { return Ok(None) };
        let mut values = self.bench.ideal.clone();
        for (token, mut row) in values.rows_mut().into_iter().enumerate() {
            // Of each expert, by how much its weight is another.
            let mut more = vec![0.0; each.len()];
            zip(chosen.row(token), law.row(token)).for_each(|(&expert, weight)| more[expert] += weight);
            zip(self.chosen.row(token), self.weights.row(token)).for_each(|(&expert, weight)| more[expert] -= weight);
            for (more, outputs) in zip(more, each).filter(|(more, _)| *more != 0.0) {
                row.scaled_add(self.scale * more, &outputs.row(token));
            }
        }
        let mut said = vec![said];
        let others = (0..used.len()).filter(|token| !is_own(*token)).count();
        if others > 0 {
            said.push(format!("{others} of {} tokens have other experts than they should", used.len()));
        }
        Ok(Some(Solution::new(said, values)))
    }

    /// The experts that a token's weights are of: its own, where these are all that count, or as many others.
    fn used(&self, row: &Row) -> Option<Vec<usize>> {
        let own = self.chosen.row(row.token);
        if zip(&row.right, &row.used).all(|(right, used)| (*right == 0.0) == (*used == 0.0)) {
            return Some(own.to_vec());
        }
        Some(row.counting().into_iter().collect::<Vec<_>>()).filter(|counting| counting.len() == own.len())
    }
}
