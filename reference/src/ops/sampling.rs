//! Sampling: the next token, from the logits of the last.
//!
//! ```text
//! t = argmax z        or t drawn from softmax(z / τ), cut to the k largest and to the smallest set of mass ≥ p
//! ```
//!
//! - Shapes: z \[v\].
//! - Dtypes: z as computed; probabilities f64.
//! - Rounding: none.
//! - Errors: C1 v ≥ 1; C2 no NaN; C3 τ > 0, k ≥ 1, 0 < p ≤ 1.
//! - Source: spec A20, G19. Among equal logits the lowest token wins.

use ndarray::{Array1, ArrayView1};
use rand::{Rng, RngExt};

use crate::accumulator::gamma;
use crate::bound::elementary::EXPONENTIAL;
use crate::error::require;
use crate::storage::FLUSHED;
use crate::{ContractError, Real};

/// How a token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// The largest logit.
    Greedy,
    /// A draw.
    Random(Random),
}

/// Parameters of a draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Random {
    /// τ.
    pub temperature: f64,
    /// Only the k largest; `None` for all.
    pub top_k: Option<usize>,
    /// Only the fewest that together have this mass; 1 for all.
    pub top_p: f64,
}

/// A token, and how far the largest logit stands above the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The token.
    pub token: u32,
    /// Largest logit less the second largest; ∞ for a vocabulary of one.
    pub margin: f64,
}

/// t of z.
pub fn sample<T: Real>(p: &Sampling, z: ArrayView1<'_, T>, rng: &mut impl Rng) -> Result<Choice, ContractError> {
    let greedy = argmax(z)?;
    match p {
        Sampling::Greedy => Ok(greedy),
        Sampling::Random(random) => Ok(Choice { token: random.draw(z, rng)?, ..greedy }),
    }
}

/// The lowest token among those of the largest logit.
pub fn argmax<T: Real>(z: ArrayView1<'_, T>) -> Result<Choice, ContractError> {
    require(!z.is_empty(), "sampling C1", "v", z.len(), "at least 1")?;
    let nan = z.iter().position(|x| x.is_nan());
    require(nan.is_none(), "sampling C2", &format!("logit {}", nan.unwrap_or(0)), "NaN", "a number")?;
    let (mut best, mut second) = (0, T::neg_infinity());
    for (token, &x) in z.iter().enumerate().skip(1) {
        if x > z[best] {
            second = z[best];
            best = token;
        } else if x > second {
            second = x;
        }
    }
    let margin = match z.len() {
        1 => f64::INFINITY,
        // Two infinities have no difference.
        _ if z[best] == second => 0.0,
        _ => z[best].wide() - second.wide(),
    };
    Ok(Choice { token: u32::try_from(best).expect("a vocabulary is below 2³²"), margin })
}

impl Random {
    fn draw<T: Real>(&self, z: ArrayView1<'_, T>, rng: &mut impl Rng) -> Result<u32, ContractError> {
        let (order, mass) = self.kept(z)?;
        let drawn = draw(&mass, rng) as usize;
        Ok(u32::try_from(order[drawn]).expect("a vocabulary is below 2³²"))
    }

    /// What each token is drawn with by z \[v\].
    pub fn probabilities<T: Real>(&self, z: ArrayView1<'_, T>) -> Result<Vec<f64>, ContractError> {
        argmax(z)?;
        let (order, mass) = self.kept(z)?;
        let total: f64 = mass.iter().sum();
        let mut all = vec![0.0; z.len()];
        for (token, mass) in order.into_iter().zip(mass) {
            all[token] = mass / total;
        }
        Ok(all)
    }

    /// How far probabilities `p` of z may be off that are computed in another type: by roundings of the argument, an
    /// exponential, a sum and quotients, times p; and, where the cut could as well have been after fewer or more
    /// tokens, by what that moves. NaN is never within.
    pub fn bound(&self, z: ArrayView1<'_, f64>, p: ArrayView1<'_, f64>, unit: f64) -> Array1<f64> {
        let top = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let reach = z.iter().zip(p).filter(|(_, p)| **p > 0.0).map(|(z, _)| top - z).fold(0.0, f64::max);
        let own = 3.0 * unit * (reach + top.abs()) / self.temperature + EXPONENTIAL * unit + gamma(z.len() + 3, unit);
        let slack = 2.0 * own + gamma(z.len() + 3, unit);
        let cut = |factor: f64| {
            let top_p = (self.top_p * factor).min(1.0);
            Random { top_p, ..*self }.probabilities(z).map(Array1::from_vec).expect("as p was made")
        };
        let (fewest, most) = (cut(1.0 - slack), cut(1.0 + slack));
        // Equal logits at the cut may be taken in another order.
        let last = z.iter().zip(p).filter(|(_, p)| **p > 0.0).map(|(z, _)| *z).fold(top, f64::min);
        let is_split = z.iter().zip(p).any(|(z, p)| *z == last && *p == 0.0);
        let tied = z.iter().zip(p).filter(|(z, _)| **z == last).map(|(_, p)| *p).fold(0.0, f64::max);
        Array1::from_shape_fn(z.len(), |i| {
            let largest = p[i].max(fewest[i]).max(most[i]);
            let moved = (fewest[i] - p[i]).abs().max((most[i] - p[i]).abs());
            let order = if is_split && z[i] == last { tied } else { 0.0 };
            moved + order + 2.0 * own * (largest + order) + FLUSHED
        })
    }

    /// The tokens that may be drawn, the likeliest first, and what each is drawn with, but for a factor.
    fn kept<T: Real>(&self, z: ArrayView1<'_, T>) -> Result<(Vec<usize>, Vec<f64>), ContractError> {
        let k = self.top_k.unwrap_or(z.len());
        require(self.temperature > 0.0, "sampling C3", "temperature", self.temperature, "above 0")?;
        require(k >= 1, "sampling C3", "top-k", k, "at least 1")?;
        require(0.0 < self.top_p && self.top_p <= 1.0, "sampling C3", "top-p", self.top_p, "above 0, at most 1")?;
        let mut order: Vec<usize> = (0..z.len()).collect();
        order.sort_by(|&a, &b| z[b].partial_cmp(&z[a]).expect("C2"));
        order.truncate(k);
        let top = z[order[0]].wide();
        let mut mass: Vec<f64> = order.iter().map(|&t| ((z[t].wide() - top) / self.temperature).exp()).collect();
        let total: f64 = mass.iter().sum();
        let mut sum = 0.0;
        let kept = mass.iter().take_while(|&&m| {
            let before = sum;
            sum += m;
            before < self.top_p * total
        });
        let kept = kept.count().max(1);
        mass.truncate(kept);
        order.truncate(kept);
        Ok((order, mass))
    }
}

/// One of the numbers of `mass`, drawn with what it is of their sum, which is above 0.
pub fn draw(mass: &[f64], rng: &mut impl Rng) -> u32 {
    let mut left = rng.random::<f64>() * mass.iter().sum::<f64>();
    let drawn = mass.iter().position(|&m| {
        left -= m;
        left < 0.0
    });
    let last = || mass.iter().rposition(|&m| m > 0.0).unwrap_or(0);
    u32::try_from(drawn.unwrap_or_else(last)).expect("a vocabulary is below 2³²")
}
