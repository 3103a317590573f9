//! Output channels, or heads, that have the values of others.

use std::collections::BTreeSet;
use std::ops::Range;

use reference::weights::{LayerWeight, Weight};

use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::order::Order;
use crate::diagnose::catalogue::tensors::TensorChange;

/// A share of a column's squares by which it may be off and still be taken for another's.
const SAME: f64 = 1e-2;

/// Rows of the site from which on a column that looks like another's is no coincidence.
const ROWS: usize = 8;

/// Every tensor whose output channels are the site's columns, as they are or normed; a weight together with its bias, too.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Vec<Assumed>> {
    let config = bench.config();
    let mut found = Vec::new();
    for Suspect { of, first, head } in suspects::of(bench) {
        let is_normed = suspects::is_norm_of(of, bench.site);
        let Some(first) = first.or(is_normed.then_some(0)) else { continue };
        // Experts' rows stand side by side with others'.
        if matches!(of, Weight::Layer(_, LayerWeight::Expert(..))) {
            continue;
        }
        let Some(end) = suspects::rows_of(of, &config).map(|rows| first + rows) else { continue };
        if end > bench.ideal.ncols() {
            continue;
        }
        let Some(order) = order(bench, first..end, is_normed) else { continue };
        let blocks = head.and_then(|each| Some((each, by_blocks(&order, each)?)));
        let (each, order) = blocks.unwrap_or((1, order));
        let moved = |of: Weight| bench.assumed(&kinds::ROWS, TensorChange::Rows(of, each, order.clone()));
        found.push(vec![moved(of)]);
        found.extend(of.bias().map(|bias| vec![moved(of), moved(bias)]));
    }
    found
}

/// Whose values each column has, where some have another's. Behind a norm, they may have another factor.
fn order(bench: &Bench<'_, '_>, columns: Range<usize>, is_normed: bool) -> Option<Order> {
    let first = columns.start;
    let size = |j: usize| bench.product(&bench.candidate, &bench.candidate, j);
    // ‖c − s·r‖² of two columns, where s is 1, or the best.
    let apart = |c: usize, r: usize| {
        let pairs = bench.candidate.column(c).into_iter().zip(bench.ideal.column(r)).zip(bench.counts());
        let (own, both, other) = pairs.fold((0.0, 0.0, 0.0), |(own, both, other), ((c, r), count)| {
            (own + count * c * c, both + count * c * r, other + count * r * r)
        });
        if is_normed { own - both * both / f64::max(other, f64::MIN_POSITIVE) } else { own - 2.0 * both + other }
    };
    let source = |c: usize| {
        if size(c) == 0.0 {
            return Some(None);
        }
        if apart(c, c) <= SAME * size(c) {
            return Some(Some(c - first));
        }
        let near = columns.clone().map(|r| (apart(c, r), r)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (near.0 <= SAME * size(c)).then_some(Some(near.1 - first))
    };
    let order: Order = columns.clone().map(source).collect::<Option<_>>()?;
    let taken: Vec<usize> = order.iter().copied().flatten().collect();
    let is_permutation = taken.iter().collect::<BTreeSet<_>>().len() == order.len();
    // Zeros alone are found as such.
    let is_other = order.iter().enumerate().any(|(i, from)| from.is_some_and(|from| i != from));
    (is_other && (is_permutation || bench.candidate.nrows() > ROWS)).then_some(order)
}

/// The same by blocks of so many, if blocks stay together.
pub(super) fn by_blocks(order: &Order, each: usize) -> Option<Order> {
    let blocks: Order = order.iter().step_by(each).map(|first| first.map(|first| first / each)).collect();
    let is_block = |(i, from): (usize, &Option<usize>)| *from == blocks[i / each].map(|b| b * each + i % each);
    order.iter().enumerate().all(is_block).then_some(blocks)
}
