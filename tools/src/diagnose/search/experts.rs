//! Experts that have the weights of others, or none.
//!
//! The layer is run once for each distance between two experts' numbers, so that for every token and each expert that it was sent to,
//! it is known what every other expert would have given. From these, each expert is given the weights, or zeros, that bring the
//! site nearest to the candidate, one after the other, until no other choice comes nearer.

use ndarray::{Array1, Array2};
use reference::config::FeedForward;
use reference::{LayerSite, RoundingContract, Site};

use super::{Bench, kinds, suspects};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::Order;
use crate::diagnose::catalogue::tensors::{Projections, TensorChange};
use crate::failure::Failure;

/// Experts of a model of which each is put in the place of each other.
const EXPERTS: usize = 16;

/// Of more, those that stand out are exchanged, two at a time.
const EXCHANGED: usize = 6;

/// A share of the squares by which a choice must come nearer.
const NEARER: f64 = 1e-3;

/// What an expert adds to a row.
struct Slot {
    row: usize,
    expert: usize,
    /// Its row in the tables.
    at: usize,
    weight: f64,
}

/// All slots, and what each expert's weights would make of them.
struct Tables {
    slots: Vec<Slot>,
    /// Of a shift by n: the weights of expert e + n in the place of those of e.
    shifted: Vec<Array2<f64>>,
}

/// Every permutation of the experts' projections, or of some of them.
pub(super) fn search(bench: &Bench<'_, '_>) -> Result<Vec<Assumed>, Failure> {
    let Site::Layer(layer, site) = bench.site else { return Ok(Vec::new()) };
    let config = bench.config();
    let (layer_is, experts) = (config.layer(layer).feed_forward, config.num_local_experts);
    let has = |site| bench.suspects.contains(&Site::Layer(layer, site));
    let (hidden, output) = (has(LayerSite::ExpertHidden), has(LayerSite::ExpertOutput));
    if layer_is != FeedForward::Experts || !(hidden || output) || experts < 2 {
        return Ok(Vec::new());
    }
    let which: &[Projections] = match (hidden, output) {
        (true, true) => &[Projections::All, Projections::GateUp, Projections::Down, Projections::Gate, Projections::Up],
        (true, false) => &[Projections::All, Projections::GateUp, Projections::Gate, Projections::Up],
        _ => &[Projections::Down],
    };
    if experts > EXPERTS {
        return Ok(exchanges(bench, which, experts));
    }
    let scale = if matches!(site, LayerSite::Mlp | LayerSite::Output) && config.is_shared(layer) {
        bench.before().reading(layer).routed_scale.unwrap_or(config.routed_scaling_factor)
    } else {
        1.0
    };
    let mut found = Vec::new();
    for &which in which {
        let Some(Tables { slots, shifted }) = tables(bench, (layer, site), which, experts, scale)? else { continue };
        let order = settle(bench, &slots, &shifted, experts);
        let dead = order.iter().filter(|from| from.is_none()).count();
        let moved = order.iter().enumerate().filter(|(e, from)| from.is_some_and(|from| *e != from)).count();
        // A single tensor of zeros is found as such.
        if moved > 0 || dead > 1 {
            let kind = if moved > 0 { &kinds::EXPERTS } else { &kinds::ZERO };
            found.push(bench.assumed(kind, TensorChange::Experts(which, order)));
        }
    }
    Ok(found)
}

/// Two experts in each other's place, of those whose tokens are the furthest off.
fn exchanges(bench: &Bench<'_, '_>, which: &[Projections], experts: usize) -> Vec<Assumed> {
    let off = suspects::standing_out(bench, EXCHANGED);
    let pairs = off.iter().enumerate().flat_map(|(i, a)| off[i + 1..].iter().map(move |b| (*a, *b)));
    let exchanged = |(a, b)| {
        let mut order: Order = (0..experts).map(Some).collect();
        order.swap(a, b);
        order
    };
    let orders: Vec<Order> = pairs.map(exchanged).collect();
    let of = |which| orders.iter().map(move |order| TensorChange::Experts(which, order.clone()));
    which.iter().flat_map(|which| of(*which)).map(|change| bench.assumed(&kinds::EXPERTS, change)).collect()
}

/// What each slot adds, and what it would under the weights of each expert.
fn tables(
    bench: &Bench<'_, '_>,
    (layer, site): (usize, LayerSite),
    which: Projections,
    experts: usize,
    scale: f64,
) -> Result<Option<Tables>, Failure> {
    let Some(chosen) = &bench.twin.experts else { return Ok(None) };
    let k = chosen.ncols();
    let is_apart = matches!(site, LayerSite::ExpertHidden | LayerSite::ExpertOutput);
    let [outputs, weights] = [LayerSite::ExpertOutput, LayerSite::GateWeights].map(|site| Site::Layer(layer, site));
    let rows = if is_apart { chosen.len() } else { chosen.nrows() };
    if bench.candidate.nrows() != rows {
        return Ok(None); // some tokens are not shown
    }
    // Of a shift by n, expert e has the weights of e + n.
    let mut shifted = Vec::with_capacity(experts);
    let mut routing = Array2::zeros((0, 0));
    for shift in 0..experts {
        let order = (0..experts).map(|e| Some((e + shift) % experts)).collect();
        let assumed = [bench.assumed(&kinds::EXPERTS, TensorChange::Experts(which, order))];
        let mut run = bench.rerun(&assumed, RoundingContract::IDEAL, &[outputs, weights])?;
        let values = if is_apart { Some(run.computed) } else { run.beside.remove(&outputs) };
        let Some(values) = values.filter(|values| values.nrows() == chosen.len()) else { return Ok(None) };
        routing = run.beside.remove(&weights).unwrap_or_default();
        shifted.push(values);
    }
    if !is_apart && routing.dim() != chosen.dim() {
        return Ok(None);
    }
    let slot = |((token, s), &expert): ((usize, usize), &usize)| {
        let at = token * k + s;
        if is_apart {
            Slot { row: at, expert, at, weight: 1.0 }
        } else {
            Slot { row: token, expert, at, weight: scale * routing[[token, s]] }
        }
    };
    Ok(Some(Tables { slots: chosen.indexed_iter().map(slot).collect(), shifted }))
}

/// Whose weights each expert has, if any: one after the other is given those that come nearest, or two each other's.
fn settle(bench: &Bench<'_, '_>, slots: &[Slot], shifted: &[Array2<f64>], experts: usize) -> Order {
    let mut order: Order = (0..experts).map(Some).collect();
    let mut apart = &bench.candidate - &bench.ideal;
    let counts = bench.counts();
    let nothing = Array1::zeros(bench.candidate.ncols());
    let of = |slot: &Slot, from: Option<usize>| match from {
        Some(from) => shifted[(from + experts - slot.expert) % experts].row(slot.at),
        None => nothing.view(),
    };
    let used = suspects::chosen(bench);
    let total = |apart: &Array2<f64>| -> f64 {
        apart.rows().into_iter().zip(counts).map(|(row, count)| count * row.dot(&row)).sum()
    };
    let least = NEARER * total(&apart);
    for _ in 0..2 * experts {
        let mut best: Option<(f64, usize, Option<usize>)> = None;
        for &expert in &used {
            let mine: Vec<&Slot> = slots.iter().filter(|slot| slot.expert == expert).collect();
            for from in (0..experts).map(Some).chain([None]).filter(|from| *from != order[expert]) {
                let gain: f64 = mine
                    .iter()
                    .map(|slot| {
                        let moved: Array1<f64> = (&of(slot, from) - &of(slot, order[expert])) * slot.weight;
                        // ‖r‖² − ‖r − m‖² = 2·r·m − ‖m‖²
                        counts[slot.row] * (2.0 * apart.row(slot.row).dot(&moved) - moved.dot(&moved))
                    })
                    .sum();
                if gain > least && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, expert, from));
                }
            }
        }
        let change = |apart: &mut Array2<f64>, expert: usize, [now, from]: [Option<usize>; 2]| {
            for slot in slots.iter().filter(|slot| slot.expert == expert) {
                let moved: Array1<f64> = (&of(slot, from) - &of(slot, now)) * slot.weight;
                let mut row = apart.row_mut(slot.row);
                row -= &moved;
            }
        };
        if let Some((_, expert, from)) = best {
            change(&mut apart, expert, [order[expert], from]);
            order[expert] = from;
            continue;
        }
        // Where no expert alone comes nearer, two may that exchange what they have.
        let pairs = used.iter().enumerate().flat_map(|(i, a)| used[i + 1..].iter().map(move |b| (*a, *b)));
        let exchanged = pairs.filter(|(a, b)| order[*a] != order[*b]).map(|(a, b)| {
            let mut under = apart.clone();
            change(&mut under, a, [order[a], order[b]]);
            change(&mut under, b, [order[b], order[a]]);
            (total(&under), a, b, under)
        });
        let nearest = exchanged.min_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let Some((_, a, b, under)) = nearest.filter(|(left, ..)| total(&apart) - left > least) else { break };
        order.swap(a, b);
        apart = under;
    }
    order
}
