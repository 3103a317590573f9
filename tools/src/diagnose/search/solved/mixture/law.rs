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
    /// What is said of all tokens, whose weights were solved for, if one law holds of them; `each` has every expert's outputs.
    pub(super) fn of_law(
        &self,
        layer: usize,
        solved: &[Row],
        each: &[Array2<f64>],
    ) -> Result<Option<Solution>, Failure> {
        let is_own = |row: &Row| zip(&row.right, &row.used).all(|(right, used)| (*right == 0.0) == (*used == 0.0));
        if solved.len() != self.chosen.nrows() || !solved.iter().all(is_own) {
            return Ok(None);
        }
        let of = Site::Layer(layer, LayerSite::GateScores);
        let rerun = self.bench.rerun(&[], RoundingContract::IDEAL, &[of])?;
        let Some(scores) = rerun.beside.get(&of).filter(|scores| scores.nrows() == solved.len()) else {
            return Ok(None);
        };
        let own = Array2::from_shape_fn(self.chosen.dim(), |at| solved[at.0].exact[self.chosen[at]]);
        let same = solved.iter().fold(SAME * Storage::F32.unit_roundoff(), |most, row| most.max(row.same));
        let weights = Weights { right: self.weights, own: &own, same };
        // One factor for all is told as such.
        let factors = &own / self.weights;
        let is_one = factors.iter().all(|factor| (factor / factors[[0, 0]] - 1.0).abs() <= same);
        if same > COARSEST || is_one {
            return Ok(None);
        }
        let Some((said, law)) = weights.law(self.bench, layer, scores, self.chosen) else { return Ok(None) };
        let mut values = self.bench.ideal.clone();
        for ((token, slot), &expert) in self.chosen.indexed_iter() {
            let more = law[[token, slot]] - self.weights[[token, slot]];
            values.row_mut(token).scaled_add(self.scale * more, &each[expert].row(token));
        }
        Ok(Some(Solution::new(vec![said], values)))
    }
}
