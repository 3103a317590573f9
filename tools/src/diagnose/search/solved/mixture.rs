//! The experts whose outputs a token's sum has, and how often.
//!
//! ```text
//! yᵢ − ŷᵢ = Σ dᵢₑ·Eₑ(xᵢ)        over all experts e, for each token i; solved for d
//! ```
//!
//! with y the candidate's and ŷ the right values at the experts' sum or behind it. That expert e was used with the weight
//! wᵢₑ + dᵢₑ, where wᵢₑ is the right one, is said where the equation leaves next to nothing: of a layer of at least twice as many
//! channels as experts, so that as many equations as unknowns are left to hold it to.

use std::collections::{BTreeSet, HashMap};

use ndarray::{Array1, Array2, Axis};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::least_squares::solve;
use super::rule::{self, Entry};
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// What may be left of the squares of a difference that the experts' outputs explain. E columns that have nothing to do with it
/// leave 1 − E/H of it, at least a half; roundings a seventh as large as the fault leave so much.
const LEFT: f64 = 0.02;

/// Standard deviations that a weight is not off by chance.
const CERTAIN: f64 = 8.0;

/// A share of a token's largest weight below which a weight is none: what bf16 leaves of it, several times.
const NONE: f64 = 0.02;

/// How far a weight may be from another's, as a share, to be the same: experts' weights of one token differ by more.
const SAME: f64 = 0.05;

/// Multiplications that are spent on experts.
const BUDGET: usize = 40_000_000_000;

/// Experts of a token whose subsets are gone through.
const MOST_CHOICES: usize = 12;

/// Rows told one by one.
const TOLD: usize = 4;

/// A token's experts.
struct Row {
    token: usize,
    right: Array1<f64>,
    used: Array1<f64>,
    /// Below which a weight is none.
    none: f64,
}

pub(super) fn describe(bench: &Bench<'_, '_>) -> Result<Vec<String>, Failure> {
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
    let apart = &bench.candidate - &bench.ideal;
    let rows = furthest(bench, 3 * experts * config.intermediate_size * config.hidden_size);
    let read = Tracked { value: x.select(Axis(0), &rows), error: None };
    let each: Vec<Array2<f64>> = bench.with_model(|model| {
        let mut probe = NoProbe;
        let run = Run::new(RoundingContract::IDEAL, &mut probe);
        (0..experts).map(|expert| Ok(model.expert(layer, expert, &read, &run)?.value)).collect()
    })?;
    let (mut solved, mut unsolved) = (Vec::new(), BTreeSet::new());
    for (i, &token) in rows.iter().enumerate() {
        let outputs = Array2::from_shape_fn((apart.ncols(), experts), |(j, e)| scale * each[e][[i, j]]);
        let mut right = Array1::zeros(experts);
        chosen.row(token).iter().zip(w.row(token)).for_each(|(&e, &w)| right[e] += w);
        let none = NONE * right.fold(0.0, |most: f64, w| most.max(*w));
        let row = |used, none| Row { token, right: right.clone(), used, none };
        if !bench.row_is_off(token) {
            solved.push(row(right.clone(), none));
            continue;
        }
        match solve(outputs.view(), apart.row(token)).filter(|solution| solution.left < LEFT) {
            Some(solution) => {
                let none = solution.deviation.iter().fold(none, |most, sigma| most.max(CERTAIN * sigma));
                let used = &right + &Array1::from(solution.x).mapv(|d| if d.abs() < none { 0.0 } else { d });
                solved.push(row(used, none));
            }
            None => {
                unsolved.insert(token);
            }
        }
    }
    Ok(told(&solved, &unsolved, chosen))
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

fn told(solved: &[Row], unsolved: &BTreeSet<usize>, chosen: &Array2<usize>) -> Vec<String> {
    let known = |token: &usize| solved.iter().any(|row| row.token == *token);
    let all = entries(chosen);
    let of = |entry: &Entry| solved.iter().find(|row| row.token == entry.token).expect("a token that is known");
    // What counts for next to nothing tells nothing.
    let counts = |entry: &&Entry| known(&entry.token) && of(entry).right[entry.expert] > of(entry).none;
    let of_known: Vec<Entry> = all.iter().filter(counts).copied().collect();
    let is_lost = |entry: &&Entry| of(entry).used[entry.expert].abs() <= of(entry).none;
    let lost: Vec<Entry> = of_known.iter().filter(is_lost).copied().collect();
    let mut said = Vec::new();
    if let Some(shifted) = told_shifted(solved, &of_known) {
        said.push(shifted);
        said.extend(told_unsolved(unsolved, &all));
        return said;
    }
    if !lost.is_empty() {
        said.push(told_lost(&lost, &of_known, &of));
    }
    let is_other = |entry: &&Entry| {
        let row = of(entry);
        let (right, used) = (row.right[entry.expert], row.used[entry.expert]);
        (used - right).abs() > row.none && used.abs() > row.none
    };
    let other: Vec<Entry> = of_known.iter().filter(is_other).copied().collect();
    if !other.is_empty() {
        let times = |entry: &Entry| of(entry).used[entry.expert] / of(entry).right[entry.expert];
        said.push(told_times(&other, &of_known, times));
    }
    said.extend(told_unsolved(unsolved, &all));
    said
}

/// Where some of the tokens' experts are computed by those so many further, and nothing else differs.
fn told_shifted(solved: &[Row], all: &[Entry]) -> Option<String> {
    let experts = solved.first()?.right.len();
    let shifts = [1, experts - 1].into_iter().chain(2..experts - 1);
    let found = shifts.filter_map(|shift| Some((shift, shifted(solved, all, shift)?)));
    let (shift, affected) = found.filter(|(_, affected)| !affected.is_empty()).min_by_key(|(_, of)| of.len())?;
    let what = match shift {
        1 => "the next expert computes in an expert's place".to_owned(),
        _ if shift + 1 == experts => "the expert before it computes in an expert's place".to_owned(),
        _ => format!("expert (e + {shift}) mod {experts} computes in place of expert e"),
    };
    Some(format!("{what}: {}", told_where(&affected, all)))
}

/// The choices that have to be another expert's for the weights to be those that were used.
fn shifted(solved: &[Row], all: &[Entry], shift: usize) -> Option<Vec<Entry>> {
    let mut affected = Vec::new();
    for row in solved {
        let own: Vec<Entry> = all.iter().filter(|entry| entry.token == row.token).copied().collect();
        let experts = row.right.len();
        let is = |subset: &u32| {
            let mut weights = row.right.clone();
            for entry in own.iter().filter(|entry| subset >> entry.slot & 1 == 1) {
                weights[entry.expert] -= row.right[entry.expert];
                weights[(entry.expert + shift) % experts] += row.right[entry.expert];
            }
            weights.iter().zip(&row.used).all(|(w, used)| (w - used).abs() <= SAME * w.abs() + row.none)
        };
        if own.len() > MOST_CHOICES {
            return None;
        }
        let subset = (0..1_u32 << own.len()).find(is)?;
        affected.extend(own.into_iter().filter(|entry| subset >> entry.slot & 1 == 1));
    }
    Some(affected)
}

/// What became of the outputs that a sum lacks: another expert's in their place, or nothing.
fn told_lost<'r>(lost: &[Entry], all: &[Entry], of: &impl Fn(&Entry) -> &'r Row) -> String {
    let experts = of(&lost[0]).right.len();
    let instead = |entry: &Entry| {
        let row = of(entry);
        let wanted = row.right[entry.expert];
        let is = |e: &usize| (row.used[*e] - row.right[*e] - wanted).abs() <= SAME * wanted.abs() + row.none;
        (0..experts).find(is)
    };
    let places: Option<Vec<usize>> = lost.iter().map(instead).collect();
    let what = match &places {
        Some(places) => {
            let told = lost.iter().zip(places).take(TOLD);
            let told = told.map(|(entry, e)| format!("{e} for {} at token {}", entry.expert, entry.token));
            format!("another expert computes in an expert's place, {}", told.collect::<Vec<_>>().join(", "))
        }
        None => "what an expert says is left out of the sum".to_owned(),
    };
    format!("{what}: {}", told_where(lost, all))
}

fn told_times(other: &[Entry], all: &[Entry], times: impl Fn(&Entry) -> f64) -> String {
    let factors: Vec<f64> = other.iter().map(&times).collect();
    let (least, most) = factors.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), f| (a.min(*f), b.max(*f)));
    let range = if most - least < SAME * most.abs() {
        format!("{:.3}", f64::midpoint(least, most))
    } else {
        format!("{least:.3} to {most:.3}")
    };
    format!("an expert's weight is {range} times the right one: {}", told_where(other, all))
}

/// Which they are: a rule that they alone follow, or the first.
fn told_where(affected: &[Entry], all: &[Entry]) -> String {
    let rule = rule::common(all, affected);
    rule.unwrap_or_else(|| {
        let first = affected.iter().take(TOLD).map(|entry| format!("{} at token {}", entry.expert, entry.token));
        let listed = first.collect::<Vec<_>>().join(", ");
        format!("{} of {}, expert {listed}, …", affected.len(), all.len())
    })
}

/// Tokens whose difference no expert's output explains, where each was sent to one that is alone concerned.
fn told_unsolved(unsolved: &BTreeSet<usize>, all: &[Entry]) -> Option<String> {
    let of = |token: &usize| all.iter().filter(|entry| entry.token == *token).map(|e| e.expert).collect();
    let sets: Vec<BTreeSet<usize>> = unsolved.iter().map(of).collect();
    let (first, others) = sets.split_first()?;
    let common = others.iter().fold(first.clone(), |common, set| &common & set);
    if others.is_empty() || common.len() != 1 {
        return None;
    }
    let affected: Vec<Entry> =
        all.iter().filter(|e| unsolved.contains(&e.token) && common.contains(&e.expert)).copied().collect();
    let expert = affected[0].expert;
    let of_expert: Vec<Entry> = all.iter().filter(|entry| entry.expert == expert).copied().collect();
    let rule = rule::common(&of_expert, &affected).unwrap_or_else(|| format!("{} tokens", affected.len()));
    Some(format!("what is off is no expert's output; it is there where expert {expert} was chosen: {rule}"))
}

fn entries(chosen: &Array2<usize>) -> Vec<Entry> {
    let mut passed: HashMap<usize, usize> = HashMap::new();
    let each = chosen.indexed_iter().map(|((token, slot), &expert)| {
        let seen = passed.entry(expert).or_default();
        let rank = *seen;
        *seen += 1;
        let is_paired = chosen.row(token).iter().any(|other| *other == expert ^ 1);
        Entry { token, slot, expert, rank, is_paired }
    });
    each.collect()
}
