//! Values of some rows and channels that are 0, multiples of the right ones, or those of others: a tile that is not written, is added
//! twice, or is another's.
//!
//! ```text
//! yᵢⱼ = c·ŷᵢⱼ        for rows i and channels j in which all is off; solved for c
//! yᵢⱼ = ŷᵢ₊ₛ,ⱼ        or yᵢⱼ = ŷᵢ,ⱼ₊ₛ; solved for s
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values.

use super::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// The share of a tile's values that are off, at least: some are what they should be by chance.
const OFF: f64 = 0.8;

/// Values by which it is told, at least.
const LEAST: usize = 8;

/// By how many channels a tile is another's, at most.
const FURTHEST: isize = 256;

/// How far a factor may be from a whole number to be that, as a share: what bf16 leaves of it, several times.
const WHOLE: f64 = 0.02;

/// Rows and channels.
struct Tile {
    rows: Vec<usize>,
    columns: Vec<usize>,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    let (n, m) = bench.candidate.dim();
    if bench.site.token_axis(&bench.config()) != Some(0) {
        return None;
    }
    let tile = Tile::of(bench)?;
    let are_all = (tile.rows.len() == n, tile.columns.len() == m);
    let told = |what: String, value: &dyn Fn(usize, usize) -> f64| {
        let mut values = bench.ideal.clone();
        tile.places().for_each(|(i, j)| values[[i, j]] = value(i, j));
        let place = match are_all {
            (true, true) => "all values".to_owned(),
            (false, true) => format!("rows {} of {n}", listed::ranges(&tile.rows)),
            (true, false) => format!("channels {} of {m}", listed::ranges(&tile.columns)),
            (false, false) => {
                format!(
                    "in rows {} of {n}, channels {} of {m}",
                    listed::ranges(&tile.rows),
                    listed::ranges(&tile.columns)
                )
            }
        };
        Solution::new(vec![format!("{place} {what}")], values)
    };
    if tile.places().all(|at| bench.candidate[at] == 0.0) {
        return Some(told("are 0".to_owned(), &|_, _| 0.0));
    }
    // What is so of whole rows has other solutions, too, which say more.
    if are_all.1 {
        return None;
    }
    if let Some(times) = tile.times(bench) {
        return Some(told(format!("are {times:.4} times what they should be"), &|i, j| times * bench.ideal[[i, j]]));
    }
    let (n, m) = (n.cast_signed(), m.cast_signed());
    let moved =
        |by: isize, end: isize| move |at: usize| at.checked_add_signed(by).filter(|own| own.cast_signed() < end);
    let of_rows = (1..n)
        .flat_map(|by| [-by, by])
        .find(|by| tile.are(bench, |i, j| moved(*by, n)(i).map(|own| bench.ideal[[own, j]])));
    if let Some(by) = of_rows {
        let side = if by < 0 { "before" } else { "behind" };
        let value = |i: usize, j: usize| bench.ideal[[i.saturating_add_signed(by), j]];
        return Some(told(format!("have the values of the row {} {side} them", by.abs()), &value));
    }
    let of_columns = (1..m.min(FURTHEST))
        .flat_map(|by| [-by, by])
        .find(|by| are_all.0 && tile.are(bench, |i, j| moved(*by, m)(j).map(|own| bench.ideal[[i, own]])));
    let by = of_columns.filter(|_| tile.columns.len() > 1)?;
    let side = if by < 0 { "before" } else { "behind" };
    let value = |i: usize, j: usize| bench.ideal[[i, j.saturating_add_signed(by)]];
    Some(told(format!("have the values of the one {} {side} them", by.abs()), &value))
}

impl Tile {
    /// The rows and the channels that have values that are off, if most where they meet are.
    fn of(bench: &Bench<'_, '_>) -> Option<Self> {
        let (n, m) = bench.candidate.dim();
        let limits: Vec<f64> = (0..n).map(|row| limit(bench, row)).collect();
        let is_off = |(i, j): (usize, usize)| {
            let own = bench.candidate[[i, j]];
            [bench.ideal[[i, j]], bench.twin.computed[[i, j]]].iter().all(|right| (own - right).abs() > limits[i])
        };
        let rows: Vec<usize> = (0..n).filter(|i| (0..m).any(|j| is_off((*i, j)))).collect();
        let columns: Vec<usize> = (0..m).filter(|j| rows.iter().any(|i| is_off((*i, *j)))).collect();
        let tile = Tile { rows, columns };
        let count = tile.places().count();
        let off = tile.places().filter(|at| is_off(*at)).count();
        (count >= LEAST && off as f64 >= OFF * count as f64).then_some(tile)
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rows.iter().flat_map(|i| self.columns.iter().map(|j| (*i, *j)))
    }

    /// Whether all values are those, within roundings.
    fn are(&self, bench: &Bench<'_, '_>, value: impl Fn(usize, usize) -> Option<f64>) -> bool {
        self.places().all(|(i, j)| {
            value(i, j).is_some_and(|value| {
                (bench.candidate[[i, j]] - value).abs() <= limit(bench, i) + bench.rounding() * value.abs()
            })
        })
    }

    /// A factor that all values have.
    fn times(&self, bench: &Bench<'_, '_>) -> Option<f64> {
        let along: f64 = self.places().map(|at| bench.candidate[at] * bench.ideal[at]).sum();
        let size: f64 = self.places().map(|at| bench.ideal[at].powi(2)).sum();
        let times = along / size;
        let times = if (times - times.round()).abs() < WHOLE && times.round() != 0.0 { times.round() } else { times };
        (times.is_finite() && self.are(bench, |i, j| Some(times * bench.ideal[[i, j]]))).then_some(times)
    }
}

/// How far a value of a row may be off by roundings: what is left of sums goes by the size of its row.
fn limit(bench: &Bench<'_, '_>, row: usize) -> f64 {
    let right = bench.ideal.row(row);
    bench.rounding() * (right.dot(&right) / right.len().max(1) as f64).sqrt()
}
