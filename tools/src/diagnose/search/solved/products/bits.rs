//! Operands of fewer bits than they have.
//!
//! ```text
//! y = r(q′(W)·q(x))        solved for q, q′ and r among what values may be rounded to; right is none of it
//! ```

use ndarray::{Array2, ArrayView1};
use reference::Storage;
use reference::matrix::Matrix;

use super::Product;
use crate::diagnose::catalogue::grid::Grid;
use crate::diagnose::search::solved::solution::Solution;

/// The share of a row's values that are the candidate's bit for bit, where the product is rounded too: sums in another order make
/// few of them others.
const MOST_OF_ROW: f64 = 0.8;

impl Product<'_, '_, '_> {
    /// Operands, or the product too, that are rounded to fewer bits than they are: of several ways that the same values follow
    /// from within roundings, what reproduces the most.
    pub(super) fn of_fewer_bits(&self) -> Option<Solution> {
        let some: Vec<usize> = self.some().collect();
        let (x, w) = (rounded_by(&self.x), rounded_by(&self.w));
        let mut found: Option<(usize, Solution)> = None;
        for grid in Grid::of_activations() {
            let x = x(grid);
            for both in [false, true] {
                let w = if both { w(grid) } else { self.w.clone() };
                if x == self.x && w == self.w {
                    continue;
                }
                for output in [Storage::Real, Storage::Bf16, Storage::F16] {
                    let is = |row: &usize| self.follows(*row, x.row(*row), &w, output);
                    if !some.iter().all(is) || !self.off.iter().all(is) {
                        continue;
                    }
                    let values = (x.dot(&w.t()) + &self.b).mapv(|y| output.nearest(y));
                    let equal = self.bench.equal(&self.bench.stored(&values)).equal;
                    if found.as_ref().is_none_or(|(most, _)| equal > *most) {
                        let what = if both { "what goes in and the weight are" } else { "what goes in is" };
                        let also = match output {
                            Storage::Real => String::new(),
                            narrow => format!(", and the product to {narrow}"),
                        };
                        // Unless numbers are very large or small, these are the same.
                        let as_well = if grid == Grid::F16 { ", or TF32, which has as many bits" } else { "" };
                        let said = format!("{what} rounded to {grid}{as_well}{also}");
                        found = Some((equal, Solution::new(vec![said], values)));
                    }
                }
            }
        }
        found.map(|(_, solution)| solution)
    }

    /// Whether a row follows from operands. Where the product is rounded, one of a sum in another order may be the next number.
    fn follows(&self, row: usize, x: ArrayView1<'_, f64>, w: &Array2<f64>, output: Storage) -> bool {
        let values = (w.dot(&x) + &self.b).mapv(|y| output.nearest(y));
        if output == Storage::Real {
            let every: Vec<usize> = (0..values.len()).collect();
            return self.is(row, &every, &values);
        }
        let equal = self.bench.candidate.row(row).iter().zip(&values).filter(|(own, value)| own == value).count();
        equal as f64 >= MOST_OF_ROW * values.len() as f64
    }
}

/// What a matrix is in a grid.
fn rounded_by(values: &Array2<f64>) -> impl Fn(Grid) -> Array2<f64> + use<> {
    let matrix = Matrix::stored(values.view(), Storage::F32);
    move |grid| grid.round(&matrix).dense()
}
