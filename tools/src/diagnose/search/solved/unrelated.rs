//! Output channels of a product that have nothing to do with the right ones, as of rows of a weight that were never loaded.
//!
//! ```text
//! rⱼₖ = Σᵢ yᵢⱼ·ŷᵢₖ / (‖yⱼ‖·‖ŷₖ‖)        of the channels j that are off: rⱼⱼ² is no larger in the mean than that of others k
//! ```
//!
//! with y \[n, m\] the candidate's and ŷ the right values of a product of what is shown.

use reference::{LayerSite, Site};

use super::listed;
use super::solution::Solution;
use crate::diagnose::search::Bench;

/// Values by which it is told, at least, in each channel and in all.
const ROWS: usize = 8;
const VALUES: usize = 128;

/// How many times as large as that of other channels the mean of a channel's own r² may be.
const CHANCE: f64 = 2.0;

/// Other channels that are asked.
const OTHERS: usize = 32;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Option<Solution> {
    use LayerSite as S;
    let is_product = matches!(
        bench.site,
        Site::LmHead
            | Site::Logits
            | Site::Layer(
                _,
                S::QProj
                    | S::KProj
                    | S::VProj
                    | S::OProj
                    | S::IndexQProj
                    | S::IndexKProj
                    | S::GateLogits
                    | S::DenseDown
            )
    );
    if !is_product {
        return None;
    }
    let (y, right) = (&bench.candidate, &bench.ideal);
    let (n, m) = y.dim();
    let is_off = |j: &usize| {
        let apart = &y.column(*j) - &right.column(*j);
        apart.dot(&apart).sqrt() > bench.rounding() * right.column(*j).dot(&right.column(*j)).sqrt()
    };
    let off: Vec<usize> = (0..m).filter(is_off).collect();
    // Where a norm before the logits is not shown, it is right if most of them are.
    let is_of_product = bench.suspects.len() == 1 || (bench.site == Site::Logits && 2 * off.len() <= m);
    if !is_of_product || n < ROWS || n * off.len() < VALUES {
        return None;
    }
    let size = |of: &dyn Fn(usize) -> f64| off.iter().map(|j| of(*j)).sum::<f64>() / off.len() as f64;
    let squares = |j: usize, k: usize| {
        let (own, of) = (y.column(j), right.column(k));
        own.dot(&of).powi(2) / (own.dot(&own) * of.dot(&of)).max(f64::MIN_POSITIVE)
    };
    // Channels of one input have something in common, whatever their rows.
    let others = |j: usize| {
        let step = m.div_ceil(OTHERS).max(1);
        let each: Vec<f64> = (1..m).step_by(step).map(|by| squares(j, (j + by) % m)).collect();
        each.iter().sum::<f64>() / each.len().max(1) as f64
    };
    let is_unrelated = size(&|j| squares(j, j)) <= CHANCE * size(&others).max((n as f64).recip());
    let times = (size(&|j| y.column(j).dot(&y.column(j))) / size(&|j| right.column(j).dot(&right.column(j)))).sqrt();
    (is_unrelated && times > 0.0).then(|| {
        let which = if off.len() == m {
            format!("all {m} output channels")
        } else {
            format!("output channels {} of {m}", listed::ranges(&off))
        };
        let said = format!(
            "{which} have nothing to do with the right ones, and are {times:.3} times as large: their rows of the weight are \
             others, as where they were not loaded"
        );
        Solution::without_values(said)
    })
}
