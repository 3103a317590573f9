//! `reference/src/ops/attention.rs`.

use ndarray::{Array2, Axis, array, concatenate, s};
use proptest::prelude::*;
use reference::ops::attention::{Attention, attention, context, probabilities, scores};
use reference::rounding::AttentionRound;
use reference::{Real, Rounding, RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

mod bounds;
mod by_hand;
mod llama;
mod weighing;

/// Sizes of heads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Heads {
    query: usize,
    key: usize,
    dim: usize,
}

/// q \[n, H·d\], k and v \[s, G·d\], under a contract, with errors of all.
#[derive(Debug, Clone)]
pub(super) struct Case {
    contract: Contract,
    heads: Heads,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    noise: Noise,
}

/// One head of one channel.
const ONE: Heads = Heads { query: 1, key: 1, dim: 1 };

impl Heads {
    fn under(self, contract: &RoundingContract) -> Attention {
        Attention::under(contract, (self.query, self.key), self.dim)
    }
}

impl Case {
    fn params(&self) -> Attention {
        self.heads.under(&self.contract)
    }

    fn ideal(&self) -> Attention {
        self.heads.under(&RoundingContract::IDEAL)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&self.ideal(), &self.q, &self.k, &self.v)
    }

    /// The position of the first query.
    fn before(&self) -> usize {
        self.k.nrows() - self.q.nrows()
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let n = prop_oneof![9 => 1..5_usize, 1 => 60..70_usize];
    let before = prop_oneof![9 => 0..40_usize, 1 => 100..140_usize];
    let heads = (1..3_usize, 1..3_usize, 1..10_usize);
    (contract(), noise(), n, before, heads).prop_flat_map(move |(contract, noise, n, before, (key, group, dim))| {
        let heads = Heads { query: key * group, key, dim };
        let storage = contract.activations;
        let matrix = |rows, heads: usize| filled((rows, heads * dim), fill.clone(), storage);
        (matrix(n, heads.query), matrix(n + before, key), matrix(n + before, key)).prop_map(move |(q, k, v)| Case {
            contract,
            heads,
            q,
            k,
            v,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn oracle(p: &Attention, q: &Array2<f64>, k: &Array2<f64>, v: &Array2<f64>) -> Array2<f64> {
    attention(p, q.view(), k.view(), v.view()).expect("the case keeps the contract")
}

/// Twice the ideal's own error: two evaluations in f64 of one mean.
fn close(case: &Case, one: &Array2<f64>, two: &Array2<f64>) -> Result<(), TestCaseError> {
    let mut bound = case.ideal().bound(&case.q.exact(), &case.k.exact(), &case.v.exact(), one);
    bound.certain *= 2.0;
    within(two, one, &bound).map(|_| ())
}

/// The columns of a head.
fn head(x: &Array2<f64>, head: usize, dim: usize) -> Array2<f64> {
    x.slice(s![.., head * dim..(head + 1) * dim]).to_owned()
}

proptest! {
    /// The definition: Σⱼ e^sⱼ·vⱼ / Σⱼ e^sⱼ, one query and head at a time.
    #[test]
    fn is_the_softmax_mean_by_definition(case in case()) {
        let Heads { query, key, dim } = case.heads;
        let mut want = Array2::zeros(case.q.dim());
        for h in 0..query {
            let g = h * key / query;
            let (q, k, v) = (head(&case.q, h, dim), head(&case.k, g, dim), head(&case.v, g, dim));
            for i in 0..q.nrows() {
                let seen = case.before() + i + 1;
                let dots: Vec<f64> = (0..seen).map(|j| q.row(i).iter().zip(k.row(j)).map(|(q, k)| q * k).sum()).collect();
                let top = dots.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = dots.iter().map(|dot| ((dot - top) / (dim as f64).sqrt()).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for c in 0..dim {
                    let mean: f64 = weights.iter().enumerate().map(|(j, w)| w * v[[j, c]]).sum();
                    want[[i, h * dim + c]] = mean / sum;
                }
            }
        }
        close(&case, &case.want(), &want)?;
    }

    /// What comes later is replaced by noise.
    #[test]
    fn a_later_token_cannot_matter_exactly(case in case(), seed in any::<u16>()) {
        let n = case.q.nrows();
        let (mut k, mut v) = (case.k.values(), case.v.values());
        let noise = Matrix::new(k.dim(), Fill::Activation, case.k.storage(), seed.into());
        let last = s![case.before() + n - 1.., ..];
        k.slice_mut(last).assign(&noise.slice(last));
        v.slice_mut(last).assign(&noise.slice(last));
        for p in [case.ideal(), case.params()] {
            let (was, is) = (oracle(&p, &case.q, &case.k, &case.v), oracle(&p, &case.q, &k, &v));
            prop_assert_eq!(was.slice(s![..n - 1, ..]), is.slice(s![..n - 1, ..]));
        }
    }

    /// Nor if it is not a number.
    #[test]
    fn a_later_token_that_is_nan_cannot_matter(case in case()) {
        let n = case.q.nrows();
        for bad in [f64::NAN, f64::INFINITY] {
            let (mut k, mut v) = (case.k.values(), case.v.values());
            let last = s![case.before() + n - 1.., ..];
            k.slice_mut(last).fill(bad);
            v.slice_mut(last).fill(bad);
            let (o, good) = (oracle(&case.params(), &case.q, &k, &v), oracle(&case.params(), &case.q, &case.k, &case.v));
            prop_assert_eq!(o.slice(s![..n - 1, ..]), good.slice(s![..n - 1, ..]));
            prop_assert!(o.row(n - 1).iter().all(|o| !o.is_finite()));
        }
    }

    #[test]
    fn a_prefix_does_not_change_when_the_sequence_grows_exactly(case in case()) {
        let n = case.q.nrows();
        let shorter = s![..case.k.nrows() - (n - 1), ..];
        let (k, v) = (case.k.slice(shorter).to_owned(), case.v.slice(shorter).to_owned());
        // What is left of eight keys, which torch does not take together, are others in a longer sequence.
        let params = Attention { exponential: case.ideal().exponential, ..case.params() };
        for p in [case.ideal(), params] {
            let alone = oracle(&p, &case.q.slice(s![..1, ..]).to_owned(), &k, &v);
            let all = oracle(&p, &case.q, &case.k, &case.v);
            prop_assert_eq!(alone.row(0), all.row(0));
        }
    }

    /// The last query sees every key: their order is nothing to it, if the values go along.
    #[test]
    fn the_order_of_past_tokens_is_irrelevant(case in case()) {
        let last = case.q.slice(s![case.q.nrows() - 1.., ..]).to_owned();
        let back: Vec<usize> = (0..case.k.nrows()).rev().collect();
        let mirrored = oracle(&case.ideal(), &last, &case.k.select(Axis(0), &back), &case.v.select(Axis(0), &back));
        let want = oracle(&case.ideal(), &last, &case.k, &case.v);
        let mut bound = case.ideal().bound(&Tracked::exact(last), &case.k.exact(), &case.v.exact(), &want);
        bound.certain *= 2.0;
        within(&mirrored, &want, &bound)?;
    }

    /// Query heads see their own group only: h·G/H of them.
    #[test]
    fn heads_see_their_group_only(case in case(), at in any::<prop::sample::Index>()) {
        let Heads { query, key, dim } = case.heads;
        let group = at.index(key);
        let mut v = case.v.values();
        v.slice_mut(s![.., group * dim..(group + 1) * dim]).mapv_inplace(|v| v + 1.0);
        let (was, is) = (case.want(), oracle(&case.ideal(), &case.q, &case.k, &v));
        for h in 0..query {
            let same = head(&was, h, dim) == head(&is, h, dim);
            prop_assert_eq!(same, h * key / query != group);
        }
    }

    #[test]
    fn a_single_key_is_its_value_exactly(case in case()) {
        let first = |x: &Array2<f64>| x.slice(s![..1, ..]).to_owned();
        let (q, k, v) = (first(&case.q), first(&case.k), first(&case.v));
        let Heads { query, key, dim } = case.heads;
        for p in [case.ideal(), case.params()] {
            let o = oracle(&p, &q, &k, &v);
            for h in 0..query {
                prop_assert_eq!(head(&o, h, dim), head(&v, h * key / query, dim));
            }
        }
    }

    /// All probabilities are 1/n: of two equal values and any number of keys the mean is that value.
    #[test]
    fn equal_keys_give_the_mean_of_the_values(case in case()) {
        let k = Array2::from_elem(case.k.dim(), 0.75);
        let o = oracle(&case.ideal(), &case.q, &k, &case.v);
        let Heads { query, key, dim } = case.heads;
        let mut want = Array2::zeros(o.dim());
        for h in 0..query {
            let v = head(&case.v, h * key / query, dim);
            for i in 0..o.nrows() {
                let seen = v.slice(s![..=case.before() + i, ..]);
                want.slice_mut(s![i, h * dim..(h + 1) * dim]).assign(&seen.mean_axis(Axis(0)).expect("a key"));
            }
        }
        let mut bound = case.ideal().bound(&case.q.exact(), &Tracked::exact(k), &case.v.exact(), &o);
        bound.certain *= 2.0;
        within(&want, &o, &bound)?;
    }

    /// One vector added to every key adds one number to every score of a query. Whole numbers, so that nothing rounds.
    #[test]
    fn a_constant_in_all_scores_changes_nothing(case in case_of(Just(Fill::Whole))) {
        let shifted = &*case.k + 3.0;
        let o = oracle(&case.ideal(), &case.q, &shifted, &case.v);
        let want = case.want();
        let bound = |k: &Array2<f64>| {
            case.ideal().bound(&case.q.exact(), &Tracked::exact(k.clone()), &case.v.exact(), &want)
        };
        let both = bound(&case.k).plus(&bound(&shifted));
        within(&o, &want, &both)?;
    }

    /// As long as no weight is below f64's normal numbers.
    #[test]
    fn values_scale_exactly(case in case_of(Just(Fill::Whole))) {
        prop_assert_eq!(oracle(&case.ideal(), &case.q, &case.k, &(&*case.v * -2.0)), case.want() * -2.0);
    }

    /// A mean is between the smallest and the largest value, up to what rounds.
    #[test]
    fn stays_between_the_values(case in case()) {
        let (want, dim) = (case.want(), case.heads.dim);
        let slack = case.ideal().bound(&case.q.exact(), &case.k.exact(), &case.v.exact(), &want).certain;
        for ((i, column), &o) in want.indexed_iter() {
            let v = head(&case.v, column / dim * case.heads.key / case.heads.query, dim);
            let v = v.slice(s![.., column % dim]);
            let end = |f: fn(f64, f64) -> f64| v.iter().copied().fold(v[0], f);
            prop_assert!(end(f64::min) - slack[[i, column]] <= o && o <= end(f64::max) + slack[[i, column]]);
        }
    }

    /// Rows sum to 1, later keys have none, and with the values they are the output.
    #[test]
    fn probabilities_and_context_are_the_parts_of_attention(case in case()) {
        let p = case.ideal();
        let (n, keys) = (case.q.nrows(), case.k.nrows());
        let shown = probabilities(&p, case.q.view(), case.k.view()).expect("good");
        let scored = scores(&p, case.q.view(), case.k.view()).expect("good");
        prop_assert_eq!((shown.dim(), scored.dim()), ((case.heads.query * n, keys), (case.heads.query * n, keys)));
        for (row, (shown, scored)) in shown.rows().into_iter().zip(scored.rows()).enumerate() {
            // n additions of numbers up to 1, n quotients, and the sum here.
            prop_assert!((shown.sum() - 1.0).abs() <= 3.0 * keys as f64 * f64::UNIT_ROUNDOFF);
            for j in 0..keys {
                let masked = j > case.before() + row % n;
                prop_assert_eq!(scored[j] == f64::NEG_INFINITY, masked);
                prop_assert!(!masked || shown[j] == 0.0);
            }
        }
        close(&case, &case.want(), &context(&p, shown.view(), case.v.view()))?;
    }

    /// The same, rounding point by rounding point, where the probabilities are stored.
    #[test]
    fn eager_attention_is_the_context_of_its_probabilities(case in case()) {
        let p = Attention { order: AttentionRound::Eager, ..case.params() };
        let shown = probabilities(&p, case.q.view(), case.k.view()).expect("good");
        let o = context(&Attention { output: Rounding::NONE, ..p }, shown.view(), case.v.view());
        let whole = oracle(&Attention { output: Rounding::NONE, ..p }, &case.q, &case.k, &case.v);
        let mut bound = case.ideal().bound_context(&Tracked::exact(shown), &case.v.exact(), &o);
        bound.certain *= 2.0;
        within(&whole, &o, &bound)?;
    }

    #[test]
    fn heads_do_not_see_each_other(case in case()) {
        let Heads { query, key, dim } = case.heads;
        let o = oracle(&case.params(), &case.q, &case.k, &case.v);
        for h in 0..query {
            let g = h * key / query;
            let p = Attention { query_heads: 1, key_heads: 1, ..case.params() };
            let alone = oracle(&p, &head(&case.q, h, dim), &head(&case.k, g, dim), &head(&case.v, g, dim));
            prop_assert_eq!(alone, head(&o, h, dim));
        }
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        let j = at.index(case.k.nrows());
        let sees = |i: usize| case.before() + i >= j;
        let mut v = case.v.values();
        v.row_mut(j).fill(f64::NAN);
        let o = oracle(&case.params(), &case.q, &case.k, &v);
        for (i, row) in o.rows().into_iter().enumerate().filter(|(i, _)| sees(*i)) {
            prop_assert!(row.iter().all(|o| o.is_nan()), "value {} of query {}", j, i);
        }
        let mut k = case.k.values();
        k.row_mut(j).fill(f64::NAN);
        let o = oracle(&case.params(), &case.q, &k, &case.v);
        for (i, row) in o.rows().into_iter().enumerate().filter(|(i, _)| sees(*i)) {
            prop_assert!(row.iter().all(|o| o.is_nan()), "key {} of query {}", j, i);
        }
        let mut q = case.q.values();
        q.row_mut(0).fill(f64::NAN);
        let o = oracle(&case.params(), &q, &case.k, &case.v);
        prop_assert!(o.row(0).iter().all(|o| o.is_nan()));
        prop_assert!(o.slice(s![1.., ..]).iter().all(|o| o.is_finite()));
    }
}
