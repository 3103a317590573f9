//! Another tensor that a product reads, as one of a layer before, whose buffer it shares.
//!
//! ```text
//! y = W·x′        solved for x′ among what the candidate shows at other sites of as many channels
//! ```

use ndarray::Axis;
use reference::Site;

use super::Product;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::sites;
use crate::diagnose::search::solved::solution::Solution;
use crate::failure::Failure;

impl Product<'_, '_, '_> {
    /// In all rows that are off; `own` is what should be read.
    pub(super) fn of_another_input(&self, own: Site) -> Result<Option<Solution>, Failure> {
        let every: Vec<usize> = (0..self.w.nrows()).collect();
        for site in sites::alike(self.bench, own) {
            let shown = self.bench.shown_in_all_steps(site)?;
            let Some(x) = shown.filter(|x| x.dim() == self.x.dim()) else { continue };
            let is = |row: usize| self.is(row, &every, &(self.w.dot(&x.row(row)) + &self.b));
            if self.some().chain(self.off.iter().copied()).all(is) {
                let mut values = self.bench.ideal.clone();
                let read = x.select(Axis(0), &self.off).dot(&self.w.t()) + &self.b;
                self.off.iter().zip(read.rows()).for_each(|(row, read)| values.row_mut(*row).assign(&read));
                let rows = listed::rows(self.bench, &self.off);
                return Ok(Some(Solution::new(vec![format!("{rows} read {site} in the place of {own}")], values)));
            }
        }
        Ok(None)
    }
}
