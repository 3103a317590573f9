//! `reference/src/ops/linear_bias.rs`.

use ndarray::{Array2, Axis, array, concatenate};
use proptest::prelude::*;
use reference::accumulator::Accumulator;
use reference::matrix;
use reference::ops::linear::{Linear, linear};
use reference::ops::linear_bias::{LinearBias, linear_bias};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::{Order, rounded};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// x \[n, k\], w \[m, k\], b \[m\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: Matrix,
    w: Matrix,
    b: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> LinearBias {
        LinearBias::under(&self.contract)
    }

    fn want(&self) -> Array2<f64> {
        linear_bias(&ideal(), self.x.view(), &self.w.stored(), self.b.vector().view()).expect("good")
    }

    /// What devices make of x: b is the first term of the sum, or the last; after a tensor core, an addition of its own.
    fn devices(&self, x: &Array2<f32>) -> Vec<Array2<f64>> {
        let (p, w, b) = (self.params(), self.w.f32(), self.b.f32());
        let ones = Array2::ones((x.nrows(), 1));
        let with = |first: bool, order: Order| {
            let sides = |a: &Array2<f32>, b: &Array2<f32>| {
                let parts = if first { [b.view(), a.view()] } else { [a.view(), b.view()] };
                concatenate(Axis(1), &parts).expect("as many rows")
            };
            order.product(sides(x, &ones).view(), sides(&w, &b.t().to_owned()).view())
        };
        let sums = match p.product.accumulator {
            Accumulator::TensorCore(core) => vec![Order::TensorCore(core).product(x.view(), w.view()) + &b],
            accumulator => {
                let orders = Order::of(accumulator).into_iter();
                orders.flat_map(|order| [with(true, order), with(false, order)]).collect::<Vec<_>>()
            }
        };
        let own = linear_bias(&p, x.view(), &self.w.stored(), b.row(0)).expect("good").mapv(f64::from);
        sums.iter().map(|sum| rounded(sum, p.output)).chain([own]).collect()
    }
}

fn ideal() -> LinearBias {
    LinearBias::under(&RoundingContract::IDEAL)
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let dims = (1..7_usize, 1..90_usize, 1..60_usize);
    (contract(), noise(), dims).prop_flat_map(move |(contract, noise, (n, m, k))| {
        let storage = contract.activations;
        let matrix = |dim| filled(dim, fill.clone(), storage);
        (matrix((n, k)), matrix((m, k)), matrix((1, m))).prop_map(move |(x, w, b)| Case { contract, x, w, b, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

proptest! {
    /// The definition on whole numbers, where every order of summation is exact, in f32 and on tensor cores.
    #[test]
    fn whole_numbers_are_exact(case in case_of(Just(Fill::Whole))) {
        let want = Array2::from_shape_fn((case.x.nrows(), case.w.nrows()), |(i, j)| {
            case.b[[0, j]] + case.x.row(i).iter().zip(case.w.row(j)).map(|(x, w)| x * w).sum::<f64>()
        });
        prop_assert_eq!(case.want(), want);
    }

    /// A row of zeros gives b, and a b of zeros what `linear` gives.
    #[test]
    fn zeros_leave_the_other_part(case in case()) {
        let (p, mut x, none) = (case.params(), case.x.values(), Array2::<f64>::zeros(case.b.dim()));
        let stored = case.w.stored();
        let without = linear_bias(&p, x.view(), &stored, none.row(0)).expect("good");
        prop_assert_eq!(without, linear(&Linear::under(&case.contract), x.view(), &stored).expect("good"));
        x.row_mut(0).fill(0.0);
        let y = linear_bias(&p, x.view(), &stored, case.b.row(0)).expect("good");
        prop_assert_eq!(y.row(0), case.b.row(0));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, &case.w.stored(), case.b.row(0), &want);
        for got in case.devices(&x.f32()) {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, &case.w.stored(), case.b.row(0), &want);
        for got in case.devices(&x.f32()) {
            likely(&got, &want, &bound)?;
        }
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut b = case.b.values();
            let j = at.index(b.len());
            b[[0, j]] = bad;
            let y = linear_bias(&case.params(), case.x.view(), &case.w.stored(), b.row(0)).expect("good");
            for (at, y) in y.indexed_iter() {
                prop_assert_eq!(y.is_finite(), at.1 != j);
            }
        }
    }
}

/// 16·16 + 1·1.5 + 1 is 258.5, in bf16 258. Were 257.5 rounded first, to 258, the sum would be 259, and in bf16 260.
#[test]
fn r1_rounds_once_after_the_bias() {
    let w = matrix::Matrix::stored(array![[16.0, 1.5]].view(), Storage::Bf16);
    let p = LinearBias::under(&RoundingContract::EAGER_BF16);
    assert_eq!(linear_bias(&p, array![[16.0, 1.0]].view(), &w, array![1.0].view()), Ok(array![[258.0]]));
}

/// In f32: each product is a little more than half an ulp of b, which is the first of the sum.
#[test]
fn the_bound_is_reached_by_the_sum() {
    let k = 1023;
    let contract = RoundingContract { accumulator: Accumulator::F32, ..RoundingContract::EAGER_F32 };
    let p = LinearBias::under(&contract);
    let x = Array2::from_elem((1, k), 2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20)));
    let (w, b) = (matrix::Matrix::stored(Array2::ones((1, k)).view(), Storage::F32), array![1.0]);
    let want = linear_bias(&ideal(), x.view(), &w, b.view()).expect("good");
    let got = x.iter().fold(1.0_f32, |sum, x| sum + f32::of(*x));
    let bound = p.bound(&Tracked::exact(x), &w, b.view(), &want);
    let ratio = reached(&array![[f64::from(got)]], &want, &bound);
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_bound_of_input_errors_is_reached() {
    let w = matrix::Matrix::stored(array![[1.0, -3.0]].view(), Storage::Bf16);
    let mut x = Tracked::exact(array![[1.0, 1.0]]);
    x.error.as_mut().expect("exact is tracked").certain.fill(0.25);
    let want = array![[-1.5]];
    let bound = ideal().bound(&x, &w, array![0.5].view(), &want);
    assert!((0.999..=1.0).contains(&reached(&array![[-0.5]], &want, &bound)));
    assert_eq!(bound.carried, 1);
}

#[test]
fn c1_bias_of_another_length() {
    let w = matrix::Matrix::stored(Array2::zeros((3, 2)).view(), Storage::Bf16);
    let err = linear_bias(&ideal(), Array2::<f64>::zeros((1, 2)).view(), &w, array![0.0].view())
        .expect_err("against the contract");
    assert_eq!(err.to_string(), "linear_bias C1: len(b) = 1, expected m = 3");
}
