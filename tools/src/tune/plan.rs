//! What to change next: the loop's first two steps, without a language model.
//!
//! Analyse: what takes the most time of the best so far, and which values failed before. Plan: of all changes of one parameter
//! that were not tried, or of two when there is none left, one is drawn; what acts on the bottleneck is likelier, a neighbour
//! of the present value, too, and a value that failed less so.

use std::collections::HashSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cost::Limit;
use super::space::{Settings, Space};

/// How much likelier a change is that acts on the bottleneck.
const ACTS: f64 = 4.0;
/// How much likelier a neighbouring value is.
const NEAR: f64 = 2.0;
/// How much less likely a value is with each failure.
const FAILED: f64 = 0.5;

/// What was tried, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// What was tried.
    pub settings: Settings,
    /// Parameters that were changed.
    pub changed: Vec<usize>,
    /// Whether it could not be evaluated, or was not right.
    pub failed: bool,
}

/// What is to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// All values.
    pub settings: Settings,
    /// Parameters that change.
    pub changed: Vec<usize>,
}

/// The constants that act on a bottleneck.
fn acting(limit: Limit) -> &'static [&'static str] {
    match limit {
        Limit::Memory => {
            &["STAGES", "FEW_STAGES", "TILE_COLS", "WARPS_ACROSS", "THREADS", "BLOCK_WARPS", "BLOCK_TOKENS"]
        }
        Limit::Cache => &["TILE_ROWS", "TILE_COLS", "BLOCK_TOKENS"],
        Limit::Shared => &["TILE_ROWS", "TILE_COLS", "WARPS_DOWN", "WARPS_ACROSS"],
        Limit::Tensor => &["TILE_ROWS", "TILE_COLS"],
        Limit::Launches | Limit::Time => &[],
    }
}

/// The next change of `current`; `None` when nothing is left. A round draws the same, whatever was drawn before it.
pub fn plan(
    space: &Space,
    current: &[u32],
    tried: &[Tried],
    limit: Limit,
    (seed, round): (u64, usize),
) -> Option<Plan> {
    let known: HashSet<&[u32]> = tried.iter().map(|tried| tried.settings.as_slice()).collect();
    let defaults = space.defaults();
    let is_new = |plan: &Plan| !known.contains(plan.settings.as_slice()) && plan.settings != defaults;
    let single = changes(space, &Plan { settings: current.to_vec(), changed: Vec::new() });
    let mut left: Vec<Plan> = single.iter().filter(|plan| is_new(plan)).cloned().collect();
    if left.is_empty() {
        left = single.iter().flat_map(|plan| changes(space, plan)).filter(is_new).collect();
    }
    let weights: Vec<f64> = left.iter().map(|plan| weight(space, current, plan, tried, limit)).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(round as u64);
    let mut drawn = rng.random_range(0.0..1.0) * weights.iter().sum::<f64>();
    for (plan, weight) in left.iter().zip(&weights) {
        drawn -= weight;
        if drawn < 0.0 {
            return Some(plan.clone());
        }
    }
    left.pop()
}

/// One more parameter of a plan changed, after those that are.
fn changes(space: &Space, plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let first = plan.changed.last().map_or(0, |last| last + 1);
    for (i, parameter) in space.parameters.iter().enumerate().skip(first) {
        for &value in parameter.values.iter().filter(|value| **value != plan.settings[i]) {
            let mut next = plan.clone();
            next.settings[i] = value;
            next.changed.push(i);
            all.push(next);
        }
    }
    all
}

fn weight(space: &Space, current: &[u32], plan: &Plan, tried: &[Tried], limit: Limit) -> f64 {
    let of_change = |&i: &usize| {
        let parameter = &space.parameters[i];
        let value = plan.settings[i];
        let acts = if acting(limit).contains(&parameter.constant) { ACTS } else { 1.0 };
        let below = |value: u32| parameter.values.iter().filter(|other| **other < value).count();
        let near = if below(current[i]).abs_diff(below(value)) == 1 { NEAR } else { 1.0 };
        let is_failure = |tried: &&Tried| tried.failed && tried.changed.contains(&i) && tried.settings[i] == value;
        let failures = tried.iter().filter(is_failure).count();
        acts * near * FAILED.powi(i32::try_from(failures).unwrap_or(i32::MAX))
    };
    plan.changed.iter().map(of_change).product()
}
