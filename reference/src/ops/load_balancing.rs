//! Load balancing: what training adds to its loss, or moves a bias by, so that experts are chosen alike often.
//!
//! ```text
//! loss = E·Σₑ fₑ·P̄ₑ        P = softmax(z)        fₑ = (1/n)·Σᵢ [e in Cᵢ]        Cᵢ = the k experts of largest Pᵢ
//!     or E·Σₑ P̄ₑ²                                P̄ₑ = (1/n)·Σᵢ Pᵢₑ            i over the n rows that m marks
//! bₑ ← bₑ + γ·sign(mean load − loadₑ)
//! ```
//!
//! - Shapes: z \[N, E\], the rows of all layers one below the other; m \[N\], or all rows; b \[E\].
//! - Dtypes: all f32, m booleans.
//! - Rounding: all in f32, nothing is stored in between.
//! - Errors: C1 n, E ≥ 1; C2 1 ≤ k ≤ E; C3 a load for each bias; C4 len(m) = N.
//! - Variants: `HfSwitch` is the first loss, of transformers; `Doc003` the second, which no choice enters. A token that
//!   is not marked, as padding is not, is left out of f, of P̄ and of n.
//! - Source: spec A29; `load_balancing_loss_func` in transformers 5.23; document 003; the update of b is DeepSeek-V3's,
//!   which no document states.

use std::cmp::Ordering;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, Zip};

use super::router::{softmax, top_k};
use crate::accumulator::gamma;
use crate::bound::elementary::EXPONENTIAL;
use crate::error::require;
use crate::storage::FLUSHED;
use crate::{ContractError, Real};

/// Which loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuxiliaryLoss {
    /// E·Σ fₑ·P̄ₑ, of the choices of k.
    HfSwitch {
        /// k.
        top_k: usize,
    },
    /// E·Σ P̄ₑ².
    Doc003,
}

/// The loss of the router's logits, over the rows that are marked; without marks, over all. Alike experts give k, or 1.
pub fn auxiliary_loss<T: Real>(
    loss: AuxiliaryLoss,
    z: ArrayView2<'_, T>,
    marks: Option<&[bool]>,
) -> Result<T, ContractError> {
    let mut p = marked(z, marks)?;
    p.rows_mut().into_iter().for_each(softmax);
    let (n, experts) = (T::of(p.nrows() as f64), T::of(z.ncols() as f64));
    let mean = p.sum_axis(Axis(0)) / n;
    let shares = match loss {
        AuxiliaryLoss::Doc003 => mean.clone(),
        AuxiliaryLoss::HfSwitch { top_k: k } => {
            loss.check(z.ncols())?;
            let mut counts = Array1::zeros(z.ncols());
            top_k(k, p.view()).iter().for_each(|&expert| counts[expert] += T::one());
            counts / n
        }
    };
    Ok(experts * shares.dot(&mean))
}

impl AuxiliaryLoss {
    /// C2.
    fn check(self, experts: usize) -> Result<(), ContractError> {
        match self {
            AuxiliaryLoss::Doc003 => Ok(()),
            AuxiliaryLoss::HfSwitch { top_k: k } => {
                require((1..=experts).contains(&k), "load_balancing C2", "k", k, format!("1 to E = {experts}"))
            }
        }
    }
}

/// The rows that are marked (C1, C4).
fn marked<T: Real>(z: ArrayView2<'_, T>, marks: Option<&[bool]>) -> Result<Array2<T>, ContractError> {
    let is_marked = |row: &usize| marks.is_none_or(|marks| marks[*row]);
    let found = marks.map_or(z.nrows(), <[bool]>::len);
    require(found == z.nrows(), "load_balancing C4", "len(m)", found, format!("N = {}", z.nrows()))?;
    let rows: Vec<usize> = (0..z.nrows()).filter(is_marked).collect();
    let least = rows.len().min(z.ncols());
    require(1 <= least, "load_balancing C1", "min(n, E)", least, "at least 1")?;
    Ok(z.select(Axis(0), &rows))
}

/// How far the loss may be off, of which both are made. Every term is positive. Of P: an exponential, whose argument is
/// off by a rounding of z and one of their difference, a sum of E and a quotient; of P̄ and f: sums of n, a quotient; a
/// sum of E products and one with E. Of choices that P, so far off or flushed to zero, leaves open, each moves fₑ by
/// 1/n, and the loss by E/n of the largest P̄.
pub fn bound(
    loss: AuxiliaryLoss,
    z: ArrayView2<'_, f64>,
    marks: Option<&[bool]>,
    value: f64,
    unit: f64,
) -> Result<f64, ContractError> {
    let z = marked(z, marks)?;
    let (n, experts) = z.dim();
    loss.check(experts)?;
    let mut p = z.clone();
    p.rows_mut().into_iter().for_each(softmax);
    let range = z.rows().into_iter().map(|row| {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter().map(|z| largest.abs() + z.abs() + (largest - z)).fold(0.0, f64::max)
    });
    let argument = range.fold(0.0, f64::max) * unit;
    let of_p = gamma(experts + 1, unit) + EXPONENTIAL * unit + argument;
    let mean = gamma(n + 1, unit) + of_p * (1.0 + of_p);
    let own = 2.0 * mean * (1.0 + mean) + gamma(experts + 3, unit);
    let open = match loss {
        AuxiliaryLoss::Doc003 => 0.0,
        AuxiliaryLoss::HfSwitch { top_k: k } => {
            let largest = p.sum_axis(Axis(0)).iter().copied().fold(0.0, f64::max) / n as f64;
            let is_open = |row: &ArrayView1<'_, f64>| {
                let mut sorted = row.to_vec();
                sorted.sort_by(|a, b| b.total_cmp(a));
                k < experts && sorted[k - 1] * (1.0 - of_p) <= sorted[k] * (1.0 + of_p) + FLUSHED
            };
            let rows = p.rows().into_iter().filter(is_open).count();
            rows as f64 * experts as f64 / n as f64 * largest
        }
    };
    Ok(own * value.abs() + open)
}

/// b after one update by the tokens that each expert was given, with γ the rate.
pub fn updated_bias<T: Real>(rate: f64, b: ArrayView1<'_, T>, loads: &[usize]) -> Result<Array1<T>, ContractError> {
    require(loads.len() == b.len(), "load_balancing C3", "loads", loads.len(), format!("{}, those of b", b.len()))?;
    let (total, rate) = (loads.iter().sum::<usize>(), T::of(rate));
    let moved = |b: T, load: usize| match (load * loads.len()).cmp(&total) {
        Ordering::Less => b + rate,
        Ordering::Equal => b,
        Ordering::Greater => b - rate,
    };
    Ok(Zip::from(&b).and(loads).map_collect(|&b, &load| moved(b, load)))
}

/// How far each updated b may be off: by a rounding of γ, and one of the sum; one that stays is exact.
pub fn bound_bias(rate: f64, b: ArrayView1<'_, f64>, updated: ArrayView1<'_, f64>, unit: f64) -> Array1<f64> {
    Zip::from(&b).and(&updated).map_collect(|b, updated| {
        let of_rate = unit * rate.abs();
        if b == updated { 0.0 } else { of_rate + unit * (updated.abs() + of_rate) + FLUSHED }
    })
}
