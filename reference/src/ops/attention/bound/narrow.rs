//! The bounds of a softmax that takes and gives bf16, a slip of ports.
//!
//! Truth and device round alike, so that they are apart only where a middle of two neighbours is near:
//!
//! ```text
//! |ρ(x̂) − ρ(x)| ≤ max(ρ(x + e) − ρ(x), ρ(x) − ρ(x − e))
//! |ô − o| ≤ Σⱼ rⱼ·(|vⱼ| + eⱼ) + ρ(pⱼ)·eⱼ + c·(ρ(pⱼ) + rⱼ)·(|vⱼ| + eⱼ)
//! ```
//!
//! with r of the probabilities, and c of the accumulator. An error that is mostly none has no standard deviation of use.

use ndarray::{Array1, ArrayView1, Zip};

use super::{Attention, Inputs, ScoreError, Softmax, Values, Weights};
use crate::semantics::ScoreType;

impl Attention {
    /// How far a probability is off after it was rounded.
    pub(super) fn narrow(&self, p: f64, certain: f64) -> (f64, f64) {
        let apart = self.probabilities.storage.apart(p, certain);
        (apart, apart)
    }

    /// A block of the truth, and how far its scores may be off.
    pub(super) fn scored(
        &self,
        inputs: &Inputs<'_>,
        head: usize,
        first: usize,
        rows: usize,
    ) -> (Softmax<f64>, ScoreError) {
        let softmax =
            |p: Attention| p.softmax(inputs.q.view(), p.head(inputs.k.view(), p.key_head(head)), head, first, rows);
        let exact = softmax(Attention { softmax: ScoreType::F32, ..self.unrounded() });
        let error = self.score_error(inputs, head, first, &exact);
        match self.softmax {
            ScoreType::F32 => (exact, error),
            ScoreType::Bf16 => (softmax(self.unrounded()), self.narrow_scores(&exact, error)),
        }
    }

    /// Of the scores as the softmax takes them.
    fn narrow_scores(&self, exact: &Softmax<f64>, mut error: ScoreError) -> ScoreError {
        let each = Zip::from(&mut error.certain).and(&mut error.own).and(&mut error.shared).and(&exact.scores);
        each.for_each(|certain, own, shared, &score| {
            if score > f64::NEG_INFINITY {
                *certain = self.softmax.storage().apart(score, *certain);
                (*own, *shared) = (*certain, 0.0);
            }
        });
        error
    }

    /// Of Σⱼ ρ(pⱼ)·vⱼ, channel by channel, of scores that may be off by d.
    pub(super) fn narrow_mean_error(
        &self,
        values: &Values<'_>,
        weights: &Weights,
        d: ArrayView1<'_, f64>,
    ) -> (Array1<f64>, Array1<f64>) {
        let keys = weights.probability.len();
        let (own, sums) = (self.softmax_error(keys), self.summed(keys));
        let normal = self.accumulator.smallest_normal();
        let storage = self.probabilities.storage;
        let mut certain = Array1::zeros(self.head_dim);
        for j in (0..keys).filter(|&j| weights.highest[j] > 0.0) {
            let p = weights.probability[j];
            let (apart, _) = self.narrow(p, weights.certain(j, d[j], own, normal));
            let rounded = storage.nearest(p);
            for (channel, certain) in certain.iter_mut().enumerate() {
                let (v, e) = (values.value[[j, channel]].abs(), values.certain[[j, channel]]);
                let total = (rounded + apart) * (v + e);
                *certain += apart * (v + e) + rounded * e + sums * total + normal * v.max(1.0);
            }
        }
        (certain.clone(), certain)
    }
}
