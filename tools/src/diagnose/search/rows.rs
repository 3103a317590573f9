//! Output channels, or heads, in another order.

use std::collections::BTreeSet;

use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::Assumed;
use crate::diagnose::catalogue::tensors::TensorChange;

/// A share of a column's squares by which it may be off and still be taken for another's.
const SAME: f64 = 1e-2;

/// Every tensor whose output channels are the site's columns.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let alone = suspects::of(bench);
    let mut found = Vec::new();
    for suspect in &alone {
        let Suspect { of, first: Some(first), head } = *suspect else { continue };
        // Experts' rows stand side by side with others'.
        if matches!(of, reference::weights::Weight::Layer(_, reference::weights::LayerWeight::Expert(..))) {
            continue;
        }
        let Some(end) = suspects::rows_of(of, &config).map(|rows| first + rows) else { continue };
        if end > bench.ideal.ncols() {
            continue;
        }
        let Some(order) = order(bench, first..end) else { continue };
        let blocks = head.and_then(|each| Some((each, by_blocks(&order, each)?)));
        let (each, order) = blocks.unwrap_or((1, order));
        found.push(bench.assumed(&kinds::ROWS, TensorChange::Rows(of, each, order)));
    }
    found
}

/// Whose values each column has, where some have another's and each has one.
fn order(bench: &Bench<'_, '_>, columns: std::ops::Range<usize>) -> Option<Vec<usize>> {
    let first = columns.start;
    let size = |j: usize| bench.product(&bench.candidate, &bench.candidate, j);
    // ‖c − r‖² of two columns.
    let apart = |c: usize, r: usize| {
        let pairs = bench.candidate.column(c).into_iter().zip(bench.ideal.column(r)).zip(bench.counts());
        pairs.map(|((c, r), count)| count * (c - r).powi(2)).sum::<f64>()
    };
    let source = |c: usize| {
        if apart(c, c) <= SAME * size(c) {
            return Some(c - first);
        }
        let near = columns.clone().map(|r| (apart(c, r), r)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        (near.0 <= SAME * size(c)).then_some(near.1 - first)
    };
    let order: Vec<usize> = columns.clone().map(source).collect::<Option<_>>()?;
    let distinct: BTreeSet<usize> = order.iter().copied().collect();
    let is_other = order.iter().enumerate().any(|(i, j)| i != *j);
    (is_other && distinct.len() == order.len()).then_some(order)
}

/// The same by blocks of so many, if blocks stay together.
fn by_blocks(order: &[usize], each: usize) -> Option<Vec<usize>> {
    let blocks: Vec<usize> = order.iter().step_by(each).map(|first| first / each).collect();
    let is_block = |(i, j): (usize, &usize)| *j == blocks[i / each] * each + i % each;
    order.iter().enumerate().all(is_block).then_some(blocks)
}
