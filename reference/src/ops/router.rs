//! Router: scores each expert, chooses k by score plus bias, and weighs them by their share of the scores.
//!
//! ```text
//! rᵢₑ = σ(zᵢₑ)        Cᵢ = the k experts of largest rᵢₑ + bₑ        wᵢₑ = rᵢₑ / Σ rᵢ꜀ over c in Cᵢ
//! ```
//!
//! - Shapes: z and r \[n, E\], b \[E\], C and w \[n, k\].
//! - Dtypes: all f32, C whole numbers.
//! - Rounding: R1 at w, where a contract holds it in the activations' type.
//! - Errors: C1 len(b) = E; C2 1 ≤ k ≤ E; C3 groups divide E, and those chosen have k experts.
//! - Variants: D35 bias in the weights, ε in the sum; D36 w is the softmax of the k largest logits. Slips of ports: r is the
//!   softmax of all logits, or √softplus(z); C is the best expert k times, of the best groups alone, or without the first or
//!   last expert; b goes into σ; r is rounded to bf16 (`router_scores`); w is of the chosen logits' softmax, 1 or 1/k; the
//!   sum is over all experts, or there is none.
//! - Source: spec A9; `MiniMaxM2TopKRouter` in transformers 5.23. The order of equal experts is not defined there; here
//!   the lowest index comes first.

mod scores;

use ndarray::{Array2, ArrayView1, ArrayView2, Zip, s};

pub(super) use self::scores::softmax;
use self::scores::{bound_sigmoid, bound_sigmoid_of_sum, bound_sqrt_softplus, sqrt_softplus};
use crate::bound::ErrorBound;
use crate::bound::elementary::EXPONENTIAL;
use crate::error::require;
use crate::ranking::ranked;
use crate::rounding::RoutingRound;
use crate::semantics::{ExpertChoice, ExpertGroups, Renormalize, RouterEps, RouterScore, RoutingWeights, Semantics};
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Experts of a group that its score is the sum of.
const BEST: usize = 2;

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Router {
    /// k.
    pub top_k: usize,
    /// D36.
    pub score: RouterScore,
    /// D35.
    pub weights: RoutingWeights,
    /// D35.
    pub eps: RouterEps,
    /// What C is.
    pub choice: ExpertChoice,
    /// Of which C is chosen.
    pub groups: Option<ExpertGroups>,
    /// By what routing weights are divided.
    pub renormalize: Renormalize,
    /// R1.
    pub output: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// r of z; where choice and weights are made of different things, z itself.
pub fn scores<T: Real>(p: &Router, z: ArrayView2<'_, T>) -> Array2<T> {
    match p.score {
        RouterScore::Sigmoid => z.mapv(T::sigmoid),
        RouterScore::SqrtSoftplus => z.mapv(sqrt_softplus),
        RouterScore::SoftmaxTopk | RouterScore::SoftmaxChosen | RouterScore::BiasedSigmoid => z.to_owned(),
        RouterScore::Softmax => {
            let mut r = z.to_owned();
            r.rows_mut().into_iter().for_each(softmax);
            r
        }
    }
}

/// r + b; under D36, r. What cannot be chosen is −∞.
pub fn choice<T: Real>(p: &Router, r: ArrayView2<'_, T>, b: ArrayView1<'_, T>) -> Result<Array2<T>, ContractError> {
    p.check(r.ncols(), b.len())?;
    let mut choice = match p.score {
        RouterScore::Sigmoid | RouterScore::Softmax | RouterScore::SqrtSoftplus => &r + &b,
        RouterScore::SoftmaxTopk => r.to_owned(),
        RouterScore::SoftmaxChosen => r.mapv(T::sigmoid) + b,
        RouterScore::BiasedSigmoid => (&r + &b).mapv_into(T::sigmoid),
    };
    p.masked(&mut choice);
    Ok(choice)
}

/// C of r + b.
pub fn chosen<T: Real>(p: &Router, choice: ArrayView2<'_, T>) -> Array2<usize> {
    match p.choice {
        ExpertChoice::Distinct | ExpertChoice::NotFirst | ExpertChoice::NotLast => top_k(p.top_k, choice),
        ExpertChoice::Best => {
            let best = top_k(1, choice);
            Array2::from_shape_fn((choice.nrows(), p.top_k), |(i, _)| best[[i, 0]])
        }
    }
}

/// The columns of each row's k largest values, largest first, the lowest index first among equals; NaN counts as
/// larger than any number.
pub fn top_k<T: Real>(k: usize, choice: ArrayView2<'_, T>) -> Array2<usize> {
    let mut chosen = Array2::zeros((choice.nrows(), k));
    for (row, mut out) in choice.rows().into_iter().zip(chosen.rows_mut()) {
        let order = ranked(row);
        Zip::from(&mut out).and(&ArrayView1::from(&order[..k])).for_each(|out, &expert| *out = expert);
    }
    chosen
}

/// w of r, r + b and C.
pub fn weights<T: Real>(
    p: &Router,
    r: ArrayView2<'_, T>,
    choice: ArrayView2<'_, T>,
    chosen: ArrayView2<'_, usize>,
) -> Array2<T> {
    let ones;
    let from = if p.is_constant() {
        ones = Array2::ones(r.dim());
        ones.view()
    } else {
        p.weighed(r, choice)
    };
    let eps = T::of(p.added());
    let mut w = Array2::from_shape_fn(chosen.dim(), |(i, slot)| from[[i, chosen[[i, slot]]]]);
    for (i, mut row) in w.rows_mut().into_iter().enumerate() {
        if p.score.is_softmax_of_chosen() && !p.is_constant() {
            softmax(row.view_mut());
        } else {
            let sum = match p.renormalize {
                _ if p.weights == RoutingWeights::Ones => T::one(),
                Renormalize::Chosen => row.iter().fold(T::zero(), |sum, &r| sum + r) + eps,
                Renormalize::Nothing => T::one(),
                Renormalize::All => from.row(i).iter().fold(T::zero(), |sum, &r| sum + r) + eps,
            };
            row.mapv_inplace(|r| r / sum);
        }
        row.mapv_inplace(|w| p.output.round(w)); // R1
    }
    w
}

impl Router {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, semantics: &Semantics, top_k: usize) -> Self {
        Router {
            top_k,
            score: semantics.router_score,
            weights: semantics.routing_weights,
            eps: semantics.router_eps,
            choice: semantics.expert_choice,
            groups: semantics.expert_groups,
            renormalize: semantics.renormalize,
            output: match contract.routing {
                RoutingRound::Activations => contract.stored(),
                RoutingRound::F32 => Rounding::NONE,
            },
            unit: contract.unit(),
        }
    }

    /// C1 to C3.
    pub fn check(&self, experts: usize, bias: usize) -> Result<(), ContractError> {
        require(bias == experts, "router C1", "len(b)", bias, format!("E = {experts}"))?;
        require((1..=experts).contains(&self.top_k), "router C2", "k", self.top_k, format!("1 to E = {experts}"))?;
        let Some(ExpertGroups { groups, chosen }) = self.groups else { return Ok(()) };
        let whole = groups > 0 && experts.is_multiple_of(groups);
        require(whole, "router C3", "groups", groups, format!("a divisor of E = {experts}"))?;
        let room = chosen <= groups && chosen * (experts / groups) >= self.top_k;
        require(room, "router C3", "chosen groups", chosen, format!("up to {groups}, with k = {} experts", self.top_k))
    }

    /// −∞ for experts that are out of the choice.
    fn masked<T: Real>(&self, choice: &mut Array2<T>) {
        let (last, out) = (choice.ncols() - 1, T::neg_infinity());
        for mut row in choice.rows_mut() {
            match self.choice {
                ExpertChoice::NotFirst => row[0] = out,
                ExpertChoice::NotLast => row[last] = out,
                ExpertChoice::Distinct | ExpertChoice::Best => {}
            }
            let Some(ExpertGroups { groups, chosen }) = self.groups else { continue };
            let each = row.len() / groups;
            let score = |group: usize| {
                let experts = row.slice(s![group * each..(group + 1) * each]);
                ranked(experts).iter().take(BEST).fold(T::zero(), |sum, &e| sum + experts[e])
            };
            let scores: Vec<T> = (0..groups).map(score).collect();
            for group in ranked(ArrayView1::from(&scores)).into_iter().skip(chosen) {
                row.slice_mut(s![group * each..(group + 1) * each]).fill(out);
            }
        }
    }

    /// Whether weights are made of what experts are chosen by.
    fn is_of_choice(&self) -> bool {
        self.weights == RoutingWeights::Biased || self.score == RouterScore::BiasedSigmoid
    }

    /// Whether weights are not made of scores.
    fn is_constant(&self) -> bool {
        matches!(self.weights, RoutingWeights::Uniform | RoutingWeights::Ones)
    }

    /// Of r.
    pub fn bound_scores(&self, z: &Tracked<f64>, r: &Array2<f64>) -> ErrorBound {
        let input = z.error_or_exact();
        match self.score {
            RouterScore::Softmax => self.bound_softmax(z, r),
            RouterScore::Sigmoid => bound_sigmoid(self.unit, &z.value, input, r),
            RouterScore::SqrtSoftplus => bound_sqrt_softplus(self.unit, &z.value, input, r),
            RouterScore::SoftmaxTopk | RouterScore::SoftmaxChosen | RouterScore::BiasedSigmoid => input,
        }
    }

    /// Of r + b: that of r and one rounding of the sum.
    pub fn bound_choice(&self, r: &Tracked<f64>, choice: &Array2<f64>) -> ErrorBound {
        let mut error = match self.score {
            RouterScore::SoftmaxTopk => return r.error_or_exact(),
            RouterScore::SoftmaxChosen | RouterScore::BiasedSigmoid => bound_sigmoid_of_sum(self.unit, r),
            RouterScore::Sigmoid | RouterScore::Softmax | RouterScore::SqrtSoftplus => r.error_or_exact(),
        };
        Zip::from(&mut error.certain).and(&mut error.sigma).and(choice).for_each(|certain, sigma, choice| {
            // What is out of the choice is so exactly.
            let size = if choice.is_finite() { choice.abs() } else { 0.0 };
            let sum = self.unit * (size + *certain);
            *certain += sum;
            *sigma = sigma.hypot(sum / 3.0_f64.sqrt()).min(*certain);
        });
        error
    }

    /// Of a softmax over all experts: as in [`Router::softmax`], and the sum's and quotient's roundings.
    fn bound_softmax(&self, z: &Tracked<f64>, r: &Array2<f64>) -> ErrorBound {
        let mut error = z.error_or_exact();
        for (i, row) in r.rows().into_iter().enumerate() {
            let score =
                |e: usize| Score { value: z.value[[i, e]], certain: error.certain[[i, e]], sigma: error.sigma[[i, e]] };
            let scores: Vec<Score> = (0..row.len()).map(score).collect();
            for e in 0..row.len() {
                let own = (row.len() as f64 + 1.0) * self.unit;
                let certain = self.softmax(&scores, e, row).certain + own * (1.0 + own) * row[e] + FLUSHED;
                (error.certain[[i, e]], error.sigma[[i, e]]) = (certain, certain);
            }
        }
        error
    }

    /// Of w, for a given choice; then k + 1 roundings of sum and quotient, and R1.
    pub fn bound_weights(
        &self,
        r: &Tracked<f64>,
        choice: &Tracked<f64>,
        chosen: ArrayView2<'_, usize>,
        w: &Array2<f64>,
    ) -> ErrorBound {
        let from = match self.weights {
            RoutingWeights::Uniform | RoutingWeights::Ones => return self.bound_constant(w),
            RoutingWeights::Unbiased | RoutingWeights::Biased if self.is_of_choice() => choice,
            RoutingWeights::Unbiased | RoutingWeights::Biased => r,
        };
        let input = from.error_or_exact();
        let mut error = ErrorBound::exact(w.dim());
        error.carried = input.carried;
        for (i, experts) in chosen.rows().into_iter().enumerate() {
            let score =
                |e| Score { value: from.value[[i, e]], certain: input.certain[[i, e]], sigma: input.sigma[[i, e]] };
            let summed: Vec<usize> = match (self.score, self.renormalize) {
                (score, Renormalize::All) if !score.is_softmax_of_chosen() => (0..from.value.ncols()).collect(),
                _ => experts.to_vec(),
            };
            let scores: Vec<Score> = summed.iter().map(|&e| score(e)).collect();
            for (slot, &expert) in experts.iter().enumerate() {
                let y = w[[i, slot]];
                let moved = match (self.score, self.renormalize) {
                    (score, _) if score.is_softmax_of_chosen() => self.softmax(&scores, slot, w.row(i)),
                    (_, Renormalize::Chosen) => self.share(&scores, slot, y),
                    (_, Renormalize::All) => self.share(&scores, expert, y),
                    (_, Renormalize::Nothing) => {
                        let Score { certain, sigma, .. } = score(expert);
                        Moved { certain, sigma, cancelled: 1.0 }
                    }
                };
                let own = (summed.len() as f64 + 1.0) * self.unit * moved.cancelled;
                let certain = moved.certain + own * (1.0 + own) * (y.abs() + moved.certain) + FLUSHED;
                error.certain[[i, slot]] = certain;
                error.sigma[[i, slot]] = moved.sigma.hypot((own * y.abs() + FLUSHED) / 3.0_f64.sqrt()).min(certain);
            }
        }
        error.rounded(w.view(), self.output.storage)
    }

    /// 1, or a quotient of it.
    fn bound_constant(&self, w: &Array2<f64>) -> ErrorBound {
        let mut error = ErrorBound::exact(w.dim());
        error.certain.assign(&w.mapv(|w| (self.top_k as f64 + 1.0) * self.unit * w));
        error.sigma.clone_from(&error.certain);
        error.rounded(w.view(), self.output.storage)
    }

    /// How far y = r₀ / (ε + Σ r) moves when each r moves within its error. It is monotone in r₀ and in the others' sum,
    /// so that the ends of both give its own, unless the divisor may be 0. Scores without a bias are not negative.
    fn share(&self, scores: &[Score], own: usize, y: f64) -> Moved {
        let is_biased = self.is_of_choice();
        let least = if is_biased { f64::NEG_INFINITY } else { 0.0 };
        let ends = |s: &Score| [(s.value - s.certain).max(least), s.value + s.certain];
        let others = || scores.iter().enumerate().filter(|(slot, _)| *slot != own).map(|(_, s)| s);
        let rest = [0, 1].map(|end| others().map(|s| ends(s)[end]).sum::<f64>() + self.added());
        let [low, high] = ends(&scores[own]);
        let (least_sum, largest_sum) = (low + rest[0], high + rest[1]);
        if least_sum < 0.0 && 0.0 < largest_sum {
            return Moved { certain: f64::INFINITY, sigma: f64::INFINITY, cancelled: 1.0 };
        }
        let corner = |r: f64, rest: f64| if r == 0.0 { 0.0 } else { r / (r + rest) };
        let corners = [corner(low, rest[0]), corner(low, rest[1]), corner(high, rest[0]), corner(high, rest[1])];
        let total = scores.iter().map(|s| s.value).sum::<f64>() + self.added();
        let spread = others().map(|s| (y * s.sigma).powi(2)).sum::<f64>() + ((1.0 - y) * scores[own].sigma).powi(2);
        // Biased scores may be of both signs, and each rounding is of a partial sum.
        let cancelled = if is_biased {
            let absolute = scores.iter().map(|s| s.value.abs() + s.certain).sum::<f64>() + self.added();
            absolute / least_sum.abs().min(largest_sum.abs())
        } else {
            1.0
        };
        let certain = corners.into_iter().map(|corner| (corner - y).abs()).fold(0.0, f64::max);
        // Where the sum may lose half of itself, a share is far from linear in the scores.
        let linear = least_sum.abs().min(largest_sum.abs()) > total.abs() / 2.0;
        let sigma = if linear { spread.sqrt() / total.abs() } else { certain };
        Moved { certain, sigma, cancelled }
    }

    /// D36: a softmax moves by a factor within exp(±2·worst), and by what the exponentials of the difference to the
    /// largest logit are off, this one's and the others' on average.
    fn softmax(&self, scores: &[Score], own: usize, w: ArrayView1<'_, f64>) -> Moved {
        let largest = scores.iter().map(|s| s.value).fold(f64::NEG_INFINITY, f64::max);
        let worst = scores.iter().map(|s| s.certain).fold(0.0, f64::max);
        let exponential = |s: &Score| self.unit * (EXPONENTIAL + 2.0 * (largest - s.value + 2.0 * worst));
        let others: f64 = scores.iter().zip(w).map(|(s, w)| w * exponential(s).exp_m1()).sum();
        let certain = w[own] * (2.0 * worst + exponential(&scores[own]) + others).exp_m1();
        Moved { certain, sigma: certain, cancelled: 1.0 }
    }

    fn weighed<'a, T>(&self, r: ArrayView2<'a, T>, choice: ArrayView2<'a, T>) -> ArrayView2<'a, T> {
        if self.is_of_choice() { choice } else { r }
    }

    fn added(&self) -> f64 {
        match self.eps {
            RouterEps::Zero => 0.0,
            RouterEps::Tiny => 1e-20,
        }
    }
}

/// A chosen expert's score and its error.
struct Score {
    value: f64,
    certain: f64,
    sigma: f64,
}

/// By how much a weight moves with the scores, and by what factor their cancellation magnifies a rounding.
struct Moved {
    certain: f64,
    sigma: f64,
    cancelled: f64,
}
