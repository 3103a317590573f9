//! Which drafts are accepted (SPEC A20).
//!
//! ```text
//! greedy     dᵢ where dᵢ = argmax Pᵢ                          else argmax Pᵢ, and stop
//! sampled    dᵢ where u·Qᵢ(dᵢ) < Pᵢ(dᵢ), u even in [0, 1)     else a draw from max(Pᵢ − Qᵢ, 0), and stop
//! ```
//!
//! - Shapes: z \[k + 1, v\], row i the logits after draft i − 1; P the distribution that a token is drawn from by z; Q \[v\].
//! - Dtypes: z as computed; probabilities f64.
//! - Rounding: none.
//! - Errors: C1 a row of z for each draft and one more; C2 a draft is below v; C3 len(Q) = v.
//! - Variants: slips of engines ([`Slip`]).
//! - Source: spec A20; `rejection_sampler.py` in vLLM 0.33.
//!
//! Where all k are accepted, a token more comes from the last row of z. A draft without Q counts as certain; one of Q = 0 is rejected.
//! The documents' u ≤ P/Q differs from u·Q < P in ties alone, where one of P = 0 must not be accepted.

use ndarray::ArrayView2;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::drafter::Draft;
use crate::error::require;
use crate::ops::sampling::{Choice, Sampling, argmax, draw, sample};
use crate::{ContractError, Real};

/// What engines are known to slip on (SPEC F5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slip {
    /// Drafts behind a mismatch are accepted where they match.
    AcceptAfterMismatch,
    /// What replaces a rejected draft is drawn from P.
    NoRecoveredAdjust,
    /// Rejected drafts stay in the caches.
    KvNotRolledBack,
    /// No token follows drafts that are all accepted.
    BonusMissing,
}

/// What came of a round of drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// The tokens, drafts that were accepted first.
    pub choices: Vec<Choice>,
    /// How many drafts were.
    pub accepted: usize,
}

/// What is accepted of drafts by the logits z before and after each of them, and what follows.
pub fn accept<T: Real>(
    slip: Option<Slip>,
    z: ArrayView2<'_, T>,
    drafts: &[Draft],
    sampling: &Sampling,
    rng: &mut ChaCha8Rng,
) -> Result<Round, ContractError> {
    round(slip, z.dim(), drafts, |place, draft| {
        let best = argmax(z.row(place))?;
        Ok(match (sampling, draft) {
            (_, None) => (sample(sampling, z.row(place), rng)?, false),
            (Sampling::Greedy, Some(draft)) => (best, best.token == draft.token),
            (Sampling::Random(random), Some(draft)) => {
                let (token, is_accepted) = replacing(slip, &random.probabilities(z.row(place))?, draft, rng);
                (Choice { token, ..best }, is_accepted)
            }
        })
    })
}

/// The same greedily, where the largest of the v logits before and after each draft is known.
pub fn accept_greedily(
    slip: Option<Slip>,
    (largest, v): (&[Choice], usize),
    drafts: &[Draft],
) -> Result<Round, ContractError> {
    round(slip, (largest.len(), v), drafts, |place, draft| {
        let best = largest[place];
        Ok((best, draft.is_some_and(|draft| draft.token == best.token)))
    })
}

/// The places of drafts one after another, and the one behind them: `choose` says which token stands there, and whether it is the
/// draft.
fn round(
    slip: Option<Slip>,
    (rows, v): (usize, usize),
    drafts: &[Draft],
    mut choose: impl FnMut(usize, Option<&Draft>) -> Result<(Choice, bool), ContractError>,
) -> Result<Round, ContractError> {
    require(rows == drafts.len() + 1, "acceptance C1", "rows of z", rows, drafts.len() + 1)?;
    let mut round = Round { choices: Vec::new(), accepted: 0 };
    for (place, draft) in drafts.iter().enumerate() {
        require((draft.token as usize) < v, "acceptance C2", "draft", draft.token, format!("below v = {v}"))?;
        let q = draft.probabilities.as_ref().map_or(v, Vec::len);
        require(q == v, "acceptance C3", "len(Q)", q, format!("v = {v}"))?;
        let (choice, is_accepted) = choose(place, Some(draft))?;
        round.choices.push(choice);
        if is_accepted {
            round.accepted += 1;
        } else if slip != Some(Slip::AcceptAfterMismatch) {
            return Ok(round);
        }
    }
    if drafts.is_empty() || slip != Some(Slip::BonusMissing) {
        round.choices.push(choose(drafts.len(), None)?.0);
    }
    Ok(round)
}

/// The draft if it is accepted, else the token in its place, and which of both.
fn replacing(slip: Option<Slip>, p: &[f64], draft: &Draft, rng: &mut ChaCha8Rng) -> (u32, bool) {
    let d = draft.token as usize;
    let q = |token: usize| match &draft.probabilities {
        Some(q) => q[token],
        None => f64::from(u8::from(token == d)),
    };
    if q(d) > 0.0 && rng.random::<f64>() * q(d) < p[d] {
        return (draft.token, true);
    }
    let adjusted = slip != Some(Slip::NoRecoveredAdjust);
    let left: Vec<f64> =
        p.iter().enumerate().map(|(token, p)| if adjusted { (p - q(token)).max(0.0) } else { *p }).collect();
    // Nothing is left where P and Q are one but for their last bits.
    (draw(if left.iter().any(|p| *p > 0.0) { &left } else { p }, rng), false)
}
