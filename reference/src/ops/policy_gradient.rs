//! CISPO: by how much a token's log-probability is pushed in reinforcement learning, beside PPO's clip.
//!
//! ```text
//! CISPO: cᵢ = clip(rᵢ, 1 − ε₁, 1 + ε₂)·Aᵢ                      r = π(token) / π₀(token)
//! PPO:   cᵢ = rᵢ·Aᵢ where rᵢ·Aᵢ ≤ clip(rᵢ, 1 − ε₁, 1 + ε₂)·Aᵢ, else 0
//! J's gradient = (1/n)·Σᵢ cᵢ·∇ log π(tokenᵢ)
//! ```
//!
//! CISPO clips the weight and keeps every token's gradient; PPO drops those of tokens that have moved far enough.
//!
//! - Shapes: log π, log π₀, A and c \[n\].
//! - Dtypes: f32.
//! - Rounding: all in f32, nothing is stored in between.
//! - Errors: C1 as many log-probabilities and advantages; C2 0 ≤ ε₁ ≤ 1, ε₂ ≥ 0.
//! - Variants: the two. Advantages of a group are rewards less their mean, over their standard deviation.
//! - Source: spec A36; document 003 names it; the formula is MiniMax-M1's (arXiv 2506.13585), which is not among the documents.

use ndarray::{Array1, ArrayView1, Zip};

use crate::bound::elementary::EXPONENTIAL;
use crate::error::require;
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

/// How far each c may be off: r by its exponential and a rounding of its argument, the clip's ends by theirs, then c by a product; the
/// clip moves nothing further apart. Where PPO's r, so far off, may be on either side of where it is dropped, c is off by itself.
pub fn bound(
    p: &PolicyGradient,
    new: ArrayView1<'_, f64>,
    old: ArrayView1<'_, f64>,
    advantages: ArrayView1<'_, f64>,
    unit: f64,
) -> Array1<f64> {
    let [least, most] = [1.0 - p.clip[0], 1.0 + p.clip[1]];
    let mut error = Array1::zeros(new.len());
    Zip::from(&mut error).and(new).and(old).and(advantages).for_each(|error, new, old, advantage| {
        let ratio = (new - old).exp();
        let off = ratio * (EXPONENTIAL + (new - old).abs()) * unit;
        let size = (ratio + off).max(most) * advantage.abs();
        let limit = if *advantage < 0.0 { least } else { most };
        let is_open = p.objective == Objective::Ppo && (ratio - limit).abs() <= off + unit;
        *error = off * advantage.abs() + 4.0 * unit * size + if is_open { size } else { 0.0 };
    });
    error
}

/// A of the rewards of one group of answers; of equal ones 0.
pub fn advantages<T: Real>(rewards: ArrayView1<'_, T>) -> Array1<T> {
    let n = T::of(rewards.len() as f64);
    let mean = rewards.sum() / n;
    let spread = (rewards.fold(T::zero(), |sum, &reward| sum + (reward - mean).powi(2)) / n).sqrt();
    rewards.mapv(|reward| if spread == T::zero() { T::zero() } else { (reward - mean) / spread })
}
