//! What a run's values have in common with the twin's, and what not, added up by row, head and column.

use ndarray::{Array2, ArrayView1, Axis};
use serde::{Deserialize, Serialize};

/// Sums over the values of a row, or of a head in it. d is a value less the twin's, o.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Part {
    /// Values.
    pub(super) count: usize,
    /// Those that are not the twin's.
    pub(super) unequal: usize,
    /// Σ o·d.
    pub(super) along: f64,
    /// Σ o².
    pub(super) size: f64,
    /// Σ d².
    pub(super) apart: f64,
}

/// One run's sums at a site.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// By row, and in it by head.
    pub(super) rows: Vec<Vec<Part>>,
    /// By column: values that are not the twin's.
    pub(super) columns: Vec<usize>,
}

impl Tally {
    /// Of the twin's values and a run's, `each` matrix rows for a token, in heads of so many columns.
    pub(super) fn of(own: &Array2<f64>, other: &Array2<f64>, each: usize, head: usize) -> Self {
        let mut columns = vec![0; own.ncols()];
        for (own, other) in own.rows().into_iter().zip(other.rows()) {
            let pairs = columns.iter_mut().zip(own.iter().zip(other));
            pairs.for_each(|(count, (own, other))| *count += usize::from(own != other));
        }
        let tokens = own.axis_chunks_iter(Axis(0), each).zip(other.axis_chunks_iter(Axis(0), each));
        let rows = tokens.map(|(own, other)| {
            let mut parts = vec![Part::default(); own.ncols().div_ceil(head)];
            for (own, other) in own.rows().into_iter().zip(other.rows()) {
                let heads = own.axis_chunks_iter(Axis(0), head).zip(other.axis_chunks_iter(Axis(0), head));
                parts.iter_mut().zip(heads).for_each(|(part, (own, other))| part.add(own, other));
            }
            parts
        });
        Tally { rows: rows.collect(), columns }
    }

    /// Goes on with those of a later pass.
    pub(super) fn extend(&mut self, later: Tally) {
        self.rows.extend(later.rows);
        self.columns.resize(later.columns.len(), 0);
        self.columns.iter_mut().zip(later.columns).for_each(|(sum, count)| *sum += count);
    }
}

impl Part {
    fn add(&mut self, own: ArrayView1<'_, f64>, other: ArrayView1<'_, f64>) {
        for (&o, &x) in own.iter().zip(other) {
            self.count += 1;
            self.unequal += usize::from(o != x);
            if o.is_finite() && x.is_finite() {
                self.along += o * (x - o);
                self.size += o * o;
                self.apart += (x - o).powi(2);
            }
        }
    }

    /// The sum of several.
    pub(super) fn sum<'a>(parts: impl Iterator<Item = &'a Part>) -> Part {
        parts.fold(Part::default(), |sum, part| Part {
            count: sum.count + part.count,
            unequal: sum.unequal + part.unequal,
            along: sum.along + part.along,
            size: sum.size + part.size,
            apart: sum.apart + part.apart,
        })
    }

    /// By how much values are larger than the twin's, as a share of these: Σ o·d / Σ o².
    pub(super) fn gain(self) -> f64 {
        if self.size > 0.0 { self.along / self.size } else { 0.0 }
    }

    /// By how much their length is larger: (Σ o·d + Σ d²/2) / Σ o².
    pub(super) fn growth(self) -> f64 {
        if self.size > 0.0 { (self.along + self.apart / 2.0) / self.size } else { 0.0 }
    }
}
