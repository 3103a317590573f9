//! Choices that a candidate does not show, recovered from the values that it made of them.
//!
//! Where two scores are nearer than their errors, right implementations choose otherwise, and what follows differs by much more
//! than rounding. A dump that shows no choices still shows what was made of them: among the legal choices of a token, the one
//! that the candidate's values are nearest to was made.

use std::collections::HashMap;

use ndarray::Array2;
use reference::Site;
use reference::site::NONE;

use super::substitution::{Loaded, Seen, Unshown};
use crate::failure::Failure;

/// Exchanges that are tried for a token, at most.
const TRIED: usize = 6;

/// How many of the chosen, from the lowest score up, and of the others, from the highest down, are exchanged with one another.
const NEAREST: usize = 3;

/// One exchange that scores within their errors allow.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Exchange {
    site: usize,
    row: usize,
    slot: usize,
    other: usize,
}

/// The unshown choices of one phase, as far as they are recovered.
pub(super) struct Recovery {
    sites: Vec<Site>,
    chosen: Vec<Array2<usize>>,
    /// For each token, what can be tried.
    exchanges: Vec<Vec<Exchange>>,
}

impl Recovery {
    /// Of unshown choices for so many tokens; `None` where the scores settle all of them.
    pub(super) fn of(unshown: Vec<Unshown>, tokens: usize) -> Option<Self> {
        let mut exchanges = vec![Vec::new(); tokens];
        for (site, unshown) in unshown.iter().enumerate() {
            for row in 0..unshown.chosen.nrows() {
                let of_token: &mut Vec<Exchange> = &mut exchanges[row % tokens];
                of_token.extend(legal(unshown, site, row));
            }
        }
        for of_token in &mut exchanges {
            of_token.truncate(TRIED);
        }
        let unsettled = exchanges.iter().any(|of_token| !of_token.is_empty());
        let (sites, chosen) = unshown.into_iter().map(|unshown| (unshown.site, unshown.chosen)).unzip();
        unsettled.then_some(Recovery { sites, chosen, exchanges })
    }

    /// Tries the exchanges, one of each token at a time, and keeps those that bring a token nearer to the candidate. `run`
    /// computes the phase with choices forced.
    pub(super) fn settle(
        mut self,
        loaded: &Loaded<'_>,
        mut run: impl FnMut(&HashMap<Site, Array2<usize>>) -> Result<Vec<Seen>, Failure>,
    ) -> Result<HashMap<Site, Array2<usize>>, Failure> {
        let tokens = self.exchanges.len();
        let mut best = distances(&run(&self.choices())?, loaded, tokens)?;
        for round in 0..self.exchanges.iter().map(Vec::len).max().unwrap_or(0) {
            let before = self.chosen.clone();
            let tried: Vec<Option<Exchange>> = self.exchanges.iter().map(|e| self.still(e.get(round))).collect();
            for Exchange { site, row, slot, other } in tried.iter().flatten() {
                self.chosen[*site][[*row, *slot]] = *other;
            }
            let distances = distances(&run(&self.choices())?, loaded, tokens)?;
            for (token, tried) in tried.into_iter().enumerate() {
                let Some(Exchange { site, row, .. }) = tried else { continue };
                if distances[token] < best[token] {
                    best[token] = distances[token];
                } else {
                    self.chosen[site].row_mut(row).assign(&before[site].row(row));
                }
            }
        }
        Ok(self.choices())
    }

    /// An exchange, unless another that was kept has chosen the same already.
    fn still(&self, exchange: Option<&Exchange>) -> Option<Exchange> {
        exchange.copied().filter(|Exchange { site, row, other, .. }| {
            self.chosen[*site].row(*row).iter().all(|chosen| chosen != other)
        })
    }

    fn choices(&self) -> HashMap<Site, Array2<usize>> {
        self.sites.iter().copied().zip(self.chosen.iter().cloned()).collect()
    }
}

/// The exchanges of a chosen one for another that errors of the two scores allow, the likeliest first.
fn legal(unshown: &Unshown, site: usize, row: usize) -> Vec<Exchange> {
    let error = unshown.scores.error_or_exact();
    let score = |c: usize| unshown.scores.value[[row, c]];
    let certain = |c: usize| error.certain[[row, c]];
    let own = unshown.chosen.row(row);
    let mut chosen: Vec<(usize, usize)> = own.iter().copied().enumerate().filter(|(_, c)| *c != NONE).collect();
    let mut others: Vec<usize> =
        (0..unshown.scores.dim().1).filter(|c| !own.iter().any(|o| o == c) && score(*c).is_finite()).collect();
    chosen.sort_by(|a, b| score(a.1).total_cmp(&score(b.1)));
    others.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
    let mut found: Vec<(f64, Exchange)> = Vec::new();
    for &(slot, weak) in chosen.iter().take(NEAREST) {
        for &other in others.iter().take(NEAREST) {
            let (apart, explained) = (score(weak) - score(other), certain(weak) + certain(other));
            if apart <= explained {
                found.push((apart / explained.max(f64::MIN_POSITIVE), Exchange { site, row, slot, other }));
            }
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.into_iter().map(|(_, exchange)| exchange).collect()
}

/// How far each token's values are from the candidate's, in units of a site's own size, over the sites that have a row a token.
fn distances(seen: &[Seen], loaded: &Loaded<'_>, tokens: usize) -> Result<Vec<f64>, Failure> {
    let mut distances = vec![0.0; tokens];
    for seen in seen.iter().filter(|seen| seen.computed.value.nrows() == tokens) {
        let candidate = loaded.value(seen.site)?;
        let size = candidate.iter().map(|x| x * x).sum::<f64>().max(f64::MIN_POSITIVE);
        let rows = candidate.rows().into_iter().zip(seen.computed.value.rows());
        for (distance, (candidate, computed)) in distances.iter_mut().zip(rows) {
            *distance += candidate.iter().zip(computed).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / size;
        }
    }
    Ok(distances)
}
