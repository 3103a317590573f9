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
//! - Errors: C1 n, H, d ≥ 1; C2 columns of q, k and v = H·d; C3 no slope is below 0; C4 a state \[d, d\] for each head.
//! - Variants: without decay (document 000, whose formula has none): all sₕ = 0.
//! - Source: spec A34; `MiniMaxLightningAttention` in transformers 5.23. No model from M2 on uses it.

mod bound;

use ndarray::{Array2, ArrayView2, Axis, s};

use crate::accumulator::Accumulator;
use crate::error::require;
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
    /// Of the sums.
    pub accumulator: Accumulator,
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
        self.check(p)?;
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

    /// C4.
    fn check(&self, p: &LightningAttention) -> Result<(), ContractError> {
        let (expected, found) = (vec![(p.head_dim, p.head_dim); p.slopes.len()], self.0.iter().map(Array2::dim));
        let found: Vec<(usize, usize)> = found.collect();
        let shown = |dims: &[(usize, usize)]| format!("{} of {:?}", dims.len(), dims.first().unwrap_or(&(0, 0)));
        require(found == expected, "lightning_attention C4", "states", shown(&found), shown(&expected))
    }
}

impl LightningAttention {
    /// Under a contract.
    pub fn under(contract: &RoundingContract, slopes: Vec<f64>, head_dim: usize) -> Self {
        let (output, unit, accumulator) = (contract.stored(), contract.unit(), contract.accumulator);
        LightningAttention { slopes, head_dim, output, unit, accumulator }
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
}
