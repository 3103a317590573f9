//! What the loop remembers: a JSON file that is whole after every round, so that it goes on where it was stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use fixtures::whole::{self, WholeFile};
use reference::evolution::{Evolution, KeptFlag};
use serde::{Deserialize, Serialize};

use super::cost::{Cost, Limit};
use super::space::{Settings, Space};
use crate::failure::Failure;
use crate::report::json;

/// The file's version.
const SCHEMA: u32 = 1;

/// What to do where it is not this loop's.
const ANEW: &str = "give another file, or remove this one to begin anew";

/// What makes two runs of the loop one: each by the name that a user knows.
pub type Identity = BTreeMap<String, String>;

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Better by more than the threshold: the next round goes on from it.
    Kept,
    /// Right, and not better by more than that.
    Reverted,
    /// Not the exact twin's bits, or a race: not evaluated.
    Wrong,
    /// It cannot be compiled or launched.
    Impossible,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// From 1.
    pub round: usize,
    /// What took the most time of what it began with.
    pub limit: Limit,
    /// What was changed, in words.
    pub change: String,
    /// All values that were tried.
    pub parameters: BTreeMap<String, u32>,
    /// What became of it.
    pub verdict: Verdict,
    /// The same as a flag, and not inverted as in the document's listing (D64).
    pub kept: bool,
    /// What it costs, if it was evaluated.
    pub cost: Option<Cost>,
    /// How many times as fast as the baseline.
    pub score: Option<f64>,
    /// Why it was not.
    pub why: Option<String>,
}

/// All rounds, and what they began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    schema: u32,
    /// Of what.
    pub of: Identity,
    /// By how much a candidate must be better: of the baseline's speed.
    pub threshold: f64,
    /// The kernels' own values.
    pub parameters: BTreeMap<String, u32>,
    /// What they cost.
    pub baseline: Cost,
    /// What was tried.
    pub rounds: Vec<Round>,
}

/// What the loop has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The best so far.
    pub evolution: Evolution<Settings>,
    /// What it costs.
    pub cost: Cost,
}

impl History {
    /// One that begins.
    pub fn begin(of: Identity, threshold: f64, parameters: BTreeMap<String, u32>, baseline: Cost) -> Self {
        History { schema: SCHEMA, of, threshold, parameters, baseline, rounds: Vec::new() }
    }

    /// The file's; `None` if there is none yet, for which there must be room.
    pub fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let at = path.display();
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                WholeFile::create(path)?;
                return Ok(None);
            }
            Err(error) => return Err(Failure::new(format!("{at}: cannot read: {error}"))),
        };
        let found: History = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::new(format!("{at}: no history of parity tune: {error}")).help(ANEW))?;
        if found.schema != SCHEMA {
            return Err(Failure::new(format!("{at}: schema {}, expected {SCHEMA}", found.schema)).help(ANEW));
        }
        WholeFile::create(path)?;
        Ok(Some(found))
    }

    /// Refused, if it is of another loop than `of`.
    pub fn require(&self, path: &Path, of: &Identity) -> Result<(), Failure> {
        for name in of.keys().chain(self.of.keys()) {
            let [now, then] = [of, &self.of].map(|all| all.get(name).map_or("nothing", String::as_str));
            if now != then {
                let of_another = format!("the history is of another {name}: {then}, and now it is {now}");
                return Err(Failure::new(format!("{}: {of_another}", path.display())).help(ANEW));
            }
        }
        Ok(())
    }

    /// Writes all of it.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        Ok(whole::write(path, json::text(self)?.as_bytes())?)
    }

    /// How many times as fast as the baseline.
    pub fn score(&self, cost: Cost) -> f64 {
        self.baseline.microseconds / cost.microseconds
    }

    /// What its rounds come to by the loop's rule; refused if a flag says otherwise.
    pub fn state(&self, space: &Space) -> Result<State, Failure> {
        let evolution = Evolution::of(space.settings(&self.parameters)?, 1.0, self.threshold)?;
        let mut state = State { evolution, cost: self.baseline };
        for Round { round, parameters, kept, cost, score, .. } in &self.rounds {
            let settings = space.settings(parameters)?;
            let decided = match (score, cost) {
                (Some(score), Some(cost)) => {
                    let decided = state.evolution.judge(settings, *score, KeptFlag::Decided);
                    state.cost = if decided { *cost } else { state.cost };
                    decided
                }
                _ => false,
            };
            if decided != *kept {
                let [says, rule] = [*kept, decided].map(|kept| if kept { "kept" } else { "not kept" });
                return Err(Failure::new(format!("round {round} of the history is {says}, and by its score {rule}"))
                    .help("the file was changed, or written by a program with an inverted flag (D64): begin anew"));
            }
        }
        Ok(state)
    }
}
