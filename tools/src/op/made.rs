//! What an operator makes, and how a candidate's stands to it.

use std::collections::BTreeSet;

use ndarray::{Array2, ArrayView1};
use reference::bound::{ErrorBound, confidence};
use reference::compare::{Comparison, compare};
use reference::ops::router::top_k;
use reference::{Storage, Tracked};

/// An output as the reference computes it in f64, and how far a candidate may be from it.
#[derive(Debug)]
pub struct Made {
    /// Its name.
    pub name: &'static str,
    /// Its values \[rows, columns\].
    pub value: Array2<f64>,
    /// The bound.
    pub error: ErrorBound,
    /// Where these are scores, of which a candidate shows what it chose: how many, those of the largest.
    pub chosen: Option<usize>,
}

/// How often a comparison may call one right value suspicious.
const FALSE_SUSPICION: f64 = 1e-6;

impl Made {
    pub(super) fn of(name: &'static str, value: Array2<f64>, error: ErrorBound) -> Self {
        Made { name, value, error, chosen: None }
    }

    /// As an input of what follows it.
    pub(super) fn tracked(&self) -> Tracked<f64> {
        Tracked { value: self.value.clone(), error: Some(self.error.clone()) }
    }

    /// How a candidate's values, stored in a type, stand to it.
    pub fn compared(&self, candidate: &Array2<f64>, storage: Storage) -> Comparison {
        let lambda = confidence(candidate.len(), FALSE_SUSPICION);
        compare(candidate.view(), self.value.view(), &self.error, storage, lambda)
    }

    /// How choices stand to these scores, row by row: a choice is legal if none of it, at its best, scores less than another at its
    /// worst.
    pub fn compared_choices(&self, chosen: &Array2<usize>) -> Comparison {
        let mut found = Comparison { count: chosen.nrows(), ..Comparison::default() };
        let best = top_k(chosen.ncols(), self.value.view());
        for (i, row) in chosen.rows().into_iter().enumerate() {
            let (own, best) = (set(row), set(best.row(i)));
            let score = |e: usize, sign: f64| self.value[[i, e]] + sign * self.error.certain[[i, e]];
            let least = own.iter().map(|&e| score(e, 1.0)).fold(f64::INFINITY, f64::min);
            let rest = (0..self.value.ncols()).filter(|e| !own.contains(e));
            let most = rest.map(|e| score(e, -1.0)).fold(f64::NEG_INFINITY, f64::max);
            let is_legal = own.len() == chosen.ncols() && least >= most;
            found.equal += usize::from(own == best);
            found.faults += usize::from(own != best && !is_legal);
            found.suspicious += usize::from(own != best && is_legal);
        }
        found
    }
}

fn set(row: ArrayView1<'_, usize>) -> BTreeSet<usize> {
    row.iter().copied().collect()
}
