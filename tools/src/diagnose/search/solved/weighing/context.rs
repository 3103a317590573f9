//! The context that a site's values have, where attention's inputs are right: solved for, of as few heads as it takes.
//!
//! ```text
//! yᵢ − ŷᵢ = Σₕ δᵢₕ·Wₕ        of rows i that are off, solved for δ of some heads h; the others' are 0
//! ```
//!
//! with y \[n, H\] the candidate's and ŷ the right values, δᵢₕ \[d\], and the columns Wₕ \[d, H\] of the output projection that a head
//! has; heads are added one by one, each time the one that explains the most. Where that leaves half of the equations, they say
//! which heads are off; [`whose`] says whose values these have instead.

mod whose;

use nalgebra::DMatrix;
use ndarray::{Array1, Array2, Axis, s};

use super::heads::Heads;
use super::ways::{EQUATIONS, is_row, limit};
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::listed;
use crate::diagnose::search::solved::solution::Solution;

/// Multiplications of all rows' contexts, at most: some seconds.
const BUDGET: usize = 4_000_000_000;

/// Heads that are added one by one, at most.
const HEADS: usize = 8;

/// What is in the place of the right context.
struct Contexts<'a> {
    heads: &'a Heads,
    /// The right one of all rows \[n, width\].
    right: Array2<f64>,
    /// Rows that are off.
    rows: Vec<usize>,
    /// What they have \[rows, width\].
    found: Array2<f64>,
    /// Heads that are off, in ascending order.
    which: Vec<usize>,
    /// Whether what is left of the equations says that no other head is.
    is_certain: bool,
}

/// Whose values heads have, of some rows that are off.
pub(super) fn solve(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let contexts = Contexts::of(heads, rows, bench)?;
    let (said, found) = contexts.told(|found| contexts.hold(found, bench))?;
    let mut values = bench.ideal.clone();
    for (row, context) in contexts.rows.iter().zip(found.rows()) {
        values.row_mut(*row).assign(&heads.output(context));
    }
    let place = listed::rows(bench, &contexts.rows);
    Some(Solution::new(vec![format!("in {}: {said}", place.trim_end_matches(','))], values))
}

/// Which heads are off, if not all, where nothing else is known of them.
pub(super) fn located(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Solution> {
    let contexts = Contexts::of(heads, rows, bench)?;
    let which = &contexts.which;
    (contexts.is_certain && 2 * which.len() <= heads.count).then(|| {
        let (noun, verb) = if which.len() == 1 { ("head", "is") } else { ("heads", "are") };
        let said = format!("of attention's context, {noun} {} alone {verb} off", listed::ranges(which));
        Solution::without_values(said)
    })
}

/// The head that alone is off, where what is left of the equations says that no other is.
pub(super) fn one(heads: &Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<usize> {
    let contexts = Contexts::of(heads, rows, bench)?;
    match contexts.which[..] {
        [head] if contexts.is_certain && heads.count > 1 => Some(head),
        _ => None,
    }
}

impl<'a> Contexts<'a> {
    fn of(heads: &'a Heads, rows: &[usize], bench: &Bench<'_, '_>) -> Option<Self> {
        let (n, width) = (heads.spans.len(), heads.count * heads.d);
        if rows.is_empty() || 2 * n * n * width > BUDGET || rows.len() * width * width > BUDGET {
            return None;
        }
        let mut right = Array2::zeros((n, width));
        (0..n).for_each(|row| right.row_mut(row).assign(&heads.right(row)));
        let apart = (&bench.candidate - &bench.ideal).select(Axis(0), rows);
        let limits: Vec<f64> = rows.iter().map(|row| limit(*row, bench)).collect();
        let (which, by) = few(heads, &apart, &limits).or_else(|| all(heads, &apart))?;
        let is_certain = heads.head_at(0).is_some() || EQUATIONS * which.len() * heads.d <= apart.ncols();
        let found = right.select(Axis(0), rows) + by;
        Some(Contexts { heads, right, rows: rows.to_vec(), found, which, is_certain })
    }

    /// Whether contexts of the rows make them the candidate's.
    fn hold(&self, contexts: &Array2<f64>, bench: &Bench<'_, '_>) -> bool {
        let mut each = self.rows.iter().zip(contexts.rows());
        each.all(|(row, context)| is_row(*row, self.heads.output(context).view(), bench))
    }
}

/// As few heads as explain all rows within their limits, one after the other, and by how much their context is off.
fn few(heads: &Heads, apart: &Array2<f64>, limits: &[f64]) -> Option<(Vec<usize>, Array2<f64>)> {
    let Some(columns) = heads.projections() else {
        let is_off = |head: &usize| apart.slice(s![.., heads.columns(*head)]).iter().any(|x| *x != 0.0);
        return Some(((0..heads.count).filter(is_off).collect(), apart.clone()));
    };
    let most = HEADS.min(apart.ncols() / EQUATIONS / heads.d);
    let mut which: Vec<usize> = Vec::new();
    let mut left = apart.clone();
    while which.len() < most {
        let explains = |head: usize| -> Option<f64> {
            let along = solved(&columns.slice(s![heads.columns(head), ..]).to_owned(), &left)?;
            let own = along.dot(&columns.slice(s![heads.columns(head), ..]));
            Some((&own * &left).sum())
        };
        let others = (0..heads.count).filter(|head| !which.contains(head));
        let each = others.filter_map(|head| explains(head).map(|most| (most, head)));
        which.push(each.max_by(|a, b| a.0.total_cmp(&b.0))?.1);
        which.sort_unstable();
        let own = which.iter().flat_map(|head| heads.columns(*head)).collect::<Vec<_>>();
        let of_own = columns.select(Axis(0), &own);
        let by = solved(&of_own, apart)?;
        left = apart - &by.dot(&of_own);
        if left.rows().into_iter().zip(limits).all(|(row, limit)| row.dot(&row).sqrt() <= *limit) {
            let mut all = Array2::zeros((apart.nrows(), heads.count * heads.d));
            own.iter().zip(by.columns()).for_each(|(column, by)| all.column_mut(*column).assign(&by));
            return Some((which, all));
        }
    }
    None
}

/// All heads, if the output projection tells them.
fn all(heads: &Heads, apart: &Array2<f64>) -> Option<(Vec<usize>, Array2<f64>)> {
    let columns = heads.projections()?;
    let by = (columns.nrows() <= columns.ncols()).then(|| solved(&columns, apart)).flatten()?;
    Some(((0..heads.count).collect(), by))
}

/// X of min ‖X·A − B‖, of A \[m, H\] and B \[rows, H\].
fn solved(a: &Array2<f64>, b: &Array2<f64>) -> Option<Array2<f64>> {
    let matrix = |of: &Array2<f64>| DMatrix::from_row_iterator(of.nrows(), of.ncols(), of.iter().copied());
    let normal = matrix(&a.dot(&a.t())).cholesky()?;
    let x = normal.solve(&matrix(&a.dot(&b.t())));
    Some(Array2::from_shape_fn((b.nrows(), a.nrows()), |(i, j)| x[(j, i)]))
}

/// The rows of a context as one.
fn flat(rows: &Array2<f64>) -> Array1<f64> {
    rows.iter().copied().collect()
}
