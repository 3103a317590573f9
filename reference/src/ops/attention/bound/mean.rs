//! The error of the weighted mean of values, channel by channel.

use ndarray::{Array1, ArrayView1, ArrayView2};

use super::super::Attention;
use crate::Storage;

/// The values of a head, and one query's output.
pub(super) struct Values<'a> {
    pub(super) value: ArrayView2<'a, f64>,
    pub(super) certain: ArrayView2<'a, f64>,
    pub(super) sigma: ArrayView2<'a, f64>,
    pub(super) out: ArrayView1<'a, f64>,
}

/// How far the probabilities of a query are off, key by key.
pub(super) struct Weights {
    /// p.
    pub(super) probability: Vec<f64>,
    /// p⁺.
    pub(super) highest: Vec<f64>,
    /// p·(exp d − 1) / L.
    pub(super) spread: Vec<f64>,
    /// Standard deviations of the key's own part, and of the shared one.
    pub(super) own: Vec<f64>,
    pub(super) shared: Vec<f64>,
    /// Σ p·exp d.
    pub(super) upper: f64,
}

/// Channels that are summed side by side, so that a processor does some at once.
const LANES: usize = 8;

/// Sums over the keys, of L channels.
struct Sums<const L: usize> {
    /// Σ p·(exp d − 1)·|v − o| / L, Σ p⁺·|v − o|, and the largest |v − o|; o is 0 where it is no centre.
    moved: [f64; L],
    exchanged: [f64; L],
    reach: [f64; L],
    /// Σ p⁺·e, and the largest e.
    carried: [f64; L],
    largest_error: [f64; L],
    /// Σ p⁺·(|v| + e), and the largest |v| + e.
    total: [f64; L],
    largest: [f64; L],
    /// Of what each key has to itself.
    variance: [f64; L],
    /// Of what is one draw for all keys.
    together: [f64; L],
}

impl Attention {
    /// The error of Σⱼ pⱼ·vⱼ, channel by channel.
    pub(super) fn mean_error(&self, values: &Values<'_>, weights: &Weights) -> (Array1<f64>, Array1<f64>) {
        let d = self.head_dim;
        let (mut certain, mut sigma) = (Array1::zeros(d), Array1::zeros(d));
        let whole = d - d % LANES;
        for first in (0..whole).step_by(LANES) {
            self.errors::<LANES>(values, weights, first, (&mut certain, &mut sigma));
        }
        for first in whole..d {
            self.errors::<1>(values, weights, first, (&mut certain, &mut sigma));
        }
        (certain, sigma)
    }

    /// Of L channels from `first` on.
    fn errors<const L: usize>(
        &self,
        values: &Values<'_>,
        weights: &Weights,
        first: usize,
        (certain, sigma): (&mut Array1<f64>, &mut Array1<f64>),
    ) {
        let keys = weights.probability.len();
        let (u2, lost) = self.weight_error();
        let sums = self.summed(keys);
        let kappa = (1.0 + u2) * (1.0 + sums) * (1.0 + self.softmax_error(keys)) - 1.0;
        let underflow = self.accumulator.smallest_normal() + lost + 3.0 * self.sum.underflow();
        let floor = keys as f64 * underflow;
        // o is a mean only as nearly as f64 has it, which what is moved multiplies.
        let off_centre = keys as f64 * f64::EPSILON;
        let [spread, own, shared] =
            [&weights.spread, &weights.own, &weights.shared].map(|moved| off_centre * moved.iter().sum::<f64>());
        // Probabilities that do not sum to 1 are not centred on o.
        let centre = if self.merged.is_some() { [0.0; L] } else { lanes::<L>(values.out, first) };
        let of = Sums::<L>::of(values, weights, u2, (first, centre));
        for l in 0..L {
            let o = values.out[first + l];
            // What a sink has counts as values of 0.
            let has_more = self.sink.is_some() || self.zeros.is_some();
            let more = if has_more { o.abs() } else { 0.0 };
            let most = of.reach[l].max(more).min(of.exchanged[l] + more);
            let (moved, carried, total) = if self.merged.is_some() {
                (of.moved[l], of.carried[l], of.total[l])
            } else {
                let moved = of.moved[l] + spread * of.largest[l];
                (moved.min(most), of.carried[l].min(of.largest_error[l]), of.total[l].min(of.largest[l]))
            };
            let floor = floor * of.largest[l].max(1.0);
            let limit = moved + carried + kappa * total + floor;
            let rest = match self.accumulator.variance(keys) {
                Some(own) if self.sum == Storage::Real => {
                    (own * (total * total + o * o)).sqrt() + self.softmax_error(keys) * o.abs()
                }
                _ => (sums + self.softmax_error(keys)) * total,
            };
            let (own, shared) = (own * of.largest[l], of.together[l] + shared * of.largest[l]);
            let variance = of.variance[l] + own * own + shared * shared + rest * rest + floor * floor / 3.0;
            certain[first + l] = limit;
            sigma[first + l] = variance.sqrt().min(limit);
        }
    }
}

impl<const L: usize> Sums<L> {
    fn of(values: &Values<'_>, weights: &Weights, u2: f64, (first, centre): (usize, [f64; L])) -> Self {
        let nothing = [0.0; L];
        let mut sums = Sums {
            moved: nothing,
            exchanged: nothing,
            reach: nothing,
            carried: nothing,
            largest_error: nothing,
            total: nothing,
            largest: nothing,
            variance: nothing,
            together: nothing,
        };
        for j in (0..weights.probability.len()).filter(|&j| weights.highest[j] > 0.0) {
            let v = lanes::<L>(values.value.row(j), first);
            let e = lanes::<L>(values.certain.row(j), first);
            let s = lanes::<L>(values.sigma.row(j), first);
            let (p, highest, spread) = (weights.probability[j], weights.highest[j], weights.spread[j]);
            let (own, shared) = (weights.own[j].powi(2), weights.shared[j]);
            let carried = p * p + shared.powi(2);
            for l in 0..L {
                let off = (v[l] - centre[l]).abs();
                let size = v[l].abs() + e[l];
                sums.moved[l] += spread * off;
                sums.exchanged[l] += highest * off;
                sums.reach[l] = sums.reach[l].max(off);
                sums.carried[l] += highest * e[l];
                sums.largest_error[l] = sums.largest_error[l].max(e[l]);
                sums.total[l] += highest * size;
                sums.largest[l] = sums.largest[l].max(size);
                let square = s[l] * s[l];
                let rounded = u2 * p * v[l];
                sums.variance[l] += own * (off * off + square) + carried * square + rounded * rounded / 3.0;
                sums.together[l] += shared * off;
            }
        }
        sums
    }
}

/// L elements of a row.
#[inline]
fn lanes<const L: usize>(row: ArrayView1<'_, f64>, first: usize) -> [f64; L] {
    let row = row.to_slice().expect("channels are neighbours in memory");
    row[first..first + L].try_into().expect("L of them")
}
