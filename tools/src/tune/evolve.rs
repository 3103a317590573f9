//! The loop: analyse, plan, modify, evaluate, keep or revert.

use reference::evolution::KeptFlag;

use super::cost::Cost;
use super::history::{History, Identity, Round, State, Verdict};
use super::plan::{Plan, Tried, plan};
use super::space::Space;
use crate::failure::Failure;

/// What is tuned. An inner error says why a candidate cannot be; a failure ends the loop.
pub trait Subject {
    /// Its parameters.
    fn space(&self) -> &Space;
    /// Whether a candidate is right: the exact twin's bits, without a race.
    fn prove(&mut self, settings: &[u32]) -> Result<Proof, Failure>;
    /// What it costs.
    fn evaluate(&mut self, settings: &[u32]) -> Result<Result<Cost, String>, Failure>;
}

/// Whether a candidate is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// It is.
    Right,
    /// It is not, and why.
    Wrong(String),
    /// It cannot be run, and why.
    Impossible(String),
}

/// How the loop is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// Rounds, at most, those of the history among them.
    pub rounds: usize,
    /// θ.
    pub threshold: f64,
    /// Of the draws.
    pub seed: u64,
}

/// The history of what is tuned: what a file has, or one that begins with the kernels as they are.
pub fn begun(
    subject: &mut dyn Subject,
    asked: Asked,
    of: Identity,
    found: Option<History>,
) -> Result<History, Failure> {
    if let Some(found) = found {
        return Ok(found);
    }
    let defaults = subject.space().defaults();
    let own = |why: String| Failure::new(format!("the kernels as they are: {why}"));
    match subject.prove(&defaults)? {
        Proof::Right => {}
        Proof::Wrong(why) | Proof::Impossible(why) => return Err(own(why)),
    }
    let baseline = subject.evaluate(&defaults)?.map_err(own)?;
    if !is_time(baseline) {
        return Err(own(format!("{} µs is no time", baseline.microseconds)));
    }
    Ok(History::begin(of, asked.threshold, subject.space().named(&defaults), baseline))
}

/// Goes on with a history until there are as many rounds as are asked for, or nothing is left to try; `told` is told of it
/// after each round.
pub fn evolve(
    subject: &mut dyn Subject,
    asked: Asked,
    history: &mut History,
    mut told: impl FnMut(&History) -> Result<(), Failure>,
) -> Result<State, Failure> {
    let mut state = history.state(subject.space())?;
    let mut tried =
        history.rounds.iter().map(|round| tried(subject.space(), history, round)).collect::<Result<Vec<_>, _>>()?;
    while history.rounds.len() < asked.rounds {
        let (round, limit) = (history.rounds.len() + 1, state.cost.limit);
        let current = state.evolution.state().clone();
        let Some(next) = plan(subject.space(), &current, &tried, limit, (asked.seed, round)) else { break };
        let (verdict, cost, why) = outcome(subject, &next.settings)?;
        let score = cost.map(|cost| history.score(cost));
        let kept = score.is_some_and(|score| state.evolution.judge(next.settings.clone(), score, KeptFlag::Decided));
        if let (true, Some(cost)) = (kept, cost) {
            state.cost = cost;
        }
        let verdict = if kept { Verdict::Kept } else { verdict };
        let change = in_words(subject.space(), &current, &next);
        let parameters = subject.space().named(&next.settings);
        history.rounds.push(Round { round, limit, change, parameters, verdict, kept, cost, score, why });
        tried.push(Tried { settings: next.settings, changed: next.changed, failed: cost.is_none() });
        told(history)?;
    }
    Ok(state)
}

/// Whether a candidate can be scored by it.
fn is_time(cost: Cost) -> bool {
    cost.microseconds.is_finite() && cost.microseconds > 0.0
}

/// A candidate that is not right is not evaluated.
fn outcome(subject: &mut dyn Subject, settings: &[u32]) -> Result<(Verdict, Option<Cost>, Option<String>), Failure> {
    Ok(match subject.prove(settings)? {
        Proof::Wrong(why) => (Verdict::Wrong, None, Some(why)),
        Proof::Impossible(why) => (Verdict::Impossible, None, Some(why)),
        Proof::Right => match subject.evaluate(settings)? {
            Ok(cost) if !is_time(cost) => {
                (Verdict::Impossible, None, Some(format!("{} µs is no time", cost.microseconds)))
            }
            Ok(cost) => (Verdict::Reverted, Some(cost), None),
            Err(why) => (Verdict::Impossible, None, Some(why)),
        },
    })
}

/// `linear.STAGES 4 → 5`.
fn in_words(space: &Space, current: &[u32], plan: &Plan) -> String {
    let of = |&i: &usize| format!("{} {} → {}", space.parameters[i].name(), current[i], plan.settings[i]);
    plan.changed.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// A round of a history, as plans see it: changed is what differs from the best before it.
fn tried(space: &Space, history: &History, round: &Round) -> Result<Tried, Failure> {
    let settings = space.settings(&round.parameters)?;
    let before = history.rounds.iter().take(round.round.saturating_sub(1)).rfind(|round| round.kept);
    let before = space.settings(before.map_or(&history.parameters, |round| &round.parameters))?;
    let changed = (0..settings.len()).filter(|&i| settings[i] != before[i]).collect();
    Ok(Tried { settings, changed, failed: round.cost.is_none() })
}
