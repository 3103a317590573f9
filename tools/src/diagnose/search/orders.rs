//! Parts of a weight that have each other's values: heads of queries and keys, where no value of the site is one head's alone, and
//! parts of norms.

use reference::weights::{LayerWeight, Weight};

use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::{Order, exchanged};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};

/// Heads of which every two are exchanged, and those that are shifted by any number.
const PAIRS: usize = 8;
const SHIFTS: usize = 16;

/// Into how many parts a norm's weight is cut, beside heads, and of how many every two are exchanged.
const CUTS: [usize; 2] = [2, 4];
const PAIRS_OF_NORMS: usize = 2;

/// The orders of so many parts that indices go wrong in: two exchanged, of so many at most, all shifted, from the last to the first, and
/// by turns.
fn orders(parts: usize, most_in_pairs: usize) -> Vec<Order> {
    let pairs = (0..parts).flat_map(|a| (a + 1..parts).map(move |b| (a, b))).filter(|_| parts <= most_in_pairs);
    let pairs = pairs.map(|(a, b)| -> Order { (0..parts).map(|i| Some(exchanged(a, b, i))).collect() });
    let shifts = (1..parts).filter(|by| parts <= SHIFTS || 2 * by == parts || *by == 1 || by + 1 == parts);
    let shifted = shifts.map(|by| (0..parts).map(|i| Some((i + by) % parts)).collect());
    let turns = (2..parts).filter(|n| parts.is_multiple_of(*n));
    let by_turns = turns.map(|n| (0..parts).map(|i| Some(i % n * (parts / n) + i / n)).collect());
    let mut all: Vec<Order> = Vec::new();
    for order in pairs.chain(shifted).chain([(0..parts).rev().map(Some).collect()]).chain(by_turns) {
        if !all.contains(&order) {
            all.push(order);
        }
    }
    all
}

/// Every such tensor on the way.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let mut found = Vec::new();
    for Suspect { of, first, head } in suspects::of(bench) {
        let Some(rows) = suspects::rows_of(of, &config) else { continue };
        if first.is_none()
            && matches!(of, Weight::Layer(_, LayerWeight::QProj | LayerWeight::KProj | LayerWeight::IndexQProj))
            && let Some(each) = head.filter(|each| rows.is_multiple_of(*each))
        {
            let all = orders(rows / each, PAIRS).into_iter();
            found.extend(all.map(|order| bench.assumed(&kinds::ROWS, TensorChange::Rows(of, each, order))));
        }
        if of.is_norm() && !matches!(of, Weight::Vision(_)) {
            let cuts = CUTS.into_iter().filter(|parts| rows.is_multiple_of(*parts)).map(|parts| rows / parts);
            let of_heads = head.filter(|each| rows.is_multiple_of(*each) && *each < rows);
            let mut sizes: Vec<usize> = of_heads.into_iter().chain(cuts).filter(|each| *each > 0).collect();
            sizes.sort_unstable_by_key(|each| std::cmp::Reverse(*each));
            sizes.dedup();
            let mut known: Vec<Vec<usize>> = Vec::new();
            for each in sizes {
                for order in orders(rows / each, PAIRS_OF_NORMS) {
                    let channels = order.iter().flatten().flat_map(|part| part * each..(part + 1) * each).collect();
                    // What larger parts say is not said again.
                    if !known.contains(&channels) {
                        let change = TensorChange::Inputs(Tensors::One(of), each, order);
                        found.push(bench.assumed(&kinds::COLUMNS, change));
                        known.push(channels);
                    }
                }
            }
            found.push(bench.assumed(&kinds::NOT_LOADED, TensorChange::AllOnes(of)));
        }
    }
    found
}
