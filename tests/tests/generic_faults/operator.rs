//! The operators that multiply matrices: their inputs, what the reference makes of them and how far a kernel may be off,
//! and a kernel that computes them.

use ndarray::{Array2, ArrayView1, Axis, s};
use reference::accumulator::Accumulator;
use reference::bound::ErrorBound;
use reference::config::Blocks;
use reference::matrix::Matrix;
use reference::ops::attention::{Attention, context, probabilities};
use reference::ops::indexer::{Indexer, token_scores};
use reference::ops::linear::{Linear, linear};
use reference::ops::moe::{Moe, moe, rows_of};
use reference::semantics::Semantics;
use reference::{RoundingContract, Storage, Tracked};
use tests::simulated::Order;
use tests::values::Draw;

use super::kernel::{Kernel, stored};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operator {
    /// To bf16, on tensor cores.
    Linear,
    /// To f32, in f32.
    Router,
    /// The weighted sum of experts.
    Combine,
    /// The experts' down projections and their weighted sum, by a candidate that shows the sum only.
    DownAndCombine,
    /// Probabilities times values.
    Context,
    /// Queries times keys of the index branch, to f32.
    TokenScores,
}

pub(super) const OPERATORS: [Operator; 6] = [
    Operator::Linear,
    Operator::Router,
    Operator::Combine,
    Operator::DownAndCombine,
    Operator::Context,
    Operator::TokenScores,
];

/// Tokens; columns of y; products of a sum; experts of a token.
const N: usize = 24;
const M: usize = 40;
const K: usize = 640;
const CHOICES: usize = 8;

/// Experts, and columns of their activations.
const EXPERTS: usize = 10;
const INTERMEDIATE: usize = 160;

/// Query heads, key heads, channels, keys.
const HEADS: (usize, usize) = (4, 2);
const CHANNELS: usize = 16;
const KEYS: usize = 150;

/// Heads and channels of the index branch.
const INDEX: (usize, usize) = (2, 128);

/// An operator's inputs, in f32 exactly, and the truth.
pub(super) struct Case {
    operator: Operator,
    /// Rows that are multiplied, and what by.
    a: Array2<f32>,
    b: Array2<f32>,
    /// Of each token's experts.
    shares: Array2<f32>,
    pub(super) want: Array2<f64>,
    pub(super) error: ErrorBound,
}

/// Bell-shaped, of this standard deviation, as they are stored.
fn drawn(seed: u64, dim: (usize, usize), width: f32) -> Array2<f32> {
    let mut draw = Draw::new(seed);
    Array2::from_shape_simple_fn(dim, || stored(width * (0..3).map(|_| draw.signed_unit()).sum::<f32>()))
}

fn wide(x: &Array2<f32>) -> Array2<f64> {
    x.mapv(f64::from)
}

/// Of weights that sum to about 1 in each row.
fn shares(seed: u64, dim: (usize, usize)) -> Array2<f32> {
    let mut weights = drawn(seed, dim, 1.0).mapv(|w| w.abs() + 0.125);
    for mut row in weights.rows_mut() {
        row /= row.sum();
    }
    weights
}

fn chosen() -> Array2<usize> {
    Array2::from_shape_fn((N, CHOICES), |(i, slot)| (3 * i + slot) % EXPERTS)
}

fn attention(contract: &RoundingContract) -> Attention {
    Attention::under(contract, HEADS, CHANNELS)
}

fn indexer(contract: &RoundingContract) -> Indexer {
    let blocks = Blocks { size: 16, top_k: 4, local: 1, init: 0 };
    Indexer::under(contract, &Semantics::RELEASED, (INDEX.0, INDEX.0), INDEX.1, blocks)
}

/// How many of the keys a token sees.
fn seen(token: usize) -> usize {
    KEYS - N + token + 1
}

/// Their weighted sum, by the reference.
fn combined(outputs: &Tracked<f64>, shares: &Array2<f32>) -> (Array2<f64>, ErrorBound) {
    let shares = Tracked::exact(wide(shares));
    let want = moe(&Moe::under(&RoundingContract::IDEAL), outputs.view(), shares.view(), chosen().view());
    let want = want.expect("shapes fit");
    let error = Moe::under(&RoundingContract::PARITY).bound(outputs, &shares, &want);
    (want, error)
}

/// The experts' outputs, by the reference.
fn projected(hidden: &Array2<f32>, down: &Array2<f32>) -> Tracked<f64> {
    let mut outputs = Tracked::exact(Array2::zeros((hidden.nrows(), M)));
    for expert in 0..EXPERTS {
        let rows = rows_of(expert, chosen().view());
        let x = Tracked::exact(wide(&hidden.select(Axis(0), &rows)));
        let w =
            Matrix::stored(wide(&down.slice(s![expert * M..(expert + 1) * M, ..]).to_owned()).view(), Storage::Bf16);
        let y = linear(&Linear::under(&RoundingContract::IDEAL), x.view(), &w).expect("shapes fit");
        let error = Linear::under(&RoundingContract::PARITY).bound(&x, &w, &y);
        let of_all = outputs.error.as_mut().expect("exact is tracked");
        for (from, &to) in rows.iter().enumerate() {
            outputs.value.row_mut(to).assign(&y.row(from));
            of_all.certain.row_mut(to).assign(&error.certain.row(from));
            of_all.sigma.row_mut(to).assign(&error.sigma.row(from));
        }
    }
    outputs
}

impl Case {
    /// Values that multiply to an output of about 2 to the `scale`.
    pub(super) fn new(operator: Operator, scale: i32, seed: u64) -> Self {
        let scale = 2.0_f32.powi(scale);
        let draw = |which, dim, width| drawn(seed << 3 | which, dim, width);
        let shares = shares(seed, (N, CHOICES));
        let ideal = RoundingContract::IDEAL;
        match operator {
            Operator::Linear | Operator::Router => {
                let (x, w) = (draw(0, (N, K), 1.0), draw(1, (M, K), scale / 32.0));
                let p = match operator {
                    Operator::Router => Linear::router(&RoundingContract::PARITY),
                    _ => Linear::under(&RoundingContract::PARITY),
                };
                let weight = Matrix::stored(wide(&w).view(), Storage::F32);
                let want = linear(&Linear::under(&ideal), wide(&x).view(), &weight).expect("shapes fit");
                let error = p.bound(&Tracked::exact(wide(&x)), &weight, &want);
                Case { operator, a: x, b: w, shares, want, error }
            }
            Operator::Combine => {
                let e = draw(0, (N * CHOICES, M), scale);
                let (want, error) = combined(&Tracked::exact(wide(&e)), &shares);
                Case { operator, a: shares.clone(), b: e, shares, want, error }
            }
            Operator::DownAndCombine => {
                let hidden = draw(0, (N * CHOICES, INTERMEDIATE), 1.0);
                let down = draw(1, (EXPERTS * M, INTERMEDIATE), scale / 16.0);
                let (want, error) = combined(&projected(&hidden, &down), &shares);
                Case { operator, a: hidden, b: down, shares, want, error }
            }
            Operator::Context => {
                let eager = attention(&RoundingContract::EAGER_BF16);
                let (q, k) = (draw(0, (N, HEADS.0 * CHANNELS), 2.0), draw(1, (KEYS, HEADS.1 * CHANNELS), 1.0));
                let v = draw(2, (KEYS, HEADS.1 * CHANNELS), scale);
                let p = probabilities(&eager, wide(&q).view(), wide(&k).view()).expect("shapes fit");
                let want = context(&attention(&ideal), p.view(), wide(&v).view());
                let error = eager.bound_context(&Tracked::exact(p.clone()), &Tracked::exact(wide(&v)), &want);
                let a = wide_to_f32(&p);
                Case { operator, a, b: v, shares, want, error }
            }
            Operator::TokenScores => {
                let (q, k) = (draw(0, (N, INDEX.0 * INDEX.1), 1.0), draw(1, (KEYS, INDEX.1), scale / 16.0));
                let want = token_scores(&indexer(&ideal), wide(&q).view(), wide(&k).view()).expect("shapes fit");
                let [inputs_q, inputs_k] = [&q, &k].map(|x| Tracked::exact(wide(x)));
                let error = indexer(&RoundingContract::PARITY).bound_scores(&inputs_q, &inputs_k);
                Case { operator, a: q, b: k, shares, want, error }
            }
        }
    }

    /// Σ|w·e| of the experts' outputs.
    pub(super) fn sizes(&self) -> Array2<f64> {
        let outputs = Tracked::exact(projected(&self.a, &self.b).value.mapv(f64::abs));
        combined(&outputs, &self.shares).0
    }

    /// The orders in which a right implementation may add.
    pub(super) fn orders(&self) -> Vec<Order> {
        let Accumulator::TensorCore(core) = Accumulator::HOPPER_512 else { unreachable!("Hopper's is one") };
        let on_tensor_cores =
            matches!(self.operator, Operator::Linear | Operator::DownAndCombine).then_some(Order::TensorCore(core));
        Order::ROUNDING.into_iter().chain(on_tensor_cores).collect()
    }

    /// What a kernel makes of it.
    pub(super) fn computed(&self, kernel: Kernel) -> Array2<f64> {
        let row = |a: ArrayView1<'_, f32>| a.to_vec();
        let y = match self.operator {
            Operator::Linear | Operator::Router => {
                let storage = if self.operator == Operator::Router { Storage::F32 } else { Storage::Bf16 };
                let w = kernel.weights(&self.b);
                Array2::from_shape_fn((N, M), |(i, j)| {
                    kernel.store(kernel.sum(&row(self.a.row(i)), &row(w.row(j))), storage)
                })
            }
            Operator::Combine => combined_by(kernel, &kernel.weights(&self.a), &self.b),
            Operator::DownAndCombine => {
                let (w, chosen) = (kernel.weights(&self.b), chosen());
                let outputs = Array2::from_shape_fn((N * CHOICES, M), |(r, j)| {
                    let expert = chosen[[r / CHOICES, r % CHOICES]];
                    stored(kernel.sum(&row(self.a.row(r)), &row(w.row(expert * M + j))))
                });
                combined_by(kernel.beyond_sums(), &self.shares, &outputs)
            }
            Operator::Context => {
                let v = kernel.weights(&self.b);
                Array2::from_shape_fn((N, HEADS.0 * CHANNELS), |(i, c)| {
                    let (head, channel) = (c / CHANNELS, c % CHANNELS);
                    let group = head / (HEADS.0 / HEADS.1);
                    let p = self.a.index_axis(Axis(0), head * N + i);
                    let values = v.slice(s![..seen(i), group * CHANNELS + channel]);
                    kernel.store(kernel.sum(&row(p.slice(s![..seen(i)])), &row(values)), Storage::Bf16)
                })
            }
            Operator::TokenScores => {
                let k = kernel.weights(&self.b);
                Array2::from_shape_fn((N * INDEX.0, KEYS), |(r, j)| {
                    let (i, head) = (r / INDEX.0, r % INDEX.0);
                    let q = self.a.slice(s![i, head * INDEX.1..(head + 1) * INDEX.1]);
                    let sum = || kernel.store(kernel.sum(&row(q), &row(k.row(j))), Storage::F32);
                    if j < seen(i) { sum() } else { f64::NEG_INFINITY }
                })
            }
        };
        kernel.leave(y)
    }
}

fn combined_by(kernel: Kernel, shares: &Array2<f32>, outputs: &Array2<f32>) -> Array2<f64> {
    Array2::from_shape_fn((N, M), |(i, j)| {
        let outputs = outputs.slice(s![i * CHOICES..(i + 1) * CHOICES, j]);
        kernel.store(kernel.sum(&shares.row(i).to_vec(), &outputs.to_vec()), Storage::Bf16)
    })
}

/// bf16 values, exactly.
#[expect(clippy::cast_possible_truncation, reason = "they are bf16")]
fn wide_to_f32(x: &Array2<f64>) -> Array2<f32> {
    x.mapv(|x| x as f32)
}
