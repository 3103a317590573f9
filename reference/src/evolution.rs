//! Self-evolution: keeps a change of something that is scored if it is better by more than a threshold, else reverts it.
//!
//! ```text
//! kept ⇔ s > b + θ        b', x' = s, c where kept, else b, x        improvement = (b − s₀) / s₀
//! ```
//!
//! - s is the score of the candidate c, s₀ of what the loop began with, b the best until then, of x; larger is better.
//! - θ is absolute, 0.01 in the document, which calls it 1 %: that it is where s₀ = 1.
//! - Rounding: b + θ is rounded once, so of a score that is b + θ over the reals (0.51 after 0.5, 0.07 after 0.06) the rounding
//!   decides. A score that is no number is above nothing, and never kept.
//! - Errors: C1 s₀ is finite; C2 θ ≥ 0.
//! - Variants: D64 when a round's flag is computed.
//! - Source: document 003, "Snippet Two: Self-Evolution Loop", step 5; spec A37.

use crate::ContractError;
use crate::error::require;

/// The document's θ.
pub const THRESHOLD: f64 = 0.01;

/// D64: when the flag `kept` of a round is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptFlag {
    /// When it is decided: it says what became of the candidate.
    Decided,
    /// After the best score has been updated, as the document's listing does (`doc003_bug`): it says no of every candidate that
    /// was kept, and yes of one that was better by no more than θ and reverted.
    Listing,
}

/// Whether a candidate is kept.
pub fn is_kept(score: f64, best: f64, threshold: f64) -> bool {
    score > best + threshold
}

/// A state that evolves.
#[derive(Debug, Clone, PartialEq)]
pub struct Evolution<S> {
    baseline: f64,
    best: f64,
    threshold: f64,
    state: S,
}

impl<S> Evolution<S> {
    /// Of a state that was scored. C1 and C2.
    pub fn of(state: S, baseline: f64, threshold: f64) -> Result<Self, ContractError> {
        require(baseline.is_finite(), "evolution C1", "s₀", baseline, "a number")?;
        require(threshold >= 0.0, "evolution C2", "θ", threshold, "at least 0")?;
        Ok(Evolution { baseline, best: baseline, threshold, state })
    }

    /// Keeps the candidate or reverts it; the round's flag.
    pub fn judge(&mut self, candidate: S, score: f64, flag: KeptFlag) -> bool {
        let is_kept = is_kept(score, self.best, self.threshold);
        if is_kept {
            self.best = score;
            self.state = candidate;
        }
        match flag {
            KeptFlag::Decided => is_kept,
            KeptFlag::Listing => score > self.best,
        }
    }

    /// x.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// b.
    pub fn best(&self) -> f64 {
        self.best
    }

    /// How much better the best is, relatively; `None` where s₀ is 0.
    pub fn improvement(&self) -> Option<f64> {
        (self.baseline != 0.0).then(|| (self.best - self.baseline) / self.baseline)
    }
}
