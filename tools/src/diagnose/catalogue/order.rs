//! Rows, experts and columns of weights in another order.

use ndarray::{Array2, Axis};

use crate::report::figures::{numbered, plural};

/// What stands in the place of each: the number of another, or nothing, where it is 0.
pub type Order = Vec<Option<usize>>;

/// What stands in the place of a number where two are exchanged.
pub fn exchanged(a: usize, b: usize, number: usize) -> usize {
    match number {
        _ if number == a => b,
        _ if number == b => a,
        _ => number,
    }
}

/// From so many numbers in a row on, they are told by the first and the last.
const RUN: usize = 3;

/// Runs that are told, at most.
const TOLD: usize = 16;

/// Another order of a matrix's input channels, which are numbered along axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// Two axes that follow each other are taken for each other.
    Exchanged {
        /// What is numbered along them.
        axes: [&'static str; 2],
        /// How many along each.
        sizes: [usize; 2],
    },
    /// An axis is taken from its end.
    Reversed {
        /// What is numbered along it.
        axis: &'static str,
        /// How many.
        size: usize,
        /// Input channels of each.
        within: usize,
    },
}

impl ColumnOrder {
    /// The column that is taken for another.
    fn source(self, column: usize) -> usize {
        match self {
            ColumnOrder::Exchanged { sizes: [a, b], .. } => {
                let (outer, i, j) = (column / (a * b), column / b % a, column % b);
                (outer * b + j) * a + i
            }
            ColumnOrder::Reversed { size, within, .. } => {
                let (outer, i, k) = (column / (size * within), column / within % size, column % within);
                (outer * size + size - 1 - i) * within + k
            }
        }
    }

    /// The matrix with its columns in this order.
    pub(super) fn apply(self, w: &Array2<f64>) -> Array2<f64> {
        let columns: Vec<usize> = (0..w.ncols()).map(|column| self.source(column)).collect();
        w.select(Axis(1), &columns)
    }
}

impl std::fmt::Display for ColumnOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ColumnOrder::Exchanged { axes: [a, b], .. } => {
                write!(f, "are numbered by {b} and {a} instead of {a} and {b}")
            }
            ColumnOrder::Reversed { axis, .. } => write!(f, "have their {} in reverse", plural(axis)),
        }
    }
}

/// The elements of the transpose, one after the other, in the matrix's own shape.
pub(super) fn transposed(w: &Array2<f64>) -> Array2<f64> {
    let (rows, columns) = w.dim();
    Array2::from_shape_fn((rows, columns), |(i, j)| {
        let at = i * columns + j;
        w[[at % rows, at / rows]]
    })
}

/// Rows that stand in the place of others; those of zeros where none does. A vector's are its values.
pub(super) fn rows(w: &Array2<f64>, each: usize, order: &Order) -> Array2<f64> {
    if w.nrows() == 1 && order.len() * each > 1 {
        return rows(&w.t().to_owned(), each, order).reversed_axes();
    }
    let source: Vec<Option<usize>> =
        order.iter().flat_map(|block| (0..each).map(move |i| block.map(|block| block * each + i))).collect();
    let mut moved = Array2::zeros(w.dim());
    for (mut row, source) in moved.rows_mut().into_iter().zip(source) {
        if let Some(source) = source {
            row.assign(&w.row(source));
        }
    }
    moved
}

/// "columns 16 to 31", "rows 3 and 5".
pub(in crate::diagnose) fn ranged(what: &str, numbers: &[usize]) -> String {
    match numbers {
        [first, .., last] if numbers.len() >= RUN && last - first + 1 == numbers.len() => {
            format!("{} {first} to {last}", plural(what))
        }
        _ => numbered(what, numbers),
    }
}

/// "experts 3 and 7 are exchanged", "experts have each other's weights: 1 has those of 4, 4 of 2, 2 of 1".
pub(super) fn moved(what: &str, order: &Order, place: &str) -> String {
    let moved: Vec<(usize, Option<usize>)> =
        order.iter().copied().enumerate().filter(|(i, from)| *from != Some(*i)).collect();
    let empty: Vec<usize> = moved.iter().filter(|(_, from)| from.is_none()).map(|(i, _)| *i).collect();
    match moved[..] {
        _ if empty.len() == moved.len() => {
            format!("{}{place} {} 0", ranged(what, &empty), if empty.len() == 1 { "is" } else { "are" })
        }
        [(a, Some(b))] => format!("{what} {a}{place} has the weights of {what} {b}"),
        [(a, Some(b)), (c, Some(d))] if (a, b) == (d, c) => {
            format!("{}{place} are exchanged", numbered(what, &[a, c]))
        }
        _ => {
            let mut from: Vec<usize> = moved.iter().filter_map(|(_, from)| *from).collect();
            from.sort_unstable();
            let is_permutation = from.iter().eq(moved.iter().map(|(i, _)| i));
            let whose = if is_permutation { "each other's" } else { "others'" };
            let all = runs(&moved);
            let told: Vec<String> = all.iter().take(TOLD).map(|run| told(run)).collect();
            let more = if all.len() > told.len() { ", …" } else { "" };
            format!("{}{place} have {whose} weights: {}{more}", plural(what), told.join(", "))
        }
    }
}

/// Numbers in a row that have those of as many in a row.
fn runs(moved: &[(usize, Option<usize>)]) -> Vec<Vec<(usize, Option<usize>)>> {
    let mut runs: Vec<Vec<(usize, Option<usize>)>> = Vec::new();
    for &(i, from) in moved {
        let follows = |&(last, of): &(usize, Option<usize>)| last + 1 == i && of.map(|of| of + 1) == from;
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(follows) => run.push((i, from)),
            _ => runs.push(vec![(i, from)]),
        }
    }
    let apart = |run: Vec<(usize, Option<usize>)>| {
        if run.len() < RUN { run.into_iter().map(|one| vec![one]).collect() } else { vec![run] }
    };
    runs.into_iter().flat_map(apart).collect()
}

fn told(run: &[(usize, Option<usize>)]) -> String {
    match run {
        [(first, Some(from)), .., (last, Some(to))] => format!("{first} to {last} have those of {from} to {to}"),
        [(i, Some(from)), ..] => format!("{i} has those of {from}"),
        [(first, None), .., (last, None)] => format!("{first} to {last} are 0"),
        [(i, _), ..] => format!("{i} is 0"),
        [] => String::new(),
    }
}
