//! The experts whose outputs a token's sum has, and how often.
//!
//! ```text
//! yᵢ − ŷᵢ = c·Σₑ dᵢₑ·Eₑ(xᵢ)        over all experts e, for each token i; solved for d
//! ```
//!
//! with y the candidate's and ŷ the right values at the experts' sum or behind it; c is 1 at the sum, and the factor of routed
//! experts behind it. Expert e was used with the weight wᵢₑ + dᵢₑ, where wᵢₑ is the right one: that is said where the equation
//! leaves next to nothing, of a layer of at least twice as many channels as experts, so that as many equations as unknowns are
//! left to hold it to. Before that, [`tokens`] has what follows if tokens have others' inputs or routing, and [`outputs`], if they
//! have others' outputs; behind it, the [`law`] that weights follow, [`choices`] that are off, [`told`], what tokens have in common,
//! [`inside`], rows of a gate that have factors, and [`directions`], those in which one expert's output is off.

mod choices;
mod directions;
mod inside;
mod law;
mod outputs;
mod row;
mod tokens;
mod told;

use std::collections::BTreeSet;

use ndarray::{Array1, Array2, Axis};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use self::row::Row;
use super::least_squares;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// What may be left of the squares of a difference, and of the sum, that the experts' outputs explain. E columns that have nothing
/// to do with it leave 1 − E/H of it, at least a half; roundings a seventh as large as the fault leave so much.
const LEFT: f64 = 0.02;

/// The same where roundings of that size are known to be there: of a third of the fault.
const COARSE: f64 = 0.1;

/// Standard deviations that a weight is not off by chance.
const CERTAIN: f64 = 8.0;

/// A share of a token's largest weight below which a weight is none: what bf16 leaves of it, several times.
const NONE: f64 = 0.02;

/// Multiplications that are spent on experts: some seconds of a processor, and of a released model a few tokens.
const BUDGET: usize = 40_000_000_000;

/// A sum of experts' outputs, with what is off.
struct Mixture<'a, 'b, 'c> {
    bench: &'a Bench<'b, 'c>,
    /// The candidate's values less its twin's.
    apart: &'a Array2<f64>,
    /// Each token's experts, and their weights.
    chosen: &'a Array2<usize>,
    weights: &'a Array2<f64>,
    /// c.
    scale: f64,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Layer(layer, at @ (LayerSite::Experts | LayerSite::Mlp | LayerSite::Output)) = bench.site else {
        return Ok(Vec::new());
    };
    let of_layer = |site| Site::Layer(layer, site);
    if !bench.suspects.contains(&of_layer(LayerSite::Experts)) {
        return Ok(Vec::new());
    }
    let config = bench.config();
    let [normed, weights] = [LayerSite::PostAttentionNorm, LayerSite::GateWeights].map(of_layer);
    let rerun = bench.rerun(&[], RoundingContract::IDEAL, &[normed, weights])?;
    let (Some(x), Some(w), Some(chosen)) = (rerun.beside.get(&normed), rerun.beside.get(&weights), &rerun.experts)
    else {
        return Ok(Vec::new());
    };
    let experts = config.num_local_experts;
    if x.nrows() != bench.candidate.nrows() || w.dim() != chosen.dim() || 2 * experts > bench.candidate.ncols() {
        return Ok(Vec::new());
    }
    let scale = if at == LayerSite::Experts { 1.0 } else { config.routed_scaling_factor };
    // What is rounded on the way is rounded in the twin, too.
    let apart = &bench.candidate - &bench.twin.computed;
    let rows = furthest(bench, 3 * experts * config.intermediate_size * config.hidden_size);
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let read = Tracked { value: x.select(Axis(0), &rows), error: None };
    let each: Vec<Array2<f64>> = bench.with_model(|model| {
        let mut probe = NoProbe;
        let run = Run::new(RoundingContract::IDEAL, &mut probe);
        (0..experts).map(|expert| Ok(model.expert(layer, expert, &read, &run)?.value)).collect()
    })?;
    let mixture = Mixture { bench, apart: &apart, chosen, weights: w, scale };
    if rows.len() == x.nrows()
        && let Some(found) = mixture.of_other_tokens(&each)
    {
        return Ok(vec![found]);
    }
    let (mut solved, mut unsolved) = (Vec::new(), BTreeSet::new());
    let mut values = bench.ideal.clone();
    for (i, &token) in rows.iter().enumerate() {
        let outputs = Array2::from_shape_fn((apart.ncols(), experts), |(j, e)| scale * each[e][[i, j]]);
        let mut right = Array1::zeros(experts);
        chosen.row(token).iter().zip(w.row(token)).for_each(|(&e, &w)| right[e] += w);
        let none = NONE * right.fold(0.0, |most: f64, w| most.max(*w));
        if !bench.row_is_off(token) {
            solved.push(Row { token, used: right.clone(), exact: right.clone(), right, none, same: 0.0 });
            continue;
        }
        let own = apart.row(token);
        // A sum that is small beside the right one is near to nothing at all, which says nothing of its experts.
        let (fault, sum) = (own.dot(&own), &own + &outputs.dot(&right));
        let left = (LEFT * fault.min(sum.dot(&sum))).max(bench.noise(token).powi(2).min(COARSE * fault));
        let Some(found) = least_squares::solve(outputs.view(), own).filter(|found| found.left * fault < left) else {
            unsolved.insert(token);
            continue;
        };
        let error = found.deviation.iter().fold(0.0, |most: f64, sigma| most.max(CERTAIN * sigma));
        let none = none.max(error);
        let found = Array1::from(found.x);
        let exact = &right + &found;
        let more = found.mapv(|d| if d.abs() < none { 0.0 } else { d });
        values.row_mut(token).scaled_add(1.0, &outputs.dot(&more));
        let used = &right + &more;
        let least =
            used.iter().filter(|used| used.abs() > none).fold(f64::INFINITY, |least, used| least.min(used.abs()));
        solved.push(Row { token, used, exact, right, none, same: error / least });
    }
    if !unsolved.is_empty()
        && let Some(found) = mixture.inside(layer, x)?
    {
        return Ok(vec![found]);
    }
    let off: Vec<usize> = rows.iter().copied().filter(|token| bench.row_is_off(*token)).collect();
    if off.len() == unsolved.len()
        && let Some(found) = mixture.of_directions(experts, &off)
    {
        return Ok(vec![found]);
    }
    if unsolved.is_empty()
        && let Some(found) = mixture.of_law(layer, &solved, &each)?
    {
        return Ok(vec![found]);
    }
    let said = match choices::told(bench, layer, &solved, chosen.ncols())? {
        Some(said) => vec![said],
        None => told::of_solved(&solved, chosen),
    };
    let mut found = Vec::new();
    if !said.is_empty() {
        let solution = Solution::new(said, values);
        found.push(match used(w, chosen, &solved) {
            Some(used) => solution.or_stored(bench, bench.twin_with((weights, &used))?),
            None => solution,
        });
    }
    found.extend(told::of_unsolved(&unsolved, chosen).map(Solution::without_values));
    Ok(found)
}

/// The weights of each token's experts that were used, if all that were are its own.
fn used(right: &Array2<f64>, chosen: &Array2<usize>, solved: &[Row]) -> Option<Array2<f64>> {
    let mut weights = right.clone();
    for row in solved {
        let of_token = chosen.row(row.token);
        let is_own = |expert: usize| row.used[expert].abs() <= row.none || of_token.iter().any(|own| *own == expert);
        if !(0..row.used.len()).all(is_own) {
            return None;
        }
        for (weight, &expert) in weights.row_mut(row.token).iter_mut().zip(of_token) {
            let used = row.used[expert];
            if used != row.right[expert] {
                *weight = if used.abs() <= row.none { 0.0 } else { used };
            }
        }
    }
    Some(weights)
}

/// Tokens, as many as the budget has, the furthest off first; in their order.
fn furthest(bench: &Bench<'_, '_>, cost: usize) -> Vec<usize> {
    let off = bench.off_by_row();
    let mut rows: Vec<usize> = (0..off.len()).collect();
    rows.sort_by(|a, b| off[*b].total_cmp(&off[*a]));
    rows.truncate(BUDGET / cost.max(1));
    rows.sort_unstable();
    rows
}
