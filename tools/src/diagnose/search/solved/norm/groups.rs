//! Groups of channels that each have a mean square of their own, as where ranks that share a row do not add theirs up.
//!
//! ```text
//! yᵢⱼ = wⱼ·zᵢⱼ / √(mean of zᵢₖ² over the group of j)        z = ŷ/w
//! ```

use ndarray::{Array1, Array2};

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Channels of a group, at least.
const CHANNELS: usize = 4;

/// The groups of as many channels each that explain a site's values.
pub(super) fn solve(bench: &Bench<'_, '_>, w: &Array1<f64>) -> Option<Solution> {
    let (n, width) = bench.candidate.dim();
    if width != w.len() {
        return None;
    }
    let counts = (2..=width / CHANNELS).filter(|count| width.is_multiple_of(*count));
    let ways = counts.flat_map(|count| [(count, true), (count, false)]);
    let found = ways.map(|(count, behind)| {
        let group = |column: usize| if behind { column / (width / count) } else { column % count };
        let mut values = Array2::zeros((n, width));
        for (row, ideal) in bench.ideal.rows().into_iter().enumerate() {
            let mut squares = vec![0.0; count];
            ideal.iter().zip(w).enumerate().for_each(|(column, (y, w))| squares[group(column)] += (y / w).powi(2));
            for (column, y) in ideal.iter().enumerate() {
                values[[row, column]] = y / (squares[group(column)] * count as f64 / width as f64).sqrt();
            }
        }
        let how = if behind { "" } else { ", one behind the other by turns" };
        let said = format!(
            "each of {count} groups of {} channels{how} has a mean square of its own, as where ranks do not add theirs up",
            width / count
        );
        Solution::new(vec![said], values)
    });
    found.into_iter().find(|solution| solution.is_more(bench))
}
