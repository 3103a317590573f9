//! Lightning attention: each token's sum of the values before it and its own, weighed by products of queries and keys that decay
//! with distance; no softmax.
//!
//! ```text
//! o(h,i) = Σⱼ λₕ^(i−j)·(q(h,i)·k(h,j))·v(h,j)   over j ≤ i        λₕ = e^(−sₕ)
//! sₕ = 2^(−8(h+1)/H)·(1 − l/(L − 1 + 10⁻⁵) + 10⁻⁵)                in layer l of L
//! ```
//!
//! It is the same as a state S(h) \[d, d\] that forgets: S ← λ·S + kⱼᵀ·vⱼ, o = qᵢ·S, token by token, or in blocks of any size.
//!
//! - Shapes: q, k, v and o \[n, H·d\].
//! - Dtypes: q, k, v and o in the activations' type; products, decays and the state f32.
//! - Rounding: R1 at o; nothing else leaves f32.
//! - Errors: C1 n, H, d ≥ 1; C2 columns of q, k and v = H·d; C3 a slope for each head, none below 0.
//! - Variants: without decay (document 000, whose formula has none): all sₕ = 0.
//! - Source: spec A34; `MiniMaxLightningAttention` in transformers 5.23. No model from M2 on uses it.

use ndarray::{Array2, ArrayView2, Axis, s};

use crate::accumulator::gamma;
use crate::bound::ErrorBound;
use crate::error::require;
use crate::storage::FLUSHED;
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct LightningAttention {
    /// sₕ.
    pub slopes: Vec<f64>,
    /// d.
    pub head_dim: usize,
    /// R1.
    pub output: Rounding,
    /// u of the arithmetic.
    pub unit: f64,
}

/// S: what each head keeps of the tokens before.
#[derive(Debug, Clone, PartialEq)]
pub struct State<T>(Vec<Array2<T>>);

/// o of q, k and v.
pub fn lightning_attention<T: Real>(
    p: &LightningAttention,
    q: ArrayView2<'_, T>,
    k: ArrayView2<'_, T>,
    v: ArrayView2<'_, T>,
) -> Result<Array2<T>, ContractError> {
    State::new(p).advance(p, q, k, v)
}

/// sₕ of each of H heads in a layer of a model.
pub fn slopes(heads: usize, layer: usize, layers: usize) -> Vec<f64> {
    let depth = 1.0 - layer as f64 / (layers as f64 - 1.0 + 1e-5) + 1e-5;
    (1..=heads).map(|head| (-8.0 * head as f64 / heads as f64).exp2() * depth).collect()
}

impl<T: Real> State<T> {
    /// That before the first token.
    pub fn new(p: &LightningAttention) -> Self {
        State(vec![Array2::zeros((p.head_dim, p.head_dim)); p.slopes.len()])
    }

    /// o of the next tokens, which it then remembers: a prompt, a block of it, or one token.
    pub fn advance(
        &mut self,
        p: &LightningAttention,
        q: ArrayView2<'_, T>,
        k: ArrayView2<'_, T>,
        v: ArrayView2<'_, T>,
    ) -> Result<Array2<T>, ContractError> {
        p.check(q.dim(), k.dim(), v.dim())?;
        let (n, mut o) = (q.nrows(), Array2::zeros(q.dim()));
        for (head, (state, slope)) in self.0.iter_mut().zip(&p.slopes).enumerate() {
            let columns = s![.., head * p.head_dim..(head + 1) * p.head_dim];
            let (q, k, v) = (q.slice(columns), k.slice(columns), v.slice(columns));
            let decay = |tokens: usize| T::of(-slope * tokens as f64).exp();
            let mut products = q.dot(&k.t());
            for ((i, j), product) in products.indexed_iter_mut() {
                *product = if j <= i { *product * decay(i - j) } else { T::zero() };
            }
            let mut mine = q.dot(state);
            for (i, mut row) in mine.rows_mut().into_iter().enumerate() {
                row *= decay(i + 1);
            }
            mine += &products.dot(&v);
            o.slice_mut(columns).assign(&mine.mapv(|x| p.output.round(x))); // R1

            let mut keys = k.to_owned();
            for (j, mut key) in keys.axis_iter_mut(Axis(0)).enumerate() {
                key *= decay(n - 1 - j);
            }
            *state *= decay(n);
            *state += &keys.t().dot(&v);
        }
        Ok(o)
    }
}

impl LightningAttention {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, slopes: Vec<f64>, head_dim: usize) -> Self {
        LightningAttention { slopes, head_dim, output: contract.stored(), unit: contract.unit() }
    }

    /// C1 to C3.
    pub fn check(&self, q: (usize, usize), k: (usize, usize), v: (usize, usize)) -> Result<(), ContractError> {
        let (heads, d) = (self.slopes.len(), self.head_dim);
        let least = q.0.min(heads).min(d);
        require(1 <= least, "lightning_attention C1", "min(n, H, d)", least, "at least 1")?;
        for (name, dim) in [("shape of q", q), ("shape of k", k), ("shape of v", v)] {
            let expected = format!("{:?}: {heads} heads · {d}", (q.0, heads * d));
            require(dim == (q.0, heads * d), "lightning_attention C2", name, format!("{dim:?}"), expected)?;
        }
        let least = self.slopes.iter().copied().fold(f64::INFINITY, |least, s| if s >= least { least } else { s });
        require(0.0 <= least, "lightning_attention C3", "the least sₕ", least, "at least 0")
    }

    /// Own roundings, in every form: o is a sum of d·n terms λ^(i−j)·q·k·v, each rounded at most d + n times where it is added up,
    /// four times in products, and once more a token where the state decays. λ of a token is off by 3·u, and by s·u as s is
    /// rounded, so that λ^(i−j) is off by that for each token between, whether it is taken at once or step by step.
    ///
    /// An error of the inputs moves each term by no more than (|q| + δq)(|k| + δk)(|v| + δv) − |q||k||v|. What f32 flushes to zero
    /// of a term, a decay or a product, is below [`FLUSHED`] times what it is multiplied by.
    pub fn bound(&self, q: &Tracked<f64>, k: &Tracked<f64>, v: &Tracked<f64>, o: &Array2<f64>) -> ErrorBound {
        let ideal = LightningAttention { output: Rounding::NONE, ..self.clone() };
        let sum = |p: &Self, x: [&Array2<f64>; 3]| {
            lightning_attention(p, x[0].view(), x[1].view(), x[2].view()).expect("as o was made")
        };
        let errors = [q, k, v].map(Tracked::error_or_exact);
        let size = [q, k, v].map(|x| x.value.mapv(f64::abs));
        let largest = [0, 1, 2].map(|i| &size[i] + &errors[i].certain);
        let (exact, moved) = (sum(&ideal, size.each_ref()), sum(&ideal, largest.each_ref()));
        let (n, steepest) = (o.nrows(), self.slopes.iter().copied().fold(0.0, f64::max));
        let own = gamma(self.head_dim + 2 * n + 4, self.unit) + 2.0 * n as f64 * (3.0 + steepest) * self.unit;
        let undecayed = LightningAttention { slopes: vec![0.0; self.slopes.len()], ..ideal };
        let ones = |x: &Array2<f64>| x.mapv(|x| x + 1.0);
        let flushed = sum(&undecayed, largest.each_ref().map(ones).each_ref()) * FLUSHED;
        let certain = &moved - &exact + &moved * own + flushed;
        let carried = ErrorBound::carried_through(&errors.each_ref());
        ErrorBound { sigma: certain.clone(), certain, carried }.rounded(o.view(), self.output.storage)
    }
}
