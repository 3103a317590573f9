//! A tensor of three axes that is written in one order of them and read in another.
//!
//! ```text
//! y = ŷ as \[n, h, c\] written as \[h, n, c\], or the other way round        solved for c, where a row has h·c values
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values of one call.

use ndarray::Array2;

use super::solution::Solution;
use crate::diagnose::search::Bench;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let (right, (n, m)) = (&bench.ideal, bench.ideal.dim());
    if n < 2 || m < 2 || bench.calls().len() > 1 && bench.site.layer().is_some() {
        return None;
    }
    let mut orders =
        (1..m).filter(|c| m.is_multiple_of(*c)).flat_map(|c| [([n, m / c, c], true), ([m / c, n, c], false)]);
    orders.find_map(|([a, b, c], is_forth)| {
        let three = right.as_standard_layout().to_owned().into_shape_with_order((a, b, c)).ok()?;
        let other = three.permuted_axes([1, 0, 2]).as_standard_layout().to_owned();
        let values: Array2<f64> = other.into_shape_with_order((n, m)).ok()?;
        let is = |row: usize| {
            let (own, left) = (bench.candidate.row(row), &bench.candidate.row(row) - &values.row(row));
            left.dot(&left).sqrt() <= bench.rounding() * own.dot(&own).sqrt()
        };
        let (written, read) = if is_forth { ([b, a, c], [a, b, c]) } else { ([a, b, c], [b, a, c]) };
        let said = || format!("values are written as {written:?}, and read as if they stood as {read:?}");
        (0..n).all(is).then(|| Solution::new(vec![said()], values))
    })
}
