//! The few directions in which a product's output is off, as where a matrix of low rank is added to its weight.
//!
//! ```text
//! y − ŷ = x·(A·B)ᵀ        solved for the rank of A·B
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values, x \[n, d\] what goes in, A \[m, rank\] and B \[rank, d\].

use nalgebra::{DMatrix, Dyn, SVD};
use ndarray::Array2;
use reference::{LayerSite, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;

/// How many times as large as the next singular value the last of those is that count: neighbours in what fills all directions
/// evenly are far closer.
const GAP: f64 = 4.0;

/// What there could be for each direction, at least: of low rank is what has a quarter of them at most.
const FEW: usize = 4;

/// Elements of a difference whose directions are computed: those of a square of 1,024 take seconds.
const MOST: usize = 1 << 20;

/// What they come from.
pub(super) const BIAS: &str = "a bias that the model has not";
pub(super) const ADAPTER: &str = "as of an adapter that was merged";

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    use LayerSite as S;
    let Site::Layer(_, site) = bench.site else { return None };
    let is_product = matches!(
        site,
        S::QProj | S::KProj | S::VProj | S::OProj | S::IndexQProj | S::IndexKProj | S::DenseDown | S::SharedDown
    );
    let is_behind = matches!(site, S::OProj | S::Attention);
    if !(is_product && bench.suspects.len() == 1 || is_behind) || bench.candidate.len() > MOST {
        return None;
    }
    let apart = &bench.candidate - &bench.ideal;
    let (n, m) = apart.dim();
    let parts = DMatrix::from_row_iterator(n, m, apart.iter().copied()).svd(true, true);
    let values = &parts.singular_values;
    // Behind a context that is not shown, what one head has wrong has as many directions as it has channels.
    let most = (n.min(m) / FEW).min(if is_behind { bench.config().head_dim / 2 } else { usize::MAX });
    // Independent values of deviation σ have no singular value far above σ(√n + √m) (Davidson and Szarek 2001); of values of
    // this size, sums' roundings have less than a row's for σ.
    let noise = bench.rounding() * size_of(&bench.ideal) * ((n as f64).sqrt() + (m as f64).sqrt());
    let rank = values.iter().take_while(|value| **value > noise).count();
    let next = values.get(rank).copied().unwrap_or(0.0);
    let is_few = (1..=most).contains(&rank) && values[rank - 1] > GAP * next;
    // A few rows, or columns, have no more directions than they are many.
    let strays = |size: f64, count: usize| size > bench.rounding() * size_of(&bench.ideal) * (count as f64).sqrt();
    let rows = apart.rows().into_iter().filter(|row| strays(row.dot(row).sqrt(), m)).count();
    let columns = apart.columns().into_iter().filter(|column| strays(column.dot(column).sqrt(), n)).count();
    if !is_few || rows.min(columns) < FEW * rank {
        return None;
    }
    let added = of_rank(&parts, rank)?;
    let first = apart.row(0);
    let is_same = apart.rows().into_iter().all(|row| !strays((&row - &first).mapv(|x| x * x).sum().sqrt(), m));
    let said = if is_same {
        format!("every row has the same added to it: {BIAS}")
    } else {
        format!(
            "what is added to it lies in {rank} of {} directions: the weight has a matrix of rank {rank} more, {ADAPTER}",
            n.min(m)
        )
    };
    Some(Solution::new(vec![said], &bench.ideal + &added))
}

/// The nearest matrix of a rank.
pub(super) fn of_rank(parts: &SVD<f64, Dyn, Dyn>, rank: usize) -> Option<Array2<f64>> {
    let (u, vt) = (parts.u.as_ref()?, parts.v_t.as_ref()?);
    let added = |(i, j)| (0..rank).map(|k| u[(i, k)] * parts.singular_values[k] * vt[(k, j)]).sum::<f64>();
    Some(Array2::from_shape_fn((u.nrows(), vt.ncols()), added))
}

/// The root of the mean square.
fn size_of(values: &Array2<f64>) -> f64 {
    (values.iter().map(|y| y * y).sum::<f64>() / values.len() as f64).sqrt()
}
