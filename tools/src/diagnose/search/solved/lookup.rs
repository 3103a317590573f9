//! Rows of the embedding that are those of other tokens, behind the first layer's norm, or 0, there or as they are.
//!
//! ```text
//! yᵢ ∝ w ⊙ eₜ        solved for t; right is t = tᵢ
//! ```
//!
//! with y \[n, H\] the candidate's, t \[n\] the tokens, e \[V, H\] the embedding and w \[H\] the norm's weight. Where the embedding itself is
//! shown, tokens that are others are told before any site is.

use std::collections::BTreeSet;

use ndarray::{Array1, Array2, ArrayView1};
use reference::matrix::Matrix;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::listed::{listed, ranges};
use super::norm::effective;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::diagnose::tokens::moved;
use crate::failure::Failure;

/// Channels by which rows are told apart.
const CHANNELS: usize = 16;

/// Choices of so many ids among all that a prompt has, for each run of ids that there could be, before one run is no chance.
const CHANCE: f64 = 1e3;

/// The embedding, as the norm has it.
struct Table<'m> {
    rows: Matrix<'m>,
    norm: Array1<f64>,
    rounding: f64,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let tokens = bench.tokens();
    let is_normed = match bench.site {
        Site::Embedding => false,
        Site::Layer(0, LayerSite::InputNorm) if bench.media().is_empty() => true,
        _ => return Ok(None),
    };
    // Where the embedding is shown, it is right, or a fault of its own.
    let is_shown = is_normed && bench.shown(Site::Embedding)?.is_some();
    let (n, width) = bench.candidate.dim();
    if is_shown || tokens.len() != n || width < CHANNELS {
        return Ok(None);
    }
    let (off, own): (Vec<usize>, Vec<usize>) = (0..n).partition(|row| bench.row_is_off(*row));
    if off.iter().all(|row| bench.candidate.row(*row).iter().all(|x| *x == 0.0)) {
        return Ok(missing(&tokens, (&own, &off)).map(|said| {
            let mut values = bench.ideal.clone();
            for row in &off {
                values.row_mut(*row).fill(0.0);
            }
            Solution::new(vec![said], values)
        }));
    }
    if !is_normed {
        return Ok(None);
    }
    let norm = effective(bench, Weight::Layer(0, LayerWeight::InputNorm))?;
    let found = bench.with_model(|model| {
        let rows = model.weights().get(Weight::Embedding).map_err(reference::Error::from)?;
        let table = Table { rows, norm, rounding: bench.rounding() };
        let Some(ids) = table.ids(&bench.candidate, &off) else { return Ok(None) };
        Ok(told(&tokens, (&own, &off), &ids, |token, row| table.is(token, bench.candidate.row(row))).zip(Some(ids)))
    })?;
    let Some((said, ids)) = found else { return Ok(None) };
    let mut others = tokens;
    off.iter().zip(&ids).for_each(|(row, id)| others[*row] = *id);
    let mut values = bench.of_tokens(&others)?;
    for row in own {
        values.row_mut(row).assign(&bench.ideal.row(row));
    }
    Ok(Some(Solution::new(vec![said], values)))
}

/// What is said of rows that are other tokens'; nothing where these are those of other rows, which is said of rows.
fn told(
    tokens: &[u32],
    (own, off): (&[usize], &[usize]),
    ids: &[u32],
    is: impl FnMut(usize, usize) -> bool,
) -> Option<String> {
    let (first, id) = (*off.first()?, *ids.first()?);
    let is_of_row = |other: usize| {
        let at = |row: usize| tokens.get((row + other).checked_sub(first)?);
        other != first && off.iter().zip(ids).all(|(row, id)| at(*row) == Some(id))
    };
    if off.len() > 1 && (0..tokens.len()).any(is_of_row) {
        return None;
    }
    let ahead = i64::from(id) - i64::from(tokens[first]);
    let each =
        || listed(off.iter().zip(ids).map(|(row, id)| format!("{row} that of {id} in place of {}", tokens[*row])));
    Some(moved(tokens, (own, off), ahead, is).unwrap_or_else(|| match off {
        [row] => format!("token {row} has the embedding of id {id}, and not that of {}", tokens[*row]),
        _ => format!("{} of {} tokens have the embeddings of other ids: {}", off.len(), tokens.len(), each()),
    }))
}

/// What is said of rows that are 0, where these are the rows of one run of ids.
fn missing(tokens: &[u32], (own, off): (&[usize], &[usize])) -> Option<String> {
    let of = |rows: &[usize]| rows.iter().map(|row| tokens[*row] as usize).collect::<BTreeSet<usize>>();
    let (right, zero) = (of(own), of(off));
    let (least, most) = (*zero.first()?, *zero.last()?);
    let (k, all) = (zero.len(), zero.len() + right.len());
    let choices: f64 = (0..k).map(|i| (all - i) as f64 / (k - i) as f64).product();
    if right.range(least..=most).next().is_some() || choices < CHANCE * (right.len() + 1) as f64 {
        return None;
    }
    let (below, above) = (right.range(..least).next_back(), right.range(most..).next());
    let which = match (below, above) {
        (Some(below), None) => format!("from {least} on are 0, and of none up to {below}"),
        (None, Some(above)) => format!("up to {most} are 0, and of none from {above} on"),
        _ => format!("from {least} to {most} are 0, and of no others"),
    };
    let rows = ranges(off);
    Some(format!("the embeddings of all ids {which}, as of a shard of the vocabulary that is missing: rows {rows}"))
}

impl Table<'_> {
    /// For each of some rows, the id whose embedding it has; `None` where one has no other's.
    fn ids(&self, y: &Array2<f64>, off: &[usize]) -> Option<Vec<u32>> {
        let mut found = vec![None; off.len()];
        let mut row = vec![0.0; self.rows.dim().1];
        for id in 0..u32::try_from(self.rows.dim().0).ok()? {
            self.rows.row_into(id as usize, &mut row);
            let values = self.values(&row);
            for (found, &i) in found.iter_mut().zip(off) {
                if found.is_none() && self.are(&values, y.row(i)) {
                    *found = Some(id);
                }
            }
        }
        found.into_iter().collect()
    }

    /// Whether a row is that of an id.
    fn is(&self, id: usize, y: ArrayView1<'_, f64>) -> bool {
        let mut row = vec![0.0; self.rows.dim().1];
        if id >= self.rows.dim().0 {
            return false;
        }
        self.rows.row_into(id, &mut row);
        self.are(&self.values(&row), y)
    }

    /// An embedding behind the norm, but for its row's factor.
    fn values(&self, row: &[f64]) -> Array1<f64> {
        &ArrayView1::from(row) * &self.norm
    }

    fn are(&self, values: &Array1<f64>, y: ArrayView1<'_, f64>) -> bool {
        let size = y.dot(&y).sqrt();
        let times = size / values.dot(values).sqrt();
        let limit = self.rounding * size;
        let few = |count: usize| {
            let apart = values.iter().zip(y).take(count).map(|(x, y)| (times * x - y).powi(2)).sum::<f64>();
            apart.sqrt() <= limit
        };
        few(CHANNELS) && few(y.len())
    }
}
