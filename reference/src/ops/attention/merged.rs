//! Splits of keys, so many each or so many in all, that a port puts together otherwise than by their sums:
//!
//! ```text
//! m = max s, l = Σⱼ exp(sⱼ − m), y = Σⱼ exp(sⱼ − m)·vⱼ        of each split; M the largest m, r the largest m so far
//!
//! own           o = Σ y / Σ l
//! averaged      o = Σ (y/l) / (number of splits)
//! unsummed      o = Σ exp(m − M)·(y/l) / Σ exp(m − M)
//! values kept   o = Σ exp(m − r)·y / Σ exp(m − M)·l            weights kept, both kept: r and M the other way round, or r twice
//! ```

use ndarray::{ArrayView1, ArrayViewMut1};

use crate::Real;
use crate::semantics::{Merge, Merged};

impl Merged {
    /// Makes a row's weights those by which the merged splits count values, and gives what their sum is divided by.
    pub(super) fn apply<T: Real>(self, scores: ArrayView1<'_, T>, mut weights: ArrayViewMut1<'_, T>) -> T {
        let (mut so_far, mut divisor) = (T::neg_infinity(), T::zero());
        let last = scores.iter().fold(so_far, |top, &score| top.max(score));
        let seen = scores.iter().rposition(|score| *score > T::neg_infinity()).map_or(0, |last| last + 1);
        let step = self.split.size(seen);
        for first in (0..scores.len()).step_by(step) {
            let split = first..(first + step).min(scores.len());
            let largest = split.clone().fold(T::neg_infinity(), |top, j| top.max(scores[j]));
            if largest == T::neg_infinity() {
                continue; // every key of it is masked
            }
            so_far = so_far.max(largest);
            let sum = |beside: T| split.clone().fold(T::zero(), |sum, j| sum + (scores[j] - beside).exp());
            let (beside, times, more) = match self.by {
                Merge::Own => (largest, T::one(), sum(largest)),
                Merge::Averaged => (largest, sum(largest).recip(), T::one()),
                Merge::Unsummed => {
                    let share = (largest - last).exp();
                    (largest, share / sum(largest), share)
                }
                Merge::ValuesKept => (so_far, T::one(), sum(last)),
                Merge::WeightsKept => (last, T::one(), sum(so_far)),
                Merge::BothKept => (so_far, T::one(), sum(so_far)),
            };
            divisor += more;
            for j in split {
                weights[j] = (scores[j] - beside).exp() * times;
            }
        }
        divisor
    }
}
