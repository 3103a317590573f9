//! The error bound of lightning attention, term by term: the certain part grows with a term's distance, the probable
//! one is that of sums that stray at random.
//!
//! Whatever the form, a term T = λᵐ·q·k·v of token i, at distance m, is rounded a few times where it is multiplied; at
//! most d + i + 1 times where it is added up; and at most once for each token between where it decays. A λ is off by
//! its exponential and by s, which is a power, a product and a rounding; taken at once or step by step, λᵐ is off by no
//! more than m of these.

use ndarray::{Array2, s};

use super::LightningAttention;
use crate::bound::ErrorBound;
use crate::bound::elementary::EXPONENTIAL;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;

/// Products of a term: of query and key, with the value, and with decays on either side, as their exponentials are.
const PRODUCTS: f64 = 8.0;

/// Decays of a term that are taken at once: of a query in its block, of a key in its own, and between both.
const DECAYS: f64 = 3.0;

/// In u, a slope's relative error: of a power, of a product with the layer's part, and of their product with a
/// distance.
const SLOPE: f64 = 6.0;

/// The place of a term: its token, how far back its key is, and its head's slope.
struct Place {
    i: usize,
    distance: f64,
    slope: f64,
}

impl Place {
    /// λᵐ.
    fn decay(&self) -> f64 {
        (-self.slope * self.distance).exp()
    }

    /// In u, what a certain term's factors are off by, relatively.
    fn factors(&self) -> f64 {
        PRODUCTS + (EXPONENTIAL + 1.0) * (DECAYS + self.distance) + SLOPE * self.slope * self.distance
    }
}

impl LightningAttention {
    /// Certain: Σ|T|·((1 + c)·(1 + e) − 1) with c of the sums and e of the term's factors. An error of the inputs moves
    /// each term by no more than (|q| + δq)(|k| + δk)(|v| + δv) − |q||k||v|. What f32 flushes to zero of a term, a
    /// decay or a product, is below [`FLUSHED`] times what it is multiplied by.
    ///
    /// Probable: sums over channels and over tokens, in either order, and factors, all independent, but for a λ that is
    /// off alike for all tokens: that moves o by Σ m·T.
    pub fn bound(&self, q: &Tracked<f64>, k: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let errors = [q, k, v].map(Tracked::error_or_exact);
        let size = [q, k, v].map(|x| x.value.mapv(f64::abs));
        let largest = [0, 1, 2].map(|i| &size[i] + &errors[i].certain);
        let off = |at: &Place| {
            let sums = self.accumulator.certain(self.head_dim) + self.accumulator.certain(at.i + 1);
            let factors = at.factors() * self.unit;
            (1.0 + sums) * (1.0 + factors / (1.0 - factors)) - 1.0
        };
        let exact = self.weighed(size.each_ref(), |at, product| at.decay() * product);
        let moved = self.weighed(largest.each_ref(), |at, product| at.decay() * product);
        let own = self.weighed(largest.each_ref(), |at, product| off(at) * at.decay() * product);
        let ones = largest.map(|x| x + 1.0);
        let flushed = self.weighed(ones.each_ref(), |_, product| product) * FLUSHED;
        let certain = &moved - &exact + own + flushed;
        let carried = ErrorBound::carried_through(&errors.each_ref());
        let variance =
            self.variance([q, k, v].map(|x| &x.value), errors.each_ref().map(|error| &error.sigma), o, &exact);
        let mut sigma = variance.mapv(f64::sqrt);
        sigma.zip_mut_with(&certain, |sigma, &certain| *sigma = sigma.min(certain));
        ErrorBound { certain, sigma, carried }.rounded(o.view(), self.output.storage)
    }

    /// Of o, whose terms have the absolute sum `size`.
    fn variance(
        &self,
        [q, k, v]: [&Array2<f64>; 3],
        sigma: [&Array2<f64>; 3],
        o: &Array2<f64>,
        size: &Array2<f64>,
    ) -> Array2<f64> {
        let square = |x: &Array2<f64>| x.mapv(|x| x * x);
        let (q2, k2, v2, [qs, ks, vs]) = (square(q), square(k), square(v), sigma.map(square));
        let squared = |at: &Place, product: f64| (at.decay() * product).powi(2);
        // Of single terms, of sums over channels, over tokens, and over both.
        let single = self.weighed([&q2, &k2, &v2], |at, product| at.decay().powi(2) * product);
        let over_channels = self.weighed([q, k, &v2], squared);
        let squares = single + over_channels + self.through_states(&q2, [k, v]) + square(o);
        let drift = self.weighed([q, k, v], |at, product| {
            (EXPONENTIAL + 1.0 + SLOPE * at.slope) * at.distance * at.decay() * product
        });
        let mut all = self.weighed([&(&q2 + &qs), &ks, &(&v2 + &vs)], |at, product| at.decay().powi(2) * product);
        all += &self.weighed([q, k, &vs], squared);
        all += &self.weighed([&qs, &k2, &vs], |at, product| at.decay().powi(2) * product);
        all += &self.through_states(&qs, [k, v]);
        let factors = PRODUCTS + DECAYS * (EXPONENTIAL + 1.0).powi(2);
        for ((i, j), variance) in all.indexed_iter_mut() {
            let sums = match self.accumulator.variance(self.head_dim + i + 1) {
                Some(of_sums) => of_sums * squares[[i, j]],
                None => (self.accumulator.certain(self.head_dim + i + 1) * size[[i, j]]).powi(2),
            };
            *variance += sums + self.unit.powi(2) / 3.0 * (factors * squares[[i, j]] + drift[[i, j]].powi(2));
        }
        all
    }

    /// Σⱼ w(i, j)·v(j) over j ≤ i, w of q(i)·k(j).
    fn weighed(&self, [q, k, v]: [&Array2<f64>; 3], weight: impl Fn(&Place, f64) -> f64) -> Array2<f64> {
        let mut all = Array2::zeros(q.dim());
        for (head, &slope) in self.slopes.iter().enumerate() {
            let columns = s![.., head * self.head_dim..(head + 1) * self.head_dim];
            let mut weights = q.slice(columns).dot(&k.slice(columns).t());
            for ((i, j), product) in weights.indexed_iter_mut() {
                let at = |distance: usize| Place { i, distance: distance as f64, slope };
                *product = i.checked_sub(j).map_or(0.0, |distance| weight(&at(distance), *product));
            }
            all.slice_mut(columns).assign(&weights.dot(&v.slice(columns)));
        }
        all
    }

    /// Σ over channels of f·S², with S the state of k and v behind each token.
    fn through_states(&self, f: &Array2<f64>, [k, v]: [&Array2<f64>; 2]) -> Array2<f64> {
        let mut all = Array2::zeros(f.dim());
        for (head, slope) in self.slopes.iter().enumerate() {
            let columns = head * self.head_dim..(head + 1) * self.head_dim;
            let mut state = Array2::<f64>::zeros((self.head_dim, self.head_dim));
            for i in 0..f.nrows() {
                let row = s![i..=i, columns.clone()];
                state *= (-slope).exp();
                state += &k.slice(row).t().dot(&v.slice(row));
                all.slice_mut(row).assign(&f.slice(row).dot(&state.mapv(|x| x * x)));
            }
        }
        all
    }
}
