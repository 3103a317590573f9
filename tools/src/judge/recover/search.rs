//! The search for what each token chose. Tokens of a phase do not read one another's choices of it, so that every run tries one
//! configuration of each.

use std::collections::BTreeSet;

use ndarray::{Array2, ArrayView1};
use reference::Site;
use reference::site::NONE;

use crate::judge::floor::difference_limit;
use crate::judge::loaded::Forced;
use crate::judge::substitution::Unshown;

/// How many of the chosen, from the lowest score up, and of the others, from the highest down, are exchanged with one another.
const NEAREST: usize = 3;

/// What a token may have chosen: rows of sites, in the order in which it meets them. What it has no row of follows from the scores.
#[derive(Debug, Clone, Default)]
struct Configuration {
    rows: Vec<(usize, usize, Vec<usize>)>,
    /// How far scores had to be moved for it, in what rounding moves them: a sum of squares.
    cost: f64,
}

/// One token's search.
struct Token {
    /// What is to be tried.
    queue: Vec<Configuration>,
    /// What was, or is to be, tried: each row as a set.
    known: BTreeSet<Vec<(usize, usize, BTreeSet<usize>)>>,
    /// What is being tried.
    trying: Option<Configuration>,
    best: Configuration,
    distance: f64,
    /// The distance at which it is settled.
    limit: f64,
}

/// The search of all tokens.
pub(super) struct Search<'a> {
    sites: Vec<Site>,
    /// What the reference chooses.
    own: Vec<&'a Array2<usize>>,
    /// The scores by which it does.
    exact: Vec<&'a Array2<f64>>,
    /// Those of runs that round at random.
    members: Vec<Vec<&'a Array2<f64>>>,
    tokens: Vec<Token>,
}

impl<'a> Search<'a> {
    /// Of the choices at these sites, and the scores there of an exact run and of `members`. `limits` are the distances at which
    /// each token is settled.
    pub(super) fn new(
        unshown: &'a [Unshown],
        exact: &'a [Unshown],
        members: &'a [Vec<Unshown>],
        limits: Vec<f64>,
    ) -> Self {
        let sites: Vec<Site> = unshown.iter().map(|unshown| unshown.site).collect();
        let of = |run: &'a [Unshown]| sites.iter().map(|site| &unshown_at(run, *site).scores.value).collect::<Vec<_>>();
        let token = |limit| Token {
            queue: vec![Configuration::default()],
            known: BTreeSet::from([Vec::new()]),
            trying: None,
            best: Configuration::default(),
            distance: f64::INFINITY,
            limit,
        };
        let (exact, members) = (of(exact), members.iter().map(|member| of(member)).collect());
        let own = unshown.iter().map(|unshown| &unshown.chosen).collect();
        Search { tokens: limits.into_iter().map(token).collect(), sites, own, exact, members }
    }

    /// The choices of the next run, where any token is not settled and has something left to try.
    pub(super) fn next(&mut self) -> Option<Forced> {
        for token in &mut self.tokens {
            token.trying = None;
            if token.queue.is_empty() {
                continue;
            }
            let costs = token.queue.iter().map(|configuration| configuration.cost).enumerate();
            let least = costs.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i);
            token.trying = Some(token.queue.swap_remove(least));
        }
        let any = self.tokens.iter().any(|token| token.trying.is_some());
        any.then(|| self.forced(|token| token.trying.as_ref().unwrap_or(&token.best)))
    }

    /// What came of that run: the scores there, and how far each token is from the candidate.
    pub(super) fn learn(&mut self, ran: &[Unshown], distances: &[f64]) {
        for (number, &distance) in distances.iter().enumerate() {
            let Some(tried) = self.tokens[number].trying.take() else { continue };
            if distance < self.tokens[number].distance {
                self.tokens[number].best = self.whole(number, &tried, ran);
                self.tokens[number].distance = distance;
            }
            // What is not a number tells of no choice.
            if distance <= self.tokens[number].limit || distance.is_nan() {
                self.tokens[number].queue.clear();
                continue;
            }
            for next in self.children(number, &tried, ran) {
                let token = &mut self.tokens[number];
                if token.known.insert(next.key()) {
                    token.queue.push(next);
                }
            }
        }
    }

    /// The nearest configurations that were found.
    pub(super) fn best(&self) -> Forced {
        self.forced(|token| &token.best)
    }

    fn forced(&self, of: impl Fn(&Token) -> &Configuration) -> Forced {
        let free = self.own.iter().map(|own| Array2::from_elem(own.dim(), NONE));
        let mut forced: Vec<Array2<usize>> = free.collect();
        for (site, row, chosen) in self.tokens.iter().flat_map(|token| &of(token).rows) {
            forced[*site].row_mut(*row).iter_mut().zip(chosen).for_each(|(to, chosen)| *to = *chosen);
        }
        self.sites.iter().copied().zip(forced).collect()
    }

    /// A configuration that ran, with a row of every choice of its token.
    fn whole(&self, token: usize, ran_as: &Configuration, ran: &[Unshown]) -> Configuration {
        let mut whole = ran_as.clone();
        for (site, unshown) in self.sites.iter().map(|site| unshown_at(ran, *site)).enumerate() {
            for row in (token..unshown.chosen.nrows()).step_by(self.tokens.len()) {
                if !ran_as.rows.iter().any(|other| (other.0, other.1) == (site, row)) {
                    whole.rows.push((site, row, unshown.chosen.row(row).to_vec()));
                }
            }
        }
        whole
    }

    /// Configurations with one exchange more than one that ran, at a site that is not before those of its exchanges.
    fn children(&self, token: usize, parent: &Configuration, ran: &[Unshown]) -> Vec<Configuration> {
        let from = parent.rows.last().map_or(0, |(site, ..)| *site);
        let mut children = Vec::new();
        for site in from..self.sites.len() {
            let unshown = unshown_at(ran, self.sites[site]);
            for row in (token..unshown.chosen.nrows()).step_by(self.tokens.len()) {
                let held = parent.rows.iter().position(|other| (other.0, other.1) == (site, row));
                let chosen = held.map_or_else(|| unshown.chosen.row(row).to_vec(), |held| parent.rows[held].2.clone());
                for (slot, other, cost) in self.exchanges((site, row), &chosen, unshown.scores.value.row(row)) {
                    let mut child = parent.clone();
                    let mut exchanged = chosen.clone();
                    exchanged[slot] = other;
                    match held {
                        Some(held) => child.rows[held].2 = exchanged,
                        None => child.rows.push((site, row, exchanged)),
                    }
                    child.cost += cost;
                    children.push(child);
                }
            }
        }
        children
    }

    /// The exchanges of a chosen one for another that rounding of the two scores explains: slot, other and cost.
    fn exchanges(
        &self,
        (site, row): (usize, usize),
        chosen: &[usize],
        scores: ArrayView1<'_, f64>,
    ) -> Vec<(usize, usize, f64)> {
        let mut weak: Vec<(usize, usize)> = chosen.iter().copied().enumerate().filter(|(_, c)| *c != NONE).collect();
        let mut others: Vec<usize> =
            (0..scores.len()).filter(|c| !chosen.contains(c) && scores[*c].is_finite()).collect();
        weak.sort_by(|a, b| scores[a.1].total_cmp(&scores[b.1]));
        others.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        let mut found = Vec::new();
        for &(slot, weak) in weak.iter().take(NEAREST) {
            for &other in others.iter().take(NEAREST) {
                let gap = (scores[weak] - scores[other]).max(0.0);
                let moved = |scores: &Array2<f64>| scores[[row, weak]] - scores[[row, other]];
                let exact = moved(self.exact[site]);
                let limit = difference_limit(self.members.iter().map(|member| moved(member[site]) - exact));
                if gap <= limit {
                    found.push((slot, other, if gap > 0.0 { (gap / limit).powi(2) } else { 0.0 }));
                }
            }
        }
        found
    }
}

impl Configuration {
    fn key(&self) -> Vec<(usize, usize, BTreeSet<usize>)> {
        let mut key: Vec<_> =
            self.rows.iter().map(|(site, row, chosen)| (*site, *row, chosen.iter().copied().collect())).collect();
        key.sort();
        key
    }
}

fn unshown_at(run: &[Unshown], site: Site) -> &Unshown {
    run.iter().find(|unshown| unshown.site == site).expect("every run meets the same choices")
}
