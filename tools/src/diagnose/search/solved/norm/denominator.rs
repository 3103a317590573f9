//! What a norm divides its rows by, where that is no root of a mean square and ε.
//!
//! ```text
//! yᵢⱼ = mⱼ·(xᵢⱼ − μᵢ)/tᵢ        solved for t; right are μ = 0 and t = √(ε + (1/d)·Σₖ xᵢₖ²)
//! ```
//!
//! with x \[n, d\] what goes in, m \[d\] what is multiplied with, and μ 0 or the row's mean. A row is a token's, or that of one of its
//! heads.

use ndarray::{Array1, Array2, ArrayView1, s};

use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::solution::Solution;

/// Rows by which it is told.
const ROWS: usize = 8;

/// How far a denominator may be off, in what roundings leave of a row.
const SAME: f64 = 2.0;

/// What a number that is added has to be of a denominator, in the same.
const CERTAIN: f64 = 16.0;

/// What rows may be divided by, of their mean square, mean size and largest size, and ε.
type Denominator = fn(Sizes, f64) -> f64;

#[derive(Clone, Copy)]
struct Sizes {
    square: f64,
    size: f64,
    largest: f64,
}

const DENOMINATORS: [(&str, Denominator); 4] = [
    ("the root of the mean square", |of, eps| (of.square + eps).sqrt()),
    ("the root of the mean square", |of, _| of.square.sqrt()),
    ("the mean size", |of, _| of.size),
    ("the largest size", |of, _| of.largest),
];

/// A row of one head: where it is, what goes in, and the candidate's values over m.
struct Row<'a> {
    at: (usize, usize),
    x: ArrayView1<'a, f64>,
    y: Array1<f64>,
}

pub(super) fn solve(bench: &Bench<'_, '_>, x: &Array2<f64>, m: &Array1<f64>) -> Option<Solution> {
    let (width, eps) = (m.len(), bench.config().rms_norm_eps);
    let off = (0..x.nrows()).filter(|row| bench.row_is_off(*row)).count();
    if 2 * off < x.nrows() || x.dim() != bench.candidate.dim() || width < 2 || !x.ncols().is_multiple_of(width) {
        return None;
    }
    let of_row = |row: usize| {
        let heads = 0..x.ncols() / width;
        heads.map(move |head| {
            let columns = s![head * width..(head + 1) * width];
            let y = &bench.candidate.row(row).slice(columns) / m;
            Row { at: (row, head), x: x.row(row).slice_move(columns), y }
        })
    };
    let rows: Vec<Row<'_>> = (0..x.nrows()).flat_map(of_row).collect();
    if rows.len() < ROWS {
        return None;
    }
    [false, true].into_iter().find_map(|is_centred| {
        let read: Vec<Array1<f64>> = rows.iter().map(|row| centred(row.x, is_centred)).collect();
        let t: Vec<f64> = rows.iter().zip(&read).map(|(row, x)| x.dot(x) / x.dot(&row.y)).collect();
        let is_multiple = rows.iter().zip(&read).zip(&t).all(|((row, x), t)| {
            let apart = &row.y - &(x / *t);
            apart.dot(&apart).sqrt() <= SAME * bench.rounding() * row.y.dot(&row.y).sqrt()
        });
        let sizes: Vec<Sizes> = read.iter().map(Sizes::of).collect();
        let found = DENOMINATORS.iter().enumerate().filter(|_| is_multiple).find_map(|(i, (name, of))| {
            let rest: Vec<f64> = sizes.iter().zip(&t).map(|(sizes, t)| t - of(*sizes, eps)).collect();
            let mut sorted = rest.clone();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted[sorted.len() / 2];
            let same = |rest: &f64, t: &f64| (rest - middle).abs() <= SAME * bench.rounding() * t;
            if !rest.iter().zip(&t).all(|(rest, t)| same(rest, t)) {
                return None;
            }
            let largest = t.iter().copied().fold(0.0, f64::max);
            let is_more = middle.abs() > CERTAIN * bench.rounding() * largest;
            // The right denominator, of the row itself.
            if i == 0 && !is_centred && !is_more {
                return None;
            }
            let more = if is_more { format!(" and {middle:.2e} more, outside of any root") } else { String::new() };
            Some(format!("{name}{more}"))
        });
        let name = found?;
        let what = if is_centred { "rows are divided, less their mean, by" } else { "rows are divided by" };
        let mut values = Array2::zeros(x.dim());
        for ((row, x), t) in rows.iter().zip(&read).zip(&t) {
            let (i, head) = row.at;
            values.row_mut(i).slice_mut(s![head * width..(head + 1) * width]).assign(&(x * m / *t));
        }
        Some(Solution::new(vec![format!("{what} {name}")], values))
    })
}

/// x, or x less its mean.
fn centred(x: ArrayView1<'_, f64>, is_centred: bool) -> Array1<f64> {
    let mean = if is_centred { x.mean().unwrap_or(0.0) } else { 0.0 };
    x.mapv(|x| x - mean)
}

impl Sizes {
    fn of(x: &Array1<f64>) -> Self {
        let n = x.len() as f64;
        Sizes {
            square: x.dot(x) / n,
            size: x.iter().map(|x| x.abs()).sum::<f64>() / n,
            largest: x.iter().fold(0.0, |most: f64, x| most.max(x.abs())),
        }
    }
}
