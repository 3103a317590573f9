//! Which known mistakes a dump rules out, and which it could not have shown.

use std::ops::Range;

use reference::Site;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::stretch::{self, Evidence, Moved, Stretch};
use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::list;
use crate::diagnose::catalogue::mistake::{Assumed, Clue, Mistake};
use crate::diagnose::sizes;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::judge::verification::Look;

/// A known mistake, in the ways in which it can be made in the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// On which models and prompts it changes anything.
    pub visible: &'static str,
    /// Each way.
    pub ways: Vec<Way>,
}

/// What is read names a mistake of the catalogue, whose texts it takes.
impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
            about: String,
            visible: String,
            ways: Vec<Way>,
        }
        let Named { name, about, visible, ways } = Named::deserialize(from)?;
        // Several may have one name, in models that have an operator each otherwise.
        let texts = |mistake: &&Mistake| [mistake.name, mistake.about, mistake.visible] == [&*name, &*about, &*visible];
        let known = list::all().find(texts);
        let Mistake { name, about, visible, .. } =
            known.ok_or_else(|| D::Error::custom(format!("{name} is no known mistake")))?;
        Ok(Known { name, about, visible, ways })
    }
}

/// One way in which a mistake is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// How.
    pub way: String,
    /// What the dump says of it.
    pub outcome: Outcome,
}

/// What a dump says of a mistake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// It was not made: what is compared would be no right computation of it.
    RuledOut(Evidence),
    /// No operator that it changes was compared.
    NotCompared,
    /// Of those that were compared, what it changes is at fault, or suspicious, without it.
    AtFault,
    /// Their comparison says nothing.
    Inconclusive,
    /// It changes no value that was compared.
    MovesNothing,
    /// It changes values, but none beyond what a right implementation may have.
    WithinBounds(Moved),
}

/// A way that is tried.
struct Trial {
    assumed: Assumed,
    ruled_out: Option<Evidence>,
    /// The verdicts, without it, of what it changes.
    verdicts: Vec<Verdict>,
    moved: Moved,
}

impl Known {
    /// Whether every way is ruled out.
    pub fn is_ruled_out(&self) -> bool {
        self.ways.iter().all(|way| matches!(way.outcome, Outcome::RuledOut(_)))
    }
}

/// Tries every mistake of the catalogue in some layers; `whole` is all of them beside the twin, where that tells structure.
pub(super) fn detect(
    comparison: &Comparison<'_>,
    layers: &Range<usize>,
    whole: Option<&Stretch<'_, '_>>,
    progress: &mut impl FnMut(usize),
) -> Result<Vec<Known>, Failure> {
    let none = Assumption::none(comparison.compared.semantics);
    let mut trials = trials(comparison, &none);
    let ranges = stretch::ranges(comparison, layers)?;
    let rounds = ranges.len();
    for (round, range) in ranges.into_iter().enumerate() {
        let stretch = Stretch::new(comparison, range, Look { values: true, ..Look::default() })?;
        let all = trials.len();
        for (number, trial) in trials.iter_mut().enumerate() {
            progress((rounds - round) * all - number);
            trial.meet(&stretch, &none)?;
        }
    }
    // What stays within its bounds may still be no value of the twin's.
    if let Some(whole) = whole {
        let open = trials.iter_mut().filter(|trial| trial.ruled_out.is_none() && trial.moved.is_any());
        let mut open: Vec<&mut Trial> = open.collect();
        let all = open.len();
        for (number, trial) in open.iter_mut().enumerate() {
            progress(all - number);
            trial.ruled_out = whole.under(&none.and(trial.assumed.clone())?, None)?.worse;
        }
    }
    Ok(by_name(trials))
}

/// The mistakes that a model gives room for, and that its reading does not have. What has other sizes than the candidate shows
/// is ruled out at once.
fn trials(comparison: &Comparison<'_>, none: &Assumption) -> Vec<Trial> {
    let config = comparison.compared.config;
    let tokens: usize = comparison.compared.steps.iter().map(Vec::len).sum();
    // A shift of all positions cancels in the scores: it begins in the middle. What only a second call shows is tried as if there
    // were one.
    let first = comparison.compared.steps.first().map_or(0, Vec::len);
    let context = if first < tokens { first } else { tokens / 2 };
    let clue = Clue { position: tokens / 2, last: tokens / 4, tokens, context };
    let possible = list::all().flat_map(|mistake| mistake.cases(config, clue));
    let possible = possible.filter(|assumed| !assumed.change.is_in(&none.semantics));
    let trial = |assumed: Assumed| {
        let has_other_sizes = comparison.contradicts(none, &assumed);
        let ruled_out = has_other_sizes.then(|| Evidence::from(&sizes::fault(config, &assumed)));
        Trial { assumed, ruled_out, verdicts: Vec::new(), moved: Moved::default() }
    };
    possible.map(trial).collect()
}

impl Trial {
    /// Tries it in a stretch that has an operator of its own, until it is ruled out.
    fn meet(&mut self, stretch: &Stretch<'_, '_>, none: &Assumption) -> Result<(), Failure> {
        if self.ruled_out.is_some() {
            return Ok(());
        }
        let is_changed = |report: &&SiteReport| {
            let operators: Vec<Site> = report.segment.iter().copied().chain([report.site]).collect();
            self.assumed.mistake.touches(&operators)
        };
        let changed: Vec<&SiteReport> = stretch.sites().iter().filter(is_changed).collect();
        if changed.is_empty() {
            return Ok(());
        }
        self.verdicts.extend(changed.iter().map(|report| report.verdict));
        // A choice does not say what the candidate does not show on the way to it.
        let choices = stretch.sites().iter().filter(|report| report.site.is_choice());
        let sites = changed.into_iter().chain(choices).map(|report| report.site).collect();
        let under = stretch.under(&none.and(self.assumed.clone())?, Some(sites))?;
        self.ruled_out = under.worse;
        self.moved = self.moved.max(under.moved);
        Ok(())
    }

    fn outcome(self) -> Outcome {
        let says_nothing = |verdict: &Verdict| *verdict == Verdict::Inconclusive;
        match self.ruled_out {
            Some(evidence) => Outcome::RuledOut(evidence),
            None if self.verdicts.is_empty() => Outcome::NotCompared,
            None if self.moved.is_any() => Outcome::WithinBounds(self.moved),
            None if self.verdicts.iter().any(|verdict| *verdict >= Verdict::Suspicious) => Outcome::AtFault,
            None if self.verdicts.iter().all(says_nothing) => Outcome::Inconclusive,
            None => Outcome::MovesNothing,
        }
    }
}

fn by_name(trials: Vec<Trial>) -> Vec<Known> {
    let mut all: Vec<Known> = Vec::new();
    for trial in trials {
        let (mistake, way) = (trial.assumed.mistake, trial.assumed.way());
        let way = Way { way, outcome: trial.outcome() };
        match all.iter_mut().find(|known| known.name == mistake.name) {
            Some(known) => known.ways.push(way),
            None => {
                all.push(Known { name: mistake.name, about: mistake.about, visible: mistake.visible, ways: vec![way] });
            }
        }
    }
    all
}
