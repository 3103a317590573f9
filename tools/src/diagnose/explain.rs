//! What explains a fault best: what leaves the fewest faults in all, and of these what reproduces the most values.

use fixtures::names::at::At;
use rayon::prelude::*;
use reference::Site;

use super::catalogue::assumption::Assumption;
use super::catalogue::list;
use super::catalogue::mistake::{Assumed, Clue};
use super::choice::{best, equals, pairs, told_apart};
use super::diagnosis::{Explained, Measured};
use super::reach::{self, holds_in_some_calls};
use super::search::{self, Bench};
use super::trial::{Before, Tried, at};
use super::{networks, pattern};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::judge::way;

/// Mistakes that come nearest alone among which its partner is looked for.
const PARTNERS: usize = 16;

/// Attempts that are made at a time.
const TOGETHER: usize = 32;

/// Changes from which several are begun: some that come alike near alone are told apart by what stands behind them.
const BEGUN: usize = 2;

/// Changes in the same values that are looked for.
const SEVERAL: usize = 3;

/// Equally good explanations, at most, that are told apart by what is suspicious under each.
const COMPARED: usize = 4;

/// Quiet mistakes that are verified, those that reproduce the most first.
const VERIFIED: usize = 4;

impl Comparison<'_> {
    /// The mistake that explains a fault best, or the two that do together, if any does.
    pub(super) fn explain(
        &self,
        assumption: &Assumption,
        measured: &Measured,
        reports: &[SiteReport],
        progress: &mut impl FnMut(usize),
    ) -> Result<Option<(Vec<Explained>, Tried)>, Failure> {
        let (first, (clue, off)) = (&measured.report, self.clue(measured));
        let everywhere = Bench::new(self, assumption, first)?;
        let before = self.before(assumption, reports, first, everywhere.as_ref())?;
        let possible = self.possible(assumption, first, clue);
        let later = if first.step > 0 { search::of_later_calls(&self.suspects(first)) } else { Vec::new() };
        let alone: Vec<Vec<Assumed>> = possible.iter().chain(&later).map(|assumed| vec![assumed.clone()]).collect();
        let (tried, far): (Vec<_>, Vec<f64>) = self.each(&before, &alone, first, progress)?.into_iter().unzip();
        let mut tried: Vec<Tried> = tried.into_iter().flatten().collect();
        let mut near: Vec<(f64, &Assumed)> = far.into_iter().zip(&possible).collect();
        let mut found = Vec::new();
        let is_unexplained = tried.is_empty();
        // What explains little of it may follow from what is wrong in some calls.
        let calls = match reach::calls(first, reports, self.compared.steps) {
            Some(calls) if is_unexplained || !self.is_complete(best(&mut tried).as_ref(), first)? => Some(calls),
            _ => None,
        };
        if calls.is_some() {
            let known = possible.iter().filter(|assumed| holds_in_some_calls(&assumed.change));
            let known: Vec<Vec<Assumed>> = known.map(|assumed| vec![assumed.during(calls)]).collect();
            tried.extend(self.attempts(&before, &known, first, progress)?);
        }
        let during = match calls {
            Some(_) if is_unexplained => Bench::new(self, assumption, first)?.map(|bench| bench.during(calls)),
            _ => None,
        };
        if let Some(bench) = during.as_ref().or(everywhere.as_ref())
            && !self.is_complete(best(&mut tried).as_ref(), first)?
        {
            found = search::hypotheses(bench, clue, tried.is_empty(), progress)?;
            tried.extend(self.widest(&before, &found, first, progress)?);
            if tried.is_empty() {
                let dear = search::dear(bench, &found, progress)?;
                tried.extend(self.widest(&before, &dear, first, progress)?);
                found.splice(..0, dear);
            }
            if tried.is_empty() {
                let mut attempt = |added: &[Assumed]| Ok(self.attempt(&before, added, first)?.0);
                for nearest in found.iter().take(BEGUN) {
                    tried.extend(self.several(assumption, nearest, (first, clue), progress, &mut attempt)?);
                }
            }
        }
        if tried.is_empty() {
            let found = search::of_site(first.site, &self.suspects(first), self.compared.config);
            tried.extend(self.attempts(&before, &found, first, progress)?);
        }
        if tried.is_empty() {
            let alone = networks::in_one_kind(&self.suspects(first), possible.iter().chain(found.iter().flatten()));
            tried.extend(self.attempts(&before, &alone, first, progress)?);
        }
        if tried.is_empty() {
            tried.extend(self.attempts(&before, &self.behind(assumption, first, clue), first, progress)?);
        }
        if tried.is_empty() {
            near.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            near.truncate(PARTNERS);
            let pairs: Vec<Vec<Assumed>> = pairs(&near).map(|(one, other)| vec![one.clone(), other.clone()]).collect();
            tried.extend(self.attempts(&before, &pairs, first, progress)?);
        }
        let tried = self.unsuspicious(equals(tried))?;
        let Some((best, others)) = told_apart(tried) else { return Ok(None) };
        if let Some(bench) = &everywhere
            && is_a_statistic(bench, &best)?
        {
            return Ok(None);
        }
        let explained = self.explained(assumption, (first, &off), (&best, &others))?;
        Ok(Some((explained, best)))
    }

    /// One of what a search found, and what is found behind it in the same values, until attempts explain all: one with the nearest,
    /// and what does so in its place.
    fn several(
        &self,
        assumption: &Assumption,
        nearest: &[Assumed],
        (fault, clue): (&SiteReport, Clue),
        progress: &mut impl FnMut(usize),
        attempt: &mut impl FnMut(&[Assumed]) -> Result<Option<Tried>, Failure>,
    ) -> Result<Vec<Tried>, Failure> {
        let mut added = nearest.to_vec();
        while added.len() < SEVERAL {
            let under = assumption.and_all(&added)?;
            let Some(bench) = Bench::new(self, &under, fault)? else { break };
            let bench = bench.during(nearest.iter().find_map(|one| one.calls));
            let found = search::hypotheses(&bench, clue, true, progress)?;
            let Some((next, others)) = found.split_first() else { break };
            if let Some(tried) = attempt(&[&added[..], next].concat())? {
                let mut all = vec![tried];
                for other in others {
                    all.extend(attempt(&[&added[..], other].concat())?);
                }
                return Ok(all);
            }
            added.extend_from_slice(next);
        }
        Ok(Vec::new())
    }

    fn attempts(
        &self,
        before: &Before<'_>,
        all: &[Vec<Assumed>],
        fault: &SiteReport,
        progress: &mut impl FnMut(usize),
    ) -> Result<Vec<Tried>, Failure> {
        Ok(self.each(before, all, fault, progress)?.into_iter().filter_map(|(tried, _)| tried).collect())
    }

    /// Each of them attempted, with how far it is from the candidate at the fault.
    fn each(
        &self,
        before: &Before<'_>,
        all: &[Vec<Assumed>],
        fault: &SiteReport,
        progress: &mut impl FnMut(usize),
    ) -> Result<Vec<(Option<Tried>, f64)>, Failure> {
        let mut each = Vec::with_capacity(all.len());
        for some in all.chunks(TOGETHER) {
            progress(all.len() - each.len());
            let attempt = |added: &Vec<Assumed>| {
                let (tried, far) = self.attempt(before, added, fault)?;
                // What brings values within their bounds by making these wide explains none of them.
                let is_explained =
                    tried.as_ref().map_or(Ok(false), |tried| self.is_reproduced(before, tried, fault))?;
                Ok::<_, Failure>((tried.filter(|_| is_explained), far))
            };
            each.extend(some.par_iter().map(attempt).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(each)
    }

    /// The same of what a search found in some calls, which is made in all if that explains as much.
    fn widest(
        &self,
        before: &Before<'_>,
        found: &[Vec<Assumed>],
        fault: &SiteReport,
        progress: &mut impl FnMut(usize),
    ) -> Result<Vec<Tried>, Failure> {
        let everywhere = |added: &Vec<Assumed>| added.iter().map(|one| one.during(None)).collect();
        let wide: Vec<Vec<Assumed>> = found.iter().map(everywhere).collect();
        let tried = self.attempts(before, &wide, fault, progress)?;
        let is_narrow = found.iter().flatten().any(|one| one.calls.is_some());
        if is_narrow && tried.is_empty() { self.attempts(before, found, fault, progress) } else { Ok(tried) }
    }

    /// What explains a site that is suspicious: what reproduces more values, and leaves it, and no other, suspicious no more.
    pub(super) fn explain_quiet(
        &self,
        assumption: &Assumption,
        first: &SiteReport,
        suspicious: &[SiteReport],
        progress: &mut impl FnMut(usize),
    ) -> Result<Option<(Vec<Explained>, Tried)>, Failure> {
        let Some(bench) = Bench::new(self, assumption, first)? else { return Ok(None) };
        let named = self.possible(assumption, first, Clue::default());
        let mut all = Vec::new();
        for (i, assumed) in named.iter().enumerate() {
            progress(named.len() - i);
            all.push(vec![assumed.clone()]);
        }
        let found = search::hypotheses(&bench, Clue::default(), true, progress)?;
        all.extend(found.iter().cloned());
        let known = self.before(assumption, suspicious, first, None)?;
        let mut attempt = |added: &[Assumed]| {
            let everywhere = self.attempt_quiet(&known, added, first, suspicious)?;
            let alone = first.site.layer().filter(|_| everywhere.is_none());
            let Some(alone) = alone.and_then(|layer| reach::in_layers(added, &[layer])) else { return Ok(everywhere) };
            self.attempt_quiet(&known, &alone, first, suspicious)
        };
        let mut tried = Vec::new();
        let mut near = reproducing(&bench, all);
        for added in &near {
            tried.extend(attempt(added)?);
        }
        if tried.is_empty() {
            let dear = reproducing(&bench, search::dear(&bench, &found, progress)?);
            for added in &dear {
                tried.extend(attempt(added)?);
            }
            near.splice(..0, dear);
        }
        // What is left may be another change in the same values.
        if let (true, Some(nearest)) = (tried.is_empty(), near.first()) {
            tried.extend(self.several(assumption, nearest, (first, Clue::default()), progress, &mut attempt)?);
        }
        let Some((best, others)) = told_apart(equals(tried)) else { return Ok(None) };
        if is_a_statistic(&bench, &best)? {
            return Ok(None);
        }
        Ok(Some((self.explained(assumption, (first, &[]), (&best, &others))?, best)))
    }

    /// Each of the mistakes that were assumed together, with the parameter that it changes as values have it beside the others.
    fn explained(
        &self,
        assumption: &Assumption,
        (fault, off): (&SiteReport, &[String]),
        (best, others): (&Tried, &[Tried]),
    ) -> Result<Vec<Explained>, Failure> {
        let networks = networks::told(&best.added).filter(|_| best.added.len() > 1);
        let is_told = |assumed: &Assumed| networks.is_none() || networks::told(std::slice::from_ref(assumed)).is_none();
        let each = best.added.iter().enumerate().filter(|(_, assumed)| is_told(assumed)).map(|(i, assumed)| {
            let beside = best.added.iter().enumerate().filter(|(j, _)| i != *j).map(|(_, other)| other);
            let under = assumption.and_all(beside)?;
            let bench = Bench::new(self, &under, fault)?;
            let fitted = bench.and_then(|bench| search::fitted(&bench.during(assumed.calls), assumed));
            let explained = Explained::tried(fault, (i, assumed), best, others);
            let way =
                networks.map_or_else(|| explained.way.clone(), |networks| format!("{}, {networks}", explained.way));
            Ok(Explained { off: off.to_vec(), fitted, way, ..explained })
        });
        each.collect()
    }

    /// What mistakes leave, if a site is suspicious no more under them, and no other in its place.
    fn attempt_quiet(
        &self,
        before: &Before<'_>,
        added: &[Assumed],
        first: &SiteReport,
        suspicious: &[SiteReport],
    ) -> Result<Option<Tried>, Failure> {
        let mut reports = self.with_twin(&before.assumption.and_all(added)?, self.all())?;
        let bad = |report: &&SiteReport| report.verdict >= Verdict::Suspicious;
        let was = |report: &&SiteReport| suspicious.iter().any(|other| at(other) == at(report));
        if !reports
            .iter()
            .filter(bad)
            .all(|report| report.verdict == Verdict::Suspicious && was(&report) && at(report) != at(first))
        {
            return Ok(None);
        }
        let fits = (reports.iter().filter(|report| !bad(report)).count(), reports.len());
        let tried = self.tried(before, added.to_vec(), first)?;
        reports.retain(|report| bad(&report));
        Ok(Some(Tried { fits, left: reports.len(), reports, ..tried }))
    }

    /// The sites that are suspicious by their values, if any of the `verdicts` under an assumption says so, by the structure of what is
    /// not the twin's, or by a number that makes it so.
    pub(super) fn suspicious(&self, under: &Assumption, verdicts: &[SiteReport]) -> Result<Vec<SiteReport>, Failure> {
        let is_suspicious = |report: &SiteReport| report.verdict == Verdict::Suspicious;
        let mut reports = if self.tells_structure() {
            self.with_displaced(under)?
        } else if verdicts.iter().any(is_suspicious) {
            self.verify(under, self.all(), None)?.sites
        } else {
            Vec::new()
        };
        reports.retain(is_suspicious);
        Ok(reports)
    }

    /// Where equals leave no fault, those that leave nothing suspicious either; all of them where each does, and where they are too
    /// many to be told apart.
    fn unsuspicious(&self, equals: Vec<Tried>) -> Result<Vec<Tried>, Failure> {
        if equals.len() < 2 || equals.len() > COMPARED || equals.iter().any(|tried| tried.left > 0) {
            return Ok(equals);
        }
        let suspicious = equals.iter().map(|tried| Ok(!self.suspicious(&tried.assumption, &tried.reports)?.is_empty()));
        let suspicious: Vec<bool> = suspicious.collect::<Result<_, Failure>>()?;
        let all = suspicious.iter().all(|is| *is);
        let kept = equals.into_iter().zip(suspicious).filter(|(_, is)| all || !is);
        Ok(kept.map(|(tried, _)| tried).collect())
    }

    /// What a fault tells of a mistake, and which of its values are off.
    fn clue(&self, fault: &Measured) -> (Clue, Vec<String>) {
        let Measured { report, kept } = fault;
        let (config, extent) = (self.compared.config, self.extent(report.step));
        let tokens = kept.as_ref().and_then(|kept| pattern::tokens_off(kept, report.site, config, extent));
        let passed: usize = self.compared.steps[..report.step].iter().map(Vec::len).sum();
        let off = kept.as_ref().map(|kept| pattern::places(kept, report.site, config, extent));
        let (first, last) = tokens.unwrap_or_default();
        let tokens = passed + self.compared.steps[report.step].len();
        let clue = Clue { position: passed + first, last: passed + last, tokens, context: passed };
        (clue, off.unwrap_or_default())
    }

    /// The operators on the way to a fault.
    fn suspects(&self, first: &SiteReport) -> Vec<Site> {
        let is_shown = |site| self.compared.candidate.has(At { step: first.step, site });
        first.segment.iter().copied().chain(way::to(first.site, is_shown)).collect()
    }

    /// Known mistakes of the operators on the way to a fault that make what is shown of the sizes that it has.
    fn possible(&self, assumption: &Assumption, first: &SiteReport, clue: Clue) -> Vec<Assumed> {
        let mut possible = self.known(assumption, first, clue);
        possible.retain(|assumed| !self.contradicts(assumption, assumed));
        possible
    }

    /// All known mistakes of these operators.
    fn known(&self, assumption: &Assumption, first: &SiteReport, clue: Clue) -> Vec<Assumed> {
        let suspects = self.suspects(first);
        let touching = list::all().filter(|mistake| mistake.touches(&suspects));
        let possible = touching.flat_map(|mistake| mistake.cases(self.compared.config, clue));
        let possible = possible.filter(|assumed| !assumed.change.is_in(&assumption.semantics));
        possible.map(|assumed| self.of_own_table(assumed, first.site)).collect()
    }

    /// Known mistakes of the operators that give a fault's operator what it reads, or of the rotation table on the way to it, where
    /// that is shown as if they were right.
    fn behind(&self, assumption: &Assumption, first: &SiteReport, clue: Clue) -> Vec<Vec<Assumed>> {
        let is_shown = |site: &Site| self.compared.candidate.has(At { step: first.step, site: *site });
        let of = |site: Site| {
            let report = SiteReport { site, segment: Vec::new(), ..first.clone() };
            self.known(assumption, &report, clue).into_iter().map(move |assumed| vec![assumed, search::unseen(site)])
        };
        let suspects = self.suspects(first);
        let rotates = suspects.iter().any(|site| *site != first.site && way::inputs(*site).contains(&Site::RopeCos));
        let table = rotates.then_some(Site::RopeCos);
        // The two halves of a table are taken together.
        let inputs = way::inputs(first.site).into_iter().filter(|site| *site != Site::RopeSin);
        let shown = inputs.chain(table).filter(is_shown);
        shown.flat_map(of).collect()
    }

    /// Whether nothing can explain more than what was tried: the values that are not the twin's are as many as a right candidate's.
    fn is_complete(&self, tried: Option<&&Tried>, fault: &SiteReport) -> Result<bool, Failure> {
        let Some(tried) = tried else { return Ok(false) };
        let reports = self.with_twin(&tried.assumption, self.around(fault.site))?;
        let here = reports.iter().find(|report| at(report) == at(fault));
        Ok(here.is_some_and(|report| {
            report.twin.is_none_or(|twin| twin.is_right()) && report.verdict < Verdict::Suspicious
        }))
    }
}

/// Whether a weight's factor is what a norm's mean square is off by.
fn is_a_statistic(bench: &Bench<'_, '_>, best: &Tried) -> Result<bool, Failure> {
    let [Assumed { mistake, .. }] = &best.added[..] else { return Ok(false) };
    Ok(mistake.name == search::kinds::SCALED.name && search::is_of_statistics(bench, best.reproduced[1])?)
}

/// Those under which a site reproduces more values, the most first. What is searched here is seen in its layer alone.
fn reproducing(bench: &Bench<'_, '_>, all: Vec<Vec<Assumed>>) -> Vec<Vec<Assumed>> {
    let share = |added: Vec<Assumed>| {
        let values = bench.twin_under(&added).ok()?;
        bench.is_more(&values).then(|| (bench.equal(&values).equal, added))
    };
    let mut near: Vec<(usize, Vec<Assumed>)> = all.into_iter().filter_map(share).collect();
    near.sort_by_key(|(equal, _)| std::cmp::Reverse(*equal));
    near.truncate(VERIFIED);
    near.into_iter().map(|(_, added)| added).collect()
}
