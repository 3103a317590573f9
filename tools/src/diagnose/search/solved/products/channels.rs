//! Input channels that a product sums other than once, as where a loop ends early, or a part of several is left out or added twice.
//!
//! ```text
//! yᵢₖ = Σⱼ wₖⱼ·xᵢⱼ + (c − 1)·Σⱼ∈S wₖⱼ·xᵢⱼ        for rows i and output channels k that are off; solved for c and S
//! ```
//!
//! with S channels in a row. Where c is 0 and S begins with the first or ends with the last of them, any number is looked for; else
//! S has bounds at multiples of a [`PARTS`]th of all.

use ndarray::{Array1, Array2, Axis, s};

use super::Product;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// Parts of all channels at whose bounds a span may begin and end.
const PARTS: usize = 128;

/// Values, at least, by which a span is told.
const LEAST: usize = 16;

/// How far a count may be from a whole number to be that: what bf16 leaves of a sum, several times.
const WHOLE: f64 = 0.02;

/// Channels in a row, and how often they count.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    end: usize,
    times: f64,
}

impl Product<'_, '_, '_> {
    /// Channels that are not summed in any output, where the others are the first or the last.
    pub(super) fn of_some_channels(&self) -> Option<Solution> {
        let every: Vec<usize> = (0..self.w.nrows()).collect();
        let summed = self.summed(*self.off.first()?)?;
        let all = self.x.ncols();
        let left_out = if summed.0 == 0 { (summed.1, all) } else { (0, summed.0) };
        let span = Span { from: left_out.0, end: left_out.1, times: 0.0 };
        let which =
            if summed.0 == 0 { format!("the first {}", summed.1) } else { format!("the last {}", all - summed.0) };
        let rows = listed::rows(self.bench, &self.off);
        self.held(span, &every, format!("{rows} sum {which} of {all} input channels alone"))
    }

    /// Channels that count otherwise, in some outputs or in all.
    pub(super) fn of_counted_channels(&self) -> Option<Solution> {
        let columns = self.columns();
        let some: Vec<usize> = self.some().collect();
        if some.len() * columns.len() < LEAST {
            return None;
        }
        let span = self.nearest(&some, &columns)?;
        let (Span { from, end, times }, all) = (span, self.x.ncols());
        let how = match times {
            0.0 => "leave out".to_owned(),
            2.0 => "sum twice".to_owned(),
            times => format!("count {times:.4} times"),
        };
        let rows = listed::rows(self.bench, &self.off);
        let outputs = listed::columns(&columns, self.w.nrows());
        self.held(span, &columns, format!("{rows} {how} input channels {from} to {} of {all}{outputs}", end - 1))
    }

    /// What is said of a span, where all that are off follow from it.
    fn held(&self, span: Span, columns: &[usize], said: String) -> Option<Solution> {
        let w = self.w.select(Axis(0), columns);
        let more = w.slice(s![.., span.from..span.end]);
        let value = |row: usize| {
            let right = self.bench.ideal.row(row).select(Axis(0), columns);
            right + &(more.dot(&self.x.slice(s![row, span.from..span.end])) * (span.times - 1.0))
        };
        if !self.some().chain(self.off.iter().copied()).all(|row| self.is(row, columns, &value(row))) {
            return None;
        }
        let mut values = self.bench.ideal.clone();
        for row in self.off.iter().copied() {
            columns.iter().zip(value(row)).for_each(|(column, value)| values[[row, *column]] = value);
        }
        Some(Solution::new(vec![said], values))
    }

    /// Output channels that are off, of rows that are.
    fn columns(&self) -> Vec<usize> {
        let (y, right) = (&self.bench.candidate, &self.bench.ideal);
        let size = |of: &dyn Fn(usize) -> f64| self.off.iter().map(|row| of(*row).powi(2)).sum::<f64>().sqrt();
        let is_off = |column: &usize| {
            let apart = size(&|row| y[[row, *column]] - right[[row, *column]]);
            apart > self.bench.rounding() * size(&|row| right[[row, *column]])
        };
        (0..y.ncols()).filter(is_off).collect()
    }

    /// The channels by which a row comes nearest, from the first or to the last.
    fn summed(&self, row: usize) -> Option<(usize, usize)> {
        let (y, x, all) = (&self.bench.candidate.row(row) - &self.b, self.x.row(row), self.x.ncols());
        let nearest = |order: &mut dyn Iterator<Item = usize>| {
            let mut left = y.clone();
            let each = order.enumerate().map(|(i, j)| {
                left.scaled_add(-x[j], &self.w.column(j));
                (left.dot(&left), i + 1)
            });
            each.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (first, last) = (nearest(&mut (0..all))?, nearest(&mut (0..all).rev())?);
        let range = if first.0 <= last.0 { (0, first.1) } else { (all - last.1, all) };
        (range != (0, all)).then_some(range)
    }

    /// The span that leaves the least of some rows, and how often it counts by least squares.
    fn nearest(&self, some: &[usize], columns: &[usize]) -> Option<Span> {
        let all = self.x.ncols();
        let step = all.div_ceil(PARTS);
        let bounds: Vec<usize> = (0..all).step_by(step).chain([all]).collect();
        let w = self.w.select(Axis(0), columns);
        // Of the channels before each bound, what they add to all values.
        let mut before = Array2::zeros((bounds.len(), some.len() * columns.len()));
        for (i, bound) in bounds.iter().enumerate().skip(1) {
            let part = bounds[i - 1]..*bound;
            let each =
                some.iter().flat_map(|row| w.slice(s![.., part.clone()]).dot(&self.x.slice(s![*row, part.clone()])));
            let sums = &before.row(i - 1) + &each.collect::<Array1<f64>>();
            before.row_mut(i).assign(&sums);
        }
        let apart = |row: &usize| &self.bench.candidate.row(*row) - &self.bench.ideal.row(*row);
        let apart: Array1<f64> = some.iter().flat_map(|row| apart(row).select(Axis(0), columns)).collect();
        let spans = (0..bounds.len()).flat_map(|i| (i + 1..bounds.len()).map(move |j| (i, j)));
        let is_part = |(i, j): &(usize, usize)| (*i, *j) != (0, bounds.len() - 1);
        let (_, (i, j), more) = spans
            .filter(is_part)
            .map(|(i, j)| {
                let sums = &before.row(j) - &before.row(i);
                let (along, size) = (sums.dot(&apart), sums.dot(&sums));
                (along * along / size, (i, j), along / size)
            })
            .filter(|(gain, ..)| gain.is_finite())
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let times = 1.0 + more;
        let whole = times.round();
        let times = if (times - whole).abs() < WHOLE { whole + 0.0 } else { times };
        Some(Span { from: bounds[i], end: bounds[j], times })
    }
}
