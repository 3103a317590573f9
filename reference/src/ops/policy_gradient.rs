//! Policy gradient: by how much each token's log-probability is pushed in reinforcement learning, by CISPO or by PPO's
//! clip.
//!
//! ```text
//! CISPO: cᵢ = clip(rᵢ, 1 − ε₁, 1 + ε₂)·Aᵢ                                            rᵢ = π(tokenᵢ) / π₀(tokenᵢ)
//! PPO:   cᵢ = rᵢ·Aᵢ where rᵢ·Aᵢ ≤ clip(rᵢ, 1 − ε₁, 1 + ε₂)·Aᵢ, else 0
//! J's gradient = (1/n)·Σᵢ cᵢ·∇ log π(tokenᵢ)        A = (R − mean R) / √(mean (R − mean R)²), or 0 where all R are equal
//! ```
//!
//! CISPO clips the weight and keeps every token's gradient; PPO drops those of tokens that have moved far enough. A
//! token has the advantage of its answer, of which R are the rewards in a group that answers one question.
//!
//! - Shapes: log π, log π₀, A and c \[n\]; R and its A \[G\].
//! - Dtypes: f32.
//! - Rounding: all in f32, nothing is stored in between.
//! - Errors: C1 as many log-probabilities and advantages; C2 0 ≤ ε₁ ≤ 1, ε₂ ≥ 0; C3 G ≥ 1.
//! - Variants: the two objectives.
//! - Source: spec A36; document 003 names CISPO; the formulas are MiniMax-M1's (arXiv 2506.13585), which is not among
//!   the documents.

use ndarray::{Array1, ArrayView1, Zip};

use crate::accumulator::gamma;
use crate::bound::elementary::EXPONENTIAL;
use crate::error::require;
use crate::storage::FLUSHED;
use crate::{ContractError, Real};

/// Which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// The weight is clipped.
    Cispo,
    /// The update is clipped.
    Ppo,
}

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyGradient {
    /// Which.
    pub objective: Objective,
    /// ε₁ and ε₂.
    pub clip: [f64; 2],
}

/// c of log π, log π₀ and A.
pub fn policy_gradient<T: Real>(
    p: &PolicyGradient,
    new: ArrayView1<'_, T>,
    old: ArrayView1<'_, T>,
    advantages: ArrayView1<'_, T>,
) -> Result<Array1<T>, ContractError> {
    for (name, len) in [("len(log π₀)", old.len()), ("len(A)", advantages.len())] {
        require(len == new.len(), "policy_gradient C1", name, len, new.len())?;
    }
    let [below, above] = p.clip;
    require((0.0..=1.0).contains(&below), "policy_gradient C2", "ε₁", below, "from 0 to 1")?;
    require(0.0 <= above, "policy_gradient C2", "ε₂", above, "at least 0")?;
    let (least, most) = (T::of(1.0 - below), T::of(1.0 + above));
    let mut c = Array1::zeros(new.len());
    Zip::from(&mut c).and(new).and(old).and(advantages).for_each(|c, &new, &old, &advantage| {
        let ratio = (new - old).exp();
        let within = if ratio < least { least } else { ratio };
        let clipped = if within > most { most } else { within } * advantage;
        *c = match p.objective {
            Objective::Cispo => clipped,
            Objective::Ppo if ratio * advantage > clipped => T::zero(),
            Objective::Ppo => ratio * advantage,
        };
    });
    Ok(c)
}

/// How far each c may be off; NaN where c is. An exponential, a rounding of its argument and what is flushed leave r
/// between two ends, and the clip moves these no further apart; its own ends are two roundings off, and each product
/// one. Where PPO may find either of what it compares larger, c may be off by itself.
pub fn bound(
    p: &PolicyGradient,
    new: ArrayView1<'_, f64>,
    old: ArrayView1<'_, f64>,
    advantages: ArrayView1<'_, f64>,
    unit: f64,
) -> Array1<f64> {
    let [least, most] = [1.0 - p.clip[0], 1.0 + p.clip[1]];
    Zip::from(&new).and(&old).and(&advantages).map_collect(|new, old, advantage| {
        if new.is_nan() || old.is_nan() || advantage.is_nan() {
            return f64::NAN;
        }
        let (ratio, size) = ((new - old).exp(), advantage.abs());
        let off = (unit * (new - old).abs()).exp() * (1.0 + EXPONENTIAL * unit) - 1.0;
        let [low, high] = [(ratio * (1.0 - off) - FLUSHED).max(0.0), ratio * (1.0 + off) + FLUSHED];
        // Two infinities have no difference.
        let apart = |low: f64, high: f64| if low == high { 0.0 } else { high - low };
        let limit = if *advantage < 0.0 { least } else { most };
        let is_open = low - ENDS * unit * most <= limit && limit <= high + ENDS * unit * most;
        let is_dropped = if *advantage < 0.0 { ratio < limit } else { ratio > limit };
        let weight = match p.objective {
            Objective::Cispo => {
                let [low, high] = [low, high].map(|r| r.clamp(least, most));
                apart(low, high) + ENDS * unit * most
            }
            Objective::Ppo if is_open => high,
            Objective::Ppo if is_dropped => 0.0,
            Objective::Ppo => apart(low, high) + unit * if high.is_finite() { high } else { 0.0 },
        };
        if size == 0.0 { 0.0 } else { weight * size * (1.0 + unit) + FLUSHED }
    })
}

/// In u of 1 + ε₂, what the clip's ends are off by, and a product with either.
const ENDS: f64 = 4.0;

/// A of the rewards of one group of answers (C3).
pub fn advantages<T: Real>(rewards: ArrayView1<'_, T>) -> Result<Array1<T>, ContractError> {
    require(!rewards.is_empty(), "policy_gradient C3", "G", 0, "at least 1")?;
    let n = T::of(rewards.len() as f64);
    let mean = rewards.sum() / n;
    let spread = (rewards.fold(T::zero(), |sum, &reward| sum + (reward - mean).powi(2)) / n).sqrt();
    Ok(rewards.mapv(|reward| if spread == T::zero() { T::zero() } else { (reward - mean) / spread }))
}

/// How far each A may be off: the mean is off by its sum and quotient, m; each deviation by that and its rounding, and
/// their root mean square by the root mean square of those, by its sum, quotient and root; then a quotient. Of any G
/// numbers, one is no more than √(G − 1) such roots from the mean, which bounds A where all rewards are nearly equal.
pub fn bound_advantages(rewards: ArrayView1<'_, f64>, unit: f64) -> Array1<f64> {
    let (n, count) = (rewards.len(), rewards.len() as f64);
    let mean = rewards.sum() / count;
    let moved = gamma(n + 1, unit) * rewards.iter().map(|reward| reward.abs()).sum::<f64>() / count + FLUSHED;
    let off = |deviation: f64| moved + unit * (deviation.abs() + moved);
    let deviations = rewards.mapv(|reward| reward - mean);
    let root = |x: Array1<f64>| (x.mapv(|x| x * x).sum() / count).sqrt();
    let spread = root(deviations.clone());
    let spread_off = root(deviations.mapv(off)) * (1.0 + gamma(n + 4, unit)) + gamma(n + 4, unit) * spread + FLUSHED;
    deviations.mapv(|deviation| {
        let largest = if spread == 0.0 { 0.0 } else { deviation.abs() / spread } + count.sqrt();
        let least = spread - spread_off;
        if least <= 0.0 {
            return largest;
        }
        let moved = (off(deviation) + deviation.abs() * spread_off / spread) / least;
        (moved + 2.0 * unit * (deviation.abs() / spread + moved) + FLUSHED).min(largest)
    })
}
