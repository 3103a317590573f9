//! Means of values by a softmax of their scores, of keys that are seen.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis, concatenate, s};

use super::way::{Merge, Run, Way};

/// Sums over the keys before each, of which those of any run follow.
pub(in crate::diagnose) struct Sums {
    scores: Array1<f64>,
    /// The largest score, or 0 if that is more: all are less by it.
    largest: f64,
    /// Σ exp(sⱼ − largest) over the keys before \[keys + 1\].
    weights: Array1<f64>,
    /// Σ exp(sⱼ − largest)·vⱼ over the keys before \[keys + 1, d\].
    values: Array2<f64>,
    /// vⱼ \[keys, d\].
    each: Array2<f64>,
}

impl Sums {
    pub(super) fn of(scores: Array1<f64>, values: ArrayView2<'_, f64>) -> Self {
        let largest = scores.fold(0.0, |most: f64, score| most.max(*score));
        let exponentials = scores.mapv(|score| (score - largest).exp());
        let (n, d) = values.dim();
        let (mut sums, mut weighed) = (Array1::zeros(n + 1), Array2::zeros((n + 1, d)));
        for (j, weight) in exponentials.iter().enumerate() {
            sums[j + 1] = sums[j] + weight;
            let next = &weighed.row(j) + &(&values.row(j) * *weight);
            weighed.row_mut(j + 1).assign(&next);
        }
        Sums { scores, largest, weights: sums, values: weighed, each: values.to_owned() }
    }

    /// The sums over runs, those that count −1 taken off.
    fn over(&self, runs: &[(Run, f64)]) -> (f64, Array1<f64>) {
        let mut sum = 0.0;
        let mut total = Array1::zeros(self.values.ncols());
        for (run, sign) in runs {
            sum += sign * (self.weights[run.to] - self.weights[run.from]);
            total = total + *sign * (&self.values.row(run.to) - &self.values.row(run.from));
        }
        (sum, total)
    }

    /// The mean over runs, and so many zeros whose score is 0.
    fn mean(&self, runs: &[(Run, f64)], zeros: usize) -> Array1<f64> {
        let (sum, total) = self.over(runs);
        total / (sum + zeros as f64 * (-self.largest).exp())
    }

    pub(super) fn under(&self, span: Run, way: Way) -> Array1<f64> {
        match way {
            Way::Without(run) => self.mean(&[(span, 1.0), (run, -1.0)], 0),
            Way::Zeroed(run) => self.mean(&[(span, 1.0), (run, -1.0)], run.len()),
            Way::Ahead(key) => self.mean(&[(span, 1.0), (Run::one(key), 1.0)], 0),
            Way::Only(run) => self.mean(&[(run, 1.0)], 0),
            Way::Zeros(count) => self.mean(&[(span, 1.0)], count),
            Way::Split(merge, size) => self.merged(span, merge, size),
        }
    }

    /// The logarithm of the softmax's denominator.
    pub(super) fn log_sum(&self, span: Run) -> f64 {
        self.over(&[(span, 1.0)]).0.ln() + self.largest
    }

    /// With the keys beyond a run, too, whose scores are more by a number.
    pub(super) fn beyond(&self, span: Run, more: f64) -> Array1<f64> {
        let (before, behind) = (Run { from: 0, to: span.from }, Run { from: span.to, to: self.scores.len() });
        self.mean(&[(span, 1.0), (before, more.exp()), (behind, more.exp())], 0)
    }

    pub(super) fn right(&self, span: Run) -> Array1<f64> {
        self.mean(&[(span, 1.0)], 0)
    }

    /// Without some keys, or with zeros in their places.
    pub(super) fn without(&self, span: Run, keys: &[usize], is_zeroed: bool) -> Array1<f64> {
        let lost = keys.iter().map(|key| (Run::one(*key), -1.0));
        let runs: Vec<(Run, f64)> = [(span, 1.0)].into_iter().chain(lost).collect();
        self.mean(&runs, if is_zeroed { keys.len() } else { 0 })
    }

    /// Of splits of so many keys, put together in that way.
    fn merged(&self, span: Run, merge: Merge, size: usize) -> Array1<f64> {
        let splits = (span.from..span.to).step_by(size).map(|from| Run { from, to: from + size }.within(span));
        let splits: Vec<Run> = splits.collect();
        let of = |split: &Run| self.scores.slice(s![split.from..split.to]).fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let largest: Vec<f64> = splits.iter().map(of).collect();
        let last = largest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut so_far = f64::NEG_INFINITY;
        let (mut weight, mut total) = (0.0, Array1::zeros(self.values.ncols()));
        for (split, own) in splits.iter().zip(&largest) {
            so_far = so_far.max(*own);
            let (sum, values) = self.over(&[(*split, 1.0)]);
            let scaled = |is_kept: bool| (self.largest - if is_kept { so_far } else { last }).exp();
            let (of_weight, of_values) = match merge {
                Merge::Unsummed => ((own - last).exp(), (own - last).exp() / sum),
                Merge::Averaged => (1.0, sum.recip()),
                Merge::ValuesKept => (sum * scaled(false), scaled(true)),
                Merge::WeightsKept => (sum * scaled(true), scaled(false)),
                Merge::BothKept => (sum * scaled(true), scaled(true)),
            };
            weight += of_weight;
            total = total + values * of_values;
        }
        total / weight
    }

    /// The mean of other values than the keys', and the keys' weights, where scores are others.
    pub(super) fn weighed(&self, span: Run, scores: &Array1<f64>) -> (Array1<f64>, Array1<f64>) {
        let own = scores.slice(s![span.from..span.to]);
        let largest = own.fold(f64::NEG_INFINITY, |most, score| f64::max(most, *score));
        let mut weights = own.mapv(|score| (score - largest).exp());
        weights /= weights.sum();
        let mean = weights.dot(&self.each.slice(s![span.from..span.to, ..]));
        (mean, weights)
    }

    /// vⱼ.
    pub(super) fn value(&self, key: usize) -> ArrayView1<'_, f64> {
        self.each.row(key)
    }

    pub(super) fn scores(&self) -> &Array1<f64> {
        &self.scores
    }

    /// Σⱼ cⱼ·vⱼ over the keys of a run.
    pub(super) fn total(&self, span: Run, counts: &Array1<f64>) -> Array1<f64> {
        counts.dot(&self.each.slice(s![span.from..span.to, ..]))
    }

    /// Σⱼ cⱼ·(vⱼ − o) over the keys of a run: how a mean o moves where its weights do by c.
    pub(super) fn moved(&self, span: Run, mean: &Array1<f64>, by: &Array1<f64>) -> Array1<f64> {
        by.dot(&self.each.slice(s![span.from..span.to, ..])) - mean * by.sum()
    }

    /// The same over whole blocks of so many keys, up to a token's own key: the sums of each.
    pub(in crate::diagnose) fn of_block(&self, block: usize, size: usize, row: usize) -> (f64, Array1<f64>) {
        let run = Run { from: block * size, to: (block + 1) * size }.within(Run { from: 0, to: row + 1 });
        self.over(&[(run, 1.0)])
    }
}

/// Vectors one behind the other.
pub(in crate::diagnose) fn joined(heads: &[Array1<f64>]) -> Array1<f64> {
    concatenate(Axis(0), &heads.iter().map(|head| head.view()).collect::<Vec<_>>()).expect("vectors")
}
