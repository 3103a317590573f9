//! In which experts a dump would show a quiet gain: one percent in one projection, which stays within most bounds.
//!
//! Experts that no token shares do not touch the same rows, so that many are made larger in one run, and each is looked for in
//! its own rows: by their bounds, and by the structure of what is not the twin's.

use std::collections::BTreeSet;
use std::ops::Range;

use fixtures::names::at::At;
use ndarray::Array2;
use reference::config::FeedForward;
use reference::weights::{LayerWeight, Projection};
use reference::{LayerSite, RoundingContract, Site};
use serde::{Deserialize, Serialize};

use super::gains::larger;
use super::stretch::{self, Stretch, Under, furthest};
use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::part::Part;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::judging::Kept;
use crate::judge::structure::Group;
use crate::judge::verdict::{JudgedBy, SiteReport, Verdict};
use crate::judge::verification::Look;

/// The experts of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpertsOf {
    /// The layer.
    pub layer: usize,
    /// How many there are.
    pub experts: usize,
    /// Whether what they give was compared with the reference in their own layer.
    pub compared: bool,
    /// Those whose gain would not be seen.
    pub unseen: Vec<Unseen>,
}

/// An expert whose gain would not be seen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Unseen {
    /// The expert.
    pub expert: usize,
    /// Tokens that differ from one another for which it was chosen.
    pub tokens: usize,
    /// Such tokens that it takes for values within their bounds to tell, where that is possible.
    pub needed: Option<usize>,
    /// The most that the gain moves a value, in its bound.
    pub bounds: f64,
}

/// The experts of a layer, as a dump shows them.
struct Layer<'s, 'a, 'c> {
    number: usize,
    stretch: &'s Stretch<'a, 'c>,
    whole: Option<&'s Stretch<'a, 'c>>,
    /// The comparison that they are seen in.
    report: SiteReport,
    /// The experts of each token, pass after pass.
    chosen: Array2<usize>,
    /// Tokens of each pass.
    passes: Vec<usize>,
}

/// Tries each expert of some layers; `whole` is all of them beside the twin, where that tells structure.
pub(super) fn detect(
    comparison: &Comparison<'_>,
    layers: &Range<usize>,
    whole: Option<&Stretch<'_, '_>>,
    progress: &mut impl FnMut(usize),
) -> Result<Vec<ExpertsOf>, Failure> {
    let config = comparison.compared.config;
    let has_experts = |layer: &usize| config.layer(*layer).feed_forward == FeedForward::Experts;
    let mut all = Vec::new();
    for range in stretch::ranges(comparison, layers)? {
        if !range.clone().any(|layer| has_experts(&layer)) {
            continue;
        }
        let stretch =
            Stretch::new(comparison, range.clone(), Look { only: None, values: true, twin: whole.is_some() })?;
        for number in range.clone().filter(has_experts) {
            let experts = config.num_local_experts;
            all.push(match Layer::of(comparison, &stretch, whole, (number, range.clone()))? {
                Some(layer) => {
                    let unseen = layer.unseen(comparison, experts, progress)?;
                    ExpertsOf { layer: number, experts, compared: true, unseen }
                }
                None => ExpertsOf { layer: number, experts, compared: false, unseen: Vec::new() },
            });
        }
    }
    Ok(all)
}

impl<'s, 'a, 'c> Layer<'s, 'a, 'c> {
    /// `None` where the layer shows nothing behind its experts, or not all of its tokens.
    fn of(
        comparison: &Comparison<'_>,
        stretch: &'s Stretch<'a, 'c>,
        whole: Option<&'s Stretch<'a, 'c>>,
        (number, layers): (usize, Range<usize>),
    ) -> Result<Option<Self>, Failure> {
        let given = [LayerSite::ExpertOutput, LayerSite::Experts, LayerSite::Mlp].map(|site| Site::Layer(number, site));
        let follows = |report: &&SiteReport| {
            let mut operators = report.segment.iter().chain([&report.site]);
            report.site.layer() == Some(number) && operators.any(|site| given.contains(site))
        };
        let Some(report) = stretch.sites().iter().find(follows).cloned() else { return Ok(None) };
        let none = Assumption::none(comparison.compared.semantics);
        let rerun = comparison
            .under(&none, layers, |verification| verification.rerun(RoundingContract::IDEAL, report.site, &[]))?;
        let passes: Vec<usize> = comparison.compared.steps.iter().map(Vec::len).collect();
        let chosen = rerun.experts.filter(|chosen| chosen.nrows() == passes.iter().sum::<usize>());
        Ok(chosen.map(|chosen| Layer { number, stretch, whole, report, chosen, passes }))
    }

    fn unseen(
        &self,
        comparison: &Comparison<'_>,
        experts: usize,
        progress: &mut impl FnMut(usize),
    ) -> Result<Vec<Unseen>, Failure> {
        let mut unseen: Vec<Unseen> = (0..experts)
            .filter(|expert| self.tokens(*expert).is_empty())
            .map(|expert| Unseen { expert, tokens: 0, needed: self.needed(), bounds: 0.0 })
            .collect();
        let groups = self.groups(experts);
        for (number, group) in groups.iter().enumerate() {
            progress(groups.len() - number);
            let down = |expert: &usize| LayerWeight::Expert(*expert, Projection::Down);
            let assumed: Vec<Assumed> =
                group.iter().map(|expert| larger(self.number, down(expert), Part::All)).collect();
            let none = Assumption::none(comparison.compared.semantics);
            let under = self.stretch.under(&none.and_all(&assumed)?, Some(self.sites()))?;
            for &expert in group {
                let (is_beyond, bounds) = self.by_bounds(&under, expert);
                let is_fault = under.worse.as_ref().is_some_and(|worse| worse.verdict == Verdict::Fault);
                let is_alone = group.len() == 1 && is_fault;
                if !(is_alone || is_beyond || self.by_structure(&under, expert)) {
                    unseen.push(Unseen { expert, tokens: self.visits(expert), needed: self.needed(), bounds });
                }
            }
        }
        unseen.sort_by_key(|unseen| unseen.expert);
        Ok(unseen)
    }

    /// What is compared in the layer from the experts on.
    fn sites(&self) -> BTreeSet<Site> {
        let sites = self.stretch.sites().iter().map(|report| report.site);
        sites.filter(|site| site.layer() == Some(self.number) && *site >= self.report.site).collect()
    }

    /// The tokens for which an expert was chosen.
    fn tokens(&self, expert: usize) -> BTreeSet<usize> {
        let rows = self.chosen.rows().into_iter().enumerate();
        rows.filter(|(_, chosen)| chosen.iter().any(|one| *one == expert)).map(|(token, _)| token).collect()
    }

    /// Experts that no token shares, as many as go together; one by one where values are judged together.
    fn groups(&self, experts: usize) -> Vec<Vec<usize>> {
        let together = !matches!(self.report.judged_by, JudgedBy::NoiseFloor(_));
        let mut groups: Vec<(BTreeSet<usize>, Vec<usize>)> = Vec::new();
        for expert in 0..experts {
            let tokens = self.tokens(expert);
            if tokens.is_empty() {
                continue;
            }
            match groups.iter_mut().find(|(taken, _)| together && taken.is_disjoint(&tokens)) {
                Some((taken, group)) => {
                    taken.extend(tokens);
                    group.push(expert);
                }
                None => groups.push((tokens, vec![expert])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Whether a value of an expert's own rows is beyond its bound under the gain alone, and how far the gain moves them.
    fn by_bounds(&self, under: &Under, expert: usize) -> (bool, f64) {
        let tokens = self.tokens(expert);
        let (mut is_beyond, mut bounds) = (false, 0.0_f64);
        let by_bound = |place: At| {
            let mut reports = under.found.sites.iter().filter(|report| stretch::at(report) == place);
            reports.any(|report| report.judged_by == JudgedBy::Bound)
        };
        for (at, larger) in &under.found.values {
            let Some(right) = self.stretch.values(*at) else { continue };
            for row in self.rows(*at, larger, &tokens) {
                let of = |a: &Array2<f64>, b: &Array2<f64>, bound: &Array2<f64>| {
                    let values = a.row(row).into_iter().zip(b.row(row)).zip(bound.row(row));
                    furthest(values.map(|((a, b), bound)| (*a, *b, *bound)))
                };
                bounds = bounds.max(of(&larger.reference, &right.reference, &right.bound));
                let [was, is] = [right, larger].map(|kept| of(&kept.candidate, &kept.reference, &kept.bound));
                is_beyond |= was <= 1.0 && is > 1.0 && by_bound(*at);
            }
        }
        (is_beyond, bounds)
    }

    /// The rows of a site's values that belong to some tokens of all passes.
    fn rows(&self, at: At, kept: &Kept, tokens: &BTreeSet<usize>) -> Vec<usize> {
        let (before, of_pass) = (self.passes[..at.step].iter().sum::<usize>(), self.passes[at.step]);
        let rows = kept.reference.nrows();
        if !rows.is_multiple_of(of_pass) {
            return Vec::new();
        }
        let own = tokens.iter().filter(|token| (before..before + of_pass).contains(token));
        own.flat_map(|token| (token - before) * (rows / of_pass)..(token - before + 1) * (rows / of_pass)).collect()
    }

    /// Whether the twin finds a structure in an expert's rows under the gain alone.
    fn by_structure(&self, under: &Under, expert: usize) -> bool {
        self.whole.is_some_and(|whole| whole.has_less_structure(under, |group| group == Group::Expert(expert)))
    }

    /// Tokens of an expert; where the twin is asked, those that differ from one another.
    fn visits(&self, expert: usize) -> usize {
        let told = self.whole.and_then(|whole| whole.significant().visits.get(&self.report.site));
        let told = told.filter(|visits| !visits.is_empty());
        told.map_or_else(|| self.tokens(expert).len(), |visits| visits.get(&expert).copied().unwrap_or(0))
    }

    fn needed(&self) -> Option<usize> {
        self.whole.map(|whole| whole.significant().rows_needed())
    }
}
