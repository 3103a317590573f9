//! The few directions in which a product's output is off, as where a matrix of low rank is added to its weight.

use nalgebra::DMatrix;
use reference::{LayerSite, Site};

use crate::diagnose::search::Bench;

/// How many times as large as the next singular value the last of those is that count: neighbours in what fills all directions
/// evenly are far closer.
const GAP: f64 = 4.0;

/// What there could be for each direction, at least: of low rank is what has a quarter of them at most.
const FEW: usize = 4;

/// Elements of a difference whose directions are computed.
const MOST: usize = 1 << 20;

pub(super) fn describe(bench: &Bench<'_, '_>) -> Option<String> {
    use LayerSite as S;
    let Site::Layer(_, site) = bench.site else { return None };
    let is_product = matches!(
        site,
        S::QProj | S::KProj | S::VProj | S::OProj | S::IndexQProj | S::IndexKProj | S::DenseDown | S::SharedDown
    );
    if !is_product || bench.suspects.len() > 1 || bench.candidate.len() > MOST {
        return None;
    }
    let apart = &bench.candidate - &bench.ideal;
    let (n, m) = apart.dim();
    let values = DMatrix::from_row_iterator(n, m, apart.iter().copied()).singular_values();
    let most = n.min(m) / FEW;
    // Independent values of deviation σ have no singular value far above σ(√n + √m) (Davidson and Szarek 2001); roundings of values
    // of this size have at most twice the unit for σ.
    let size = (bench.ideal.iter().map(|y| y * y).sum::<f64>() / bench.ideal.len() as f64).sqrt();
    let noise = 2.0 * bench.unit() * size * ((n as f64).sqrt() + (m as f64).sqrt());
    let rank = values.iter().take_while(|value| **value > noise).count();
    let next = values.get(rank).copied().unwrap_or(0.0);
    let is_few = (1..=most).contains(&rank) && values[rank - 1] > GAP * next;
    is_few.then(|| {
        format!(
            "what is added to it lies in {rank} of {} directions: the weight has a matrix of rank {rank} more, as of an \
             adapter that was merged",
            n.min(m)
        )
    })
}
