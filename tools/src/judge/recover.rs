//! Choices that a candidate does not show, recovered from the values that it made of them.
//!
//! Where two scores are nearer than rounding moves them, right implementations choose otherwise, and what follows differs by much
//! more than rounding. A dump that shows no choices still shows what was made of them: among the choices of a token that rounding
//! allows, the one that the candidate's values are nearest to was made.
//!
//! How far rounding moves scores, and what is made of them, is measured: by runs that round at random from the candidate's own
//! inputs and choose as the reference does. A token whose values are as near as the furthest of theirs is settled.

mod search;

use ndarray::Array2;
use reference::bound::confidence;
use reference::compare::ratio;
use reference::site::NONE;
use reference::{RoundingContract, Site};

use self::search::Search;
use super::doubt::{Open, has_rows_of};
use super::floor::{FAR, FEW, MEMBERS};
use super::loaded::{Forced, Loaded};
use super::substitution::{Seen, Unshown};
use crate::failure::Failure;

/// Configurations that are tried for a token, at most: runs of the phase.
const TRIED: usize = 24;

/// What a phase computed with some choices made for it.
pub(super) struct Ran {
    pub(super) seen: Vec<Seen>,
    /// The scores at every choice that the candidate does not show, and what the run would have chosen itself.
    pub(super) unshown: Vec<Unshown>,
}

/// How often rounding may open a choice that is taken for settled.
const MISSED: f64 = 1e-6;

/// How many times as far as the furthest of all runs no right candidate's token is: one in thirteen is further than twelve runs are, but
/// these differ from one another by tenths of a natural logarithm, and ten is more than seven of them.
const BEYOND: f64 = 10.0;

/// The choices that are to be recovered.
pub(super) struct Recovery {
    /// In the order in which a token meets them.
    unshown: Vec<Unshown>,
    /// Whether any of a token's choices is open.
    open: Vec<bool>,
}

impl Recovery {
    /// Of the choices that a phase of so many tokens does not show. `None` where errors of scores settle them all, or no later site
    /// has rows of each token, which would tell.
    pub(super) fn of(mut unshown: Vec<Unshown>, seen: &[&Seen], tokens: usize) -> Option<Self> {
        unshown.retain(|unshown| seen.iter().any(|seen| tells_of(unshown.site, seen, tokens)));
        let open = open_tokens(&unshown, tokens);
        open.contains(&true).then_some(Recovery { unshown, open })
    }

    /// The first of the choices, and the tokens that have an open one.
    pub(super) fn open(&self) -> Open {
        Open { first: self.unshown[0].site, tokens: self.open.clone() }
    }

    /// Whether the candidate is at fault whatever it chose: a value is beyond its bound that no open choice comes before.
    pub(super) fn is_in_vain(&self, loaded: &Loaded<'_>, seen: &[&Seen]) -> Result<bool, Failure> {
        let (tokens, first) = (self.open.len(), self.unshown[0].site);
        for Seen { site, computed, .. } in seen.iter().filter(|seen| seen.unknown.is_none()) {
            let (Some(error), candidate) = (&computed.error, loaded.value(*site)?) else { continue };
            let is_apart =
                |row: usize| *site < first || has_rows_of(*site, &computed.value, tokens) && !self.open[row % tokens];
            let beyond = computed
                .value
                .indexed_iter()
                .any(|(at, &reference)| is_apart(at.0) && ratio(candidate[at], reference, error.certain[at]) > 1.0);
            if beyond {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The choices that bring each token nearest to the candidate, and whether they are that. `run` computes the phase under a contract
    /// with choices made. Where it `gives_up`, the reference's own, if a token that has no open choice is away from the candidate.
    pub(super) fn settle(
        self,
        loaded: &Loaded<'_>,
        (candidate, gives_up): (RoundingContract, bool),
        mut run: impl FnMut(RoundingContract, &Forced) -> Result<Ran, Failure>,
    ) -> Result<(Forced, bool), Failure> {
        let own: Forced = self.unshown.iter().map(|unshown| (unshown.site, unshown.chosen.clone())).collect();
        // What follows the first of them tells of all.
        let first = self.unshown[0].site;
        let exact = run(RoundingContract::IDEAL, &own)?;
        let candidates = |site: Site| Ok(loaded.value(site)?.as_ref().clone());
        let away = distances((first, self.open.len()), &exact.seen, candidates)?;
        let is_vain = |strayed: &[f64], times: f64| {
            let settled = self.open.iter().zip(&away).zip(strayed).filter(|((open, _), _)| !*open);
            gives_up && settled.into_iter().any(|((_, away), strayed)| *away > times * strayed)
        };
        let mut members = Vec::with_capacity(MEMBERS);
        let mut strayed = vec![0.0; self.open.len()];
        for seed in (1..).take(MEMBERS) {
            let member = run(candidate.stochastic(seed), &own)?;
            let value = |site: Site| {
                let seen = member.seen.iter().find(|seen| seen.site == site);
                Ok(seen.expect("all runs see the same").computed.value.clone())
            };
            let of_tokens = distances((first, self.open.len()), &exact.seen, value)?;
            strayed.iter_mut().zip(of_tokens).for_each(|(most, distance)| *most = distance.max(*most));
            members.push(member.unshown);
            if members.len() == FEW && is_vain(&strayed, FAR) || members.len() == MEMBERS && is_vain(&strayed, BEYOND) {
                return Ok((own, false));
            }
        }
        let mut search = Search::new(&self.unshown, &exact.unshown, &members, strayed);
        for _ in 0..TRIED {
            let Some(forced) = search.next() else { break };
            let ran = run(RoundingContract::IDEAL, &forced)?;
            search.learn(&ran.unshown, &distances((first, self.open.len()), &ran.seen, candidates)?);
        }
        Ok((search.best(), true))
    }
}

/// The choices that errors of scores leave no doubt of; [`NONE`] in the rows of others. They are the candidate's wherever a run
/// starts, and another run's own values may settle them otherwise.
pub(super) fn settled(unshown: &[Unshown]) -> Forced {
    let of_rows = |unshown: &Unshown| {
        let mut chosen = unshown.chosen.clone();
        let open = (0..chosen.nrows()).filter(|&row| is_open(unshown, row));
        open.for_each(|row| chosen.row_mut(row).fill(NONE));
        chosen
    };
    unshown.iter().map(|unshown| (unshown.site, of_rows(unshown))).collect()
}

/// Of so many tokens, those of which errors of scores leave any choice open.
pub(super) fn open_tokens(unshown: &[Unshown], tokens: usize) -> Vec<bool> {
    let mut open = vec![false; tokens];
    for unshown in unshown {
        (0..unshown.chosen.nrows()).for_each(|row| open[row % tokens] |= is_open(unshown, row));
    }
    open
}

/// Whether errors of scores leave any choice open.
pub(super) fn are_open(unshown: &[Unshown]) -> bool {
    unshown.iter().any(|unshown| (0..unshown.chosen.nrows()).any(|row| is_open(unshown, row)))
}

/// Whether errors of scores leave a row's choices open.
fn is_open(unshown: &Unshown, row: usize) -> bool {
    let (error, scores, chosen) =
        (unshown.scores.error_or_exact(), unshown.scores.value.row(row), unshown.chosen.row(row));
    let lambda = confidence(unshown.scores.value.len(), MISSED);
    let bound = |choice: usize| error.certain[[row, choice]].min(lambda * error.sigma[[row, choice]]);
    let is_chosen = |choice: &usize| chosen.iter().any(|other| other == choice);
    let lowest = chosen.iter().filter(|choice| **choice != NONE).map(|&choice| scores[choice] - bound(choice));
    let others = (0..scores.len()).filter(|choice| !is_chosen(choice) && scores[*choice].is_finite());
    let highest = others.map(|choice| scores[choice] + bound(choice));
    lowest.fold(f64::INFINITY, f64::min) <= highest.fold(f64::NEG_INFINITY, f64::max)
}

/// Whether a site's values tell what was chosen: they come after it, with rows of each token, and depend on nothing that nobody
/// knows.
fn tells_of(choice: Site, seen: &Seen, tokens: usize) -> bool {
    seen.site > choice && has_rows_of(seen.site, &seen.computed.value, tokens) && seen.unknown.is_none()
}

/// How far what was seen of each token is from other values, in units of a site's own size, over the sites that tell of a choice.
fn distances(
    (choice, tokens): (Site, usize),
    seen: &[Seen],
    other: impl Fn(Site) -> Result<Array2<f64>, Failure>,
) -> Result<Vec<f64>, Failure> {
    let mut squares = vec![0.0; tokens];
    for seen in seen.iter().filter(|seen| tells_of(choice, seen, tokens)) {
        let (other, own) = (other(seen.site)?, &seen.computed.value);
        let squares_of_finite = other.iter().filter(|x| x.is_finite()).map(|x| x * x);
        let size = squares_of_finite.sum::<f64>().max(f64::MIN_POSITIVE);
        for (row, (other, own)) in other.rows().into_iter().zip(own.rows()).enumerate() {
            squares[row % tokens] += other.iter().zip(own).map(|(a, b)| (a - b) * (a - b)).sum::<f64>() / size;
        }
    }
    Ok(squares.into_iter().map(f64::sqrt).collect())
}
