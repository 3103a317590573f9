//! Parts of a weight that count by factors of their own, as where it is read with the scales of another tensor.
//!
//! ```text
//! yᵢₖ = Σ_B s_kB·Σⱼ∈B wₖⱼ·xᵢⱼ        solved for s, with blocks B of so many input channels; right is 1
//! ```
//!
//! for each output channel k by least squares over the rows i. Of the sizes that explain what is off, the largest: with the fewest
//! numbers.

use ndarray::{Array1, Array2, Axis, s};

use super::Product;
use crate::diagnose::search::solved::least_squares;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// Input channels of a block, beside all of them.
const BLOCKS: [usize; 4] = [128, 64, 32, 16];

/// Rows for each factor, at least, and in all.
const ROWS: usize = 3;
const LEAST: usize = 16;

/// What may be left of the squares of what one factor for all leaves: weights may be rounded, too, to the three bits of E4M3.
/// By chance a third of the rows' equations leaves two thirds.
const LEFT: f64 = 0.1;

/// How far a factor has to be from 1, and how far apart factors may be to be the same.
const SAME: f64 = 0.02;

/// Rows by which scales may be off.
const FURTHEST: isize = 8;

impl Product<'_, '_, '_> {
    pub(super) fn of_factors(&self) -> Option<Solution> {
        let d = self.x.ncols();
        if self.x.nrows() < LEAST {
            return None;
        }
        let sizes = [d].into_iter().chain(BLOCKS.into_iter().filter(|size| *size < d));
        sizes.filter(|size| ROWS * d.div_ceil(*size) <= self.x.nrows()).find_map(|size| self.of_blocks(size))
    }

    fn of_blocks(&self, size: usize) -> Option<Solution> {
        let (n, d) = self.x.dim();
        let count = d.div_ceil(size);
        let y = &self.bench.candidate - &self.b;
        let mut values = self.bench.ideal.clone();
        let (mut factors, mut off) = (Array2::<f64>::ones((self.w.nrows(), count)), Vec::new());
        for column in 0..self.w.nrows() {
            let mut parts = Array2::zeros((n, count));
            for block in 0..count {
                let channels = block * size..((block + 1) * size).min(d);
                let part = self.x.slice(s![.., channels.clone()]).dot(&self.w.slice(s![column, channels]));
                parts.column_mut(block).assign(&part);
            }
            let solution = least_squares::solve(parts.view(), y.column(column))?;
            let of: Array1<f64> = solution.x.into_iter().collect();
            if of.iter().all(|factor| (factor - 1.0).abs() <= SAME) {
                continue;
            }
            values.column_mut(column).assign(&(parts.dot(&of) + self.b[column]));
            factors.row_mut(column).assign(&of);
            off.push(column);
        }
        let squares = |of: Array2<f64>| of.iter().map(|x| x * x).sum::<f64>();
        // What one factor for all of them leaves.
        let right = &self.bench.ideal - &self.b;
        let one = (&right * &y).sum() / (&right * &right).sum();
        let (left, before) = (squares(&self.bench.candidate - &values), squares(&y - &(right * one)));
        if off.is_empty() || left > LEFT * before {
            return None;
        }
        let of_off = factors.select(Axis(0), &off);
        let (least, most) = of_off.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), s| (a.min(*s), b.max(*s)));
        let said = if size == d {
            let shift = self.rows_shifted(&factors.column(0).to_owned(), &off);
            let why = shift.unwrap_or_else(|| "as where a row has another's scale".to_owned());
            let rows = listed::columns(&off, self.w.nrows());
            format!("rows of the weight count by factors of their own, {least:.4} to {most:.4}{rows}: {why}")
        } else {
            let rows = listed::columns(&off, self.w.nrows());
            format!(
                "blocks of {size} input channels of the weight count by factors of their own, {least:.4} to {most:.4}{rows}: as \
                 where another tensor's scales are taken, or these in another order"
            )
        };
        let is_own = off.iter().all(|column| {
            let (own, left) = (y.column(*column), &self.bench.candidate.column(*column) - &values.column(*column));
            left.dot(&left).sqrt() <= self.bench.rounding() * own.dot(&own).sqrt()
        });
        Some(if is_own { Solution::new(vec![said], values) } else { Solution::without_values(said) })
    }

    /// Whether each row has the scale, made of its largest element, of the one so many rows before or behind it.
    fn rows_shifted(&self, factors: &Array1<f64>, off: &[usize]) -> Option<String> {
        let largest: Vec<f64> =
            self.w.rows().into_iter().map(|row| row.fold(0.0, |most: f64, w| most.max(w.abs()))).collect();
        let rows = largest.len().cast_signed();
        let is = |by: isize| {
            off.iter().all(|row| {
                let other = largest[(row.cast_signed() + by).rem_euclid(rows).cast_unsigned()];
                (factors[*row] * largest[*row] / other - 1.0).abs() <= SAME
            })
        };
        let by = (1..=FURTHEST).flat_map(|by| [-by, by]).find(|by| is(*by))?;
        let side = if by < 0 { "before" } else { "behind" };
        Some(format!("each has the scale of the row {} {side} it", by.abs()))
    }
}
