//! What the reference computes at a site when something in it is changed, from the candidate's own inputs.

use std::collections::HashMap;

use ndarray::{Array2, ArrayView2, Axis, s};
use reference::probe::Probe;
use reference::run::Shared;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::judging::norm;
use super::lens::Lens;
use super::substitution::Substitution;
use super::verification::Verification;
use crate::failure::Failure;

/// A run's values at a site that the candidate shows, of all passes one below the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rerun {
    /// What was computed, as it is stored.
    pub(crate) computed: Array2<f64>,
    /// What the candidate has.
    pub(crate) candidate: Array2<f64>,
    /// For each of its rows, the token among all that are shown.
    pub(crate) tokens: Vec<usize>,
    /// What was wanted beside it: every site's values, after the candidate's were put in their place.
    pub(crate) beside: HashMap<Site, Array2<f64>>,
    /// The experts that each token was sent to.
    pub(crate) experts: Option<Array2<usize>>,
    /// The blocks of keys that the tokens of the last pass attended to: all tokens' of one choice, then of the next.
    pub(crate) blocks: Option<Array2<usize>>,
    /// Rows of the last pass.
    last: usize,
}

impl Rerun {
    /// How far the candidate is from what was computed in the last pass, of that; `None` where there is nothing to compare.
    pub(crate) fn deviation(&self) -> Option<f64> {
        if self.computed.dim() != self.candidate.dim() || self.last == 0 {
            return None;
        }
        let last = |values: &Array2<f64>| values.slice(s![values.nrows() - self.last.., ..]).to_owned();
        let [computed, candidate] = [&self.computed, &self.candidate].map(last);
        let signal = norm(&computed);
        (signal > 0.0).then(|| norm(&(&candidate - &computed)) / signal)
    }

    fn append(&mut self, computed: &Array2<f64>, candidate: &Array2<f64>, tokens: usize) {
        let (first, each) = (self.tokens.last().map_or(0, |last| last + 1), candidate.nrows() / tokens.max(1));
        self.tokens.extend((0..candidate.nrows()).map(|row| first + row / each.max(1)));
        self.last = candidate.nrows();
        stack(&mut self.computed, computed);
        stack(&mut self.candidate, candidate);
    }
}

/// Puts rows below others. Where a column is a key, there are more in later passes, of which earlier rows have nothing.
fn stack(to: &mut Array2<f64>, rows: &Array2<f64>) {
    let columns = to.ncols().max(rows.ncols());
    let widened = |narrow: &Array2<f64>| {
        let mut wide = Array2::zeros((narrow.nrows(), columns));
        wide.slice_mut(s![.., ..narrow.ncols()]).assign(narrow);
        wide
    };
    if to.ncols() < columns {
        *to = widened(to);
    }
    to.append(Axis(0), widened(rows).view()).expect("both have as many columns");
}

/// What a run has from others.
#[derive(Clone, Copy, Default)]
pub(crate) struct With<'w> {
    /// Values put at a site in those passes that keep values beside that of the run, as [`Rerun::beside`] has them.
    pub(crate) put: Option<(Site, &'w Array2<f64>)>,
    /// Products of the same weights.
    pub(crate) products: Option<Shared<'w, f64>>,
}

/// Keeps values beside those that the substitution sees.
struct Watch<'a> {
    substitution: Substitution<'a>,
    wanted: &'a [Site],
    /// Values that stand at a site, whatever else would, from the pass's first row on.
    put: Option<(Site, ArrayView2<'a, f64>)>,
    /// The site behind which the run may end; none in a pass that others follow, which need all that it keeps.
    last: Option<Site>,
    values: HashMap<Site, Array2<f64>>,
    experts: Option<Array2<usize>>,
    blocks: Option<Array2<usize>>,
}

impl Probe<f64> for Watch<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        Probe::<f64>::visit(&mut self.substitution, site, value);
        if let Some((_, put)) = self.put.filter(|(at, _)| *at == site) {
            let rows = value.value.nrows();
            value.value.assign(&put.slice(s![..rows, ..]));
        }
        if self.wanted.contains(&site) {
            self.values.insert(site, value.value.clone());
        }
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        Probe::<f64>::choose(&mut self.substitution, site, scores, chosen);
        match site {
            Site::Layer(_, LayerSite::GateExperts) => self.experts = Some(chosen.clone()),
            Site::Layer(_, LayerSite::Blocks) => self.blocks = Some(chosen.clone()),
            _ => {}
        }
    }

    fn wants(&self, site: Site) -> bool {
        Probe::<f64>::wants(&self.substitution, site)
    }

    fn stores(&self, site: Site) -> bool {
        Probe::<f64>::stores(&self.substitution, site)
    }

    fn has_ended(&self) -> bool {
        let is_seen = |last| self.substitution.seen.iter().any(|seen| seen.site == last);
        self.last.is_some_and(is_seen) && self.wanted.iter().all(|site| self.values.contains_key(site))
    }
}

impl Verification<'_> {
    /// Runs the layers in f64 with the roundings of `contract`, and keeps the values at `at` in every pass, and those of the
    /// sites that are wanted beside it in passes in which all tokens are shown there.
    pub(crate) fn rerun(&self, contract: RoundingContract, at: Site, wanted: &[Site]) -> Result<Rerun, Failure> {
        self.rerun_with(contract, at, wanted, With::default())
    }

    /// The same with values of other runs.
    pub(crate) fn rerun_with(
        &self,
        contract: RoundingContract,
        at: Site,
        wanted: &[Site],
        With { put, products }: With<'_>,
    ) -> Result<Rerun, Failure> {
        let mut found = Rerun::default();
        let (mut has_ended, mut before) = (false, 0);
        self.each_advance(contract, products, |loaded, advance| {
            if has_ended {
                return Ok(());
            }
            let last = (loaded.step() + 1 == self.steps.len()).then_some(at);
            let substitution = Substitution::new(Lens::Local, loaded, &contract, Some(vec![at]));
            let is_whole = loaded.has(at) && loaded.shown(at)?.is_none();
            let put = put.filter(|_| is_whole).map(|(site, values)| (site, values.slice(s![before.., ..])));
            let (values, experts, blocks) = Default::default();
            let mut probe = Watch { substitution, wanted, put, last, values, experts, blocks };
            let advanced = advance(&mut probe);
            has_ended = probe.has_ended();
            if !has_ended {
                advanced?;
            }
            if let Some(failure) = probe.substitution.failure {
                return Err(failure);
            }
            let Some(seen) = probe.substitution.seen.into_iter().find(|seen| seen.site == at) else { return Ok(()) };
            let tokens = seen.shown.as_ref().map_or(loaded.tokens(), |shown| shown.len());
            let candidate = loaded.value(at)?;
            let (storage, shown) = (loaded.stored_in(at, &contract), loaded.shown_in(at, &contract, &candidate));
            found.append(&seen.computed.value.mapv(|x| shown.nearest(storage.nearest(x))), &candidate, tokens);
            if seen.shown.is_none() {
                before += loaded.tokens();
                for (site, value) in probe.values {
                    stack(found.beside.entry(site).or_default(), &value);
                }
                match (&mut found.experts, probe.experts) {
                    (Some(all), Some(chosen)) => {
                        all.append(Axis(0), chosen.view()).expect("each token has as many experts");
                    }
                    (all, chosen) => *all = chosen,
                }
                found.blocks = probe.blocks;
            }
            Ok(())
        })?;
        Ok(found)
    }
}
