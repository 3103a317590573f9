//! `reference/src/ops/linear.rs`.

use ndarray::{Array2, Axis, array, concatenate};
use proptest::prelude::*;
use reference::accumulator::{Accumulator, TensorCore};
use reference::matrix;
use reference::ops::linear::{Linear, linear};
use reference::rounding::{ActivationRound, GateRound};
use reference::{Real, Rounding, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::{Order, rounded};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random, ranging};

/// Of few rows and of many, each element has the scale of its own block, wherever blocks and what is taken at a time end. All sums
/// are exact.
#[test]
fn blocks_of_a_quantized_weight() {
    let (k, m, block) = (600, 5, (2, 96));
    let whole = |i: usize, j: usize| ((3 * i + 5 * j) % 7) as f64 - 3.0;
    let w = Array2::from_shape_fn((m, k), |(i, j)| whole(i, j));
    let scales = Array2::from_shape_fn((3, 7), |(i, j)| ((i + 2 * j) as f64 - 7.0).exp2());
    let scaled = Array2::from_shape_fn((m, k), |(i, j)| w[[i, j]] * scales[[i / block.0, j / block.1]]);
    let stored = matrix::Matrix::stored(w.view(), Storage::E4m3);
    let values = matrix::Matrix::stored(scales.view(), Storage::F32);
    let stored = stored.scaled(matrix::Scales { block, above: 0, values }).expect("a scale for each block");
    let p = Linear::under(&RoundingContract::IDEAL);
    for n in [1, 3, 4, 5, 13] {
        let x = Array2::from_shape_fn((n, k), |(i, j)| whole(j, i));
        let want = Array2::from_shape_fn((n, m), |(i, o)| (0..k).map(|j| x[[i, j]] * scaled[[o, j]]).sum::<f64>());
        assert_eq!(linear(&p, x.view(), &stored), Ok(want), "{n} rows");
    }
}

/// Of so much that threads divide it among them, each element is its own sum. All sums are exact.
#[test]
fn panels_side_by_side() {
    let (n, k, m) = (12, 600, 300);
    let whole = |i: usize, j: usize| ((3 * i + 5 * j) % 7) as f64 - 3.0;
    let [x, w] = [n, m].map(|rows| Array2::from_shape_fn((rows, k), |(i, j)| whole(i, j)));
    let want = Array2::from_shape_fn((n, m), |(i, o)| (0..k).map(|j| x[[i, j]] * w[[o, j]]).sum::<f64>());
    let stored = matrix::Matrix::stored(w.view(), Storage::F32);
    assert_eq!(linear(&Linear::under(&RoundingContract::IDEAL), x.view(), &stored), Ok(want));
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Router,
    BeforeActivation,
}

/// x \[n, k\], w \[m, k\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    kind: Kind,
    x: Matrix,
    w: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> Linear {
        match self.kind {
            Kind::Plain => Linear::under(&self.contract),
            Kind::Router => Linear::router(&self.contract),
            Kind::BeforeActivation => Linear::before_activation(&self.contract),
        }
    }

    /// What devices make of x: the reference in f32, and kernels that sum in every order the accumulator allows.
    fn devices(&self, x: &Array2<f32>) -> Vec<Array2<f64>> {
        let p = self.params();
        let orders = Order::of(p.accumulator);
        let w = self.w.mapv(|w| p.weight.round(f32::of(w)));
        let kernels = orders.into_iter().map(|order| rounded(&order.product(x.view(), w.view()), p.output));
        let own = linear(&p, x.view(), &self.w.stored()).expect("good").mapv(f64::from);
        kernels.chain([own]).collect()
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let kind = prop_oneof![Just(Kind::Plain), Just(Kind::Router), Just(Kind::BeforeActivation)];
    let dims = (1..7_usize, 1..90_usize, 1..80_usize);
    (contract(), kind, noise(), dims).prop_flat_map(move |(contract, kind, noise, (n, m, k))| {
        let storage = contract.activations;
        // The router's weight is wider than the activations.
        let stored = if kind == Kind::Router { Storage::F32 } else { storage };
        (filled((n, k), fill.clone(), storage), ranging((m, k), fill.clone(), stored, storage))
            .prop_map(move |(x, w)| Case { contract, kind, x, w, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn ideal() -> Linear {
    Linear::under(&RoundingContract::IDEAL)
}

fn oracle(x: &Array2<f64>, w: &Matrix) -> Array2<f64> {
    linear(&ideal(), x.view(), &w.stored()).expect("the case keeps the contract")
}

/// Twice the ideal's own error: two evaluations in f64 of one sum.
fn close(one: &Array2<f64>, two: &Array2<f64>, x: &Array2<f64>, w: &Matrix) -> Result<(), TestCaseError> {
    let mut bound = ideal().bound(&Tracked::exact(x.clone()), &w.stored(), one);
    bound.certain *= 2.0;
    within(one, two, &bound).map(|_| ())
}

proptest! {
    /// The definition on whole numbers, where every order of summation is exact, in f32 and on tensor cores.
    #[test]
    fn whole_numbers_are_exact(case in case_of(Just(Fill::Whole))) {
        let (x, w) = (&case.x, &case.w);
        let by_definition = Array2::from_shape_fn((x.nrows(), w.nrows()), |(i, j)| {
            x.row(i).iter().zip(w.row(j)).map(|(x, w)| x * w).sum::<f64>()
        });
        prop_assert_eq!(&oracle(x, w), &by_definition);
        let contract = Contract(RoundingContract { activations: Storage::F32, ..case.contract.0 });
        let exact = !matches!(case.contract.accumulator, Accumulator::TensorCore(core) if core.fraction.min(core.result) < 23);
        for got in (Case { contract, ..case.clone() }).devices(&x.f32()).iter().filter(|_| exact) {
            prop_assert_eq!(got, &by_definition);
        }
    }

    #[test]
    fn a_zero_row_gives_zero(case in case()) {
        let mut x = case.x.values();
        x.row_mut(0).fill(0.0);
        let y = linear(&case.params(), x.view(), &case.w.stored()).expect("good");
        prop_assert!(y.row(0).iter().all(|&y| y == 0.0));
    }

    #[test]
    fn signs_and_powers_of_two_pass_through_exactly(case in case()) {
        prop_assert_eq!(oracle(&(&*case.x * -4.0), &case.w), oracle(&case.x, &case.w) * -4.0);
    }

    #[test]
    fn is_additive_in_x(case in case(), seed in any::<u16>()) {
        let other = Matrix::new(case.x.dim(), Fill::Whole, case.x.storage(), seed.into());
        let sum = oracle(&(&*case.x + &*other), &case.w);
        let parts = oracle(&case.x, &case.w) + oracle(&other, &case.w);
        close(&sum, &parts, &(case.x.mapv(f64::abs) + other.mapv(f64::abs)), &case.w)?;
    }

    #[test]
    fn is_additive_in_w_exactly_on_whole_numbers(case in case_of(Just(Fill::Whole))) {
        let double = matrix::Matrix::stored((&*case.w + &*case.w).view(), case.w.storage());
        prop_assert_eq!(linear(&ideal(), case.x.view(), &double), Ok(oracle(&case.x, &case.w) * 2.0));
    }

    #[test]
    fn a_permutation_of_k_changes_nothing(case in case()) {
        let backwards: Vec<usize> = (0..case.x.ncols()).rev().collect();
        let w = matrix::Matrix::stored(case.w.select(Axis(1), &backwards).view(), case.w.storage());
        let y = linear(&ideal(), case.x.select(Axis(1), &backwards).view(), &w).expect("good");
        close(&y, &oracle(&case.x, &case.w), &case.x, &case.w)?;
    }

    /// Up to four rows and more go different ways.
    #[test]
    fn rows_do_not_see_each_other(case in case()) {
        let both = concatenate(Axis(0), &[case.x.view(), (-&*case.x).view()]).expect("same width");
        let y = oracle(&case.x, &case.w);
        let want = concatenate(Axis(0), &[y.view(), (-&y).view()]).expect("same width");
        close(&oracle(&both, &case.w), &want, &both, &case.w)?;
    }

    #[test]
    fn rows_of_w_do_not_see_each_other(case in case()) {
        let first = matrix::Matrix::stored(case.w.slice(ndarray::s![..1, ..]), case.w.storage());
        let alone = linear(&ideal(), case.x.view(), &first).expect("good");
        let all = oracle(&case.x, &case.w).slice(ndarray::s![.., ..1]).to_owned();
        let mut bound = ideal().bound(&case.x.exact(), &first, &alone);
        bound.certain *= 2.0;
        within(&alone, &all, &bound)?;
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x) = (case.params(), case.noise.on(&case.x, 0));
        let want = oracle(&case.x, &case.w);
        let bound = p.bound(&x.tracked, &case.w.stored(), &want);
        for got in case.devices(&x.f32()) {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x) = (case.params(), case.noise.on(&case.x, 0));
        let want = oracle(&case.x, &case.w);
        let bound = p.bound(&x.tracked, &case.w.stored(), &want);
        for got in case.devices(&x.f32()) {
            likely(&got, &want, &bound)?;
        }
    }

    #[test]
    fn a_noisy_run_stays_within_the_likely_bound(case in case_of(random()), seed in 1..1000_u64) {
        let contract = Contract(case.contract.stochastic(seed));
        let case = Case { contract, noise: Noise::NONE, ..case };
        let p = case.params();
        let want = oracle(&case.x, &case.w);
        let mut bound = p.bound(&case.x.exact(), &case.w.stored(), &want);
        // A stochastic rounding goes to the further neighbour too: twice as far, with three times the variance.
        bound.certain *= 2.0;
        bound.sigma *= 2.0;
        likely(&linear(&p, case.x.view(), &case.w.stored()).expect("good"), &want, &bound)?;
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        let k = at.index(case.x.ncols());
        for bad in [f64::NAN, f64::INFINITY] {
            let mut x = case.x.values();
            x[[0, k]] = bad;
            let y = linear(&case.params(), x.view(), &case.w.stored()).expect("good");
            prop_assert!(y.row(0).iter().all(|y| !y.is_finite()));
            prop_assert!(y.rows().into_iter().skip(1).all(|row| row.iter().all(|y| y.is_finite())));
        }
    }
}

/// 1 + 2⁻⁸ + 2⁻²⁰ is 1.0078125 as a bf16 weight; kept in f32 the product would be 4.0156288.
#[test]
fn r1_rounds_the_weight() {
    let w = matrix::Matrix::stored(array![[1.0 + 2.0_f64.powi(-8) + 2.0_f64.powi(-20)]].view(), Storage::F32);
    let stored = Linear::router(&RoundingContract::EAGER_BF16);
    let bf16 = Linear { weight: Rounding::nearest(Storage::Bf16), ..stored };
    assert_eq!(linear(&bf16, array![[4.0]].view(), &w), Ok(array![[4.031_25]]));
    assert_eq!(linear(&stored, array![[4.0]].view(), &w), Ok(array![[4.015_628_814_697_266]]));
}

/// D41: 4.015625 lies between the bf16 4 and 4.03125.
#[test]
fn r2_rounds_a_routers_logits_if_they_are_stored_as_activations_are() {
    let w = matrix::Matrix::stored(array![[1.003_906_25]].view(), Storage::F32);
    let bf16 = RoundingContract { gate: GateRound::Activations, ..RoundingContract::EAGER_BF16 };
    assert_eq!(linear(&Linear::router(&bf16), array![[4.0]].view(), &w), Ok(array![[4.0]]));
    let stored = Linear::router(&RoundingContract::EAGER_BF16);
    assert_eq!(linear(&stored, array![[4.0]].view(), &w), Ok(array![[4.015_625]]));
}

/// 16·16 + 1·1.5 is 257.5, between the bf16 256 and 258.
#[test]
fn r2_rounds_the_sum_once() {
    let (x, w) = (array![[16.0, 1.0]], matrix::Matrix::stored(array![[16.0, 1.5]].view(), Storage::Bf16));
    assert_eq!(linear(&Linear::under(&RoundingContract::EAGER_BF16), x.view(), &w), Ok(array![[258.0]]));
    let once = RoundingContract { swiglu: ActivationRound::Once, ..RoundingContract::EAGER_BF16 };
    assert_eq!(linear(&Linear::before_activation(&once), x.view(), &w), Ok(array![[257.5]]));
    assert_eq!(linear(&Linear::before_activation(&RoundingContract::EAGER_BF16), x.view(), &w), Ok(array![[258.0]]));
}

/// A router's sums are not a tensor core's, whatever the rest is.
#[test]
fn the_router_adds_in_f32() {
    assert_eq!(Linear::router(&RoundingContract::PARITY).accumulator, Accumulator::F32);
    assert_eq!(Linear::router(&RoundingContract::PARITY).output, Rounding::NONE);
    assert_eq!(Linear::under(&RoundingContract::PARITY).accumulator, Accumulator::HOPPER_512);
}

fn ratio(p: &Linear, x: &Array2<f64>, w: &Array2<f64>, order: Order) -> f64 {
    let stored = matrix::Matrix::stored(w.view(), Storage::F32);
    let want = linear(&ideal(), x.view(), &stored).expect("good");
    let got = order.product(x.mapv(f32::of).view(), w.mapv(f32::of).view());
    reached(&rounded(&got, p.output), &want, &p.bound(&Tracked::exact(x.clone()), &stored, &want))
}

/// Each product is a little more than half an ulp of the sum, and rounds it up by a whole one.
#[test]
fn the_bound_is_reached_in_f32() {
    let mut x = Array2::from_elem((1, 1024), 2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20)));
    x[[0, 0]] = 1.0;
    let p = Linear { accumulator: Accumulator::F32, ..Linear::under(&RoundingContract::EAGER_F32) };
    let ratio = ratio(&p, &x, &Array2::ones((1, 1024)), Order::Sequential);
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
}

/// Every product lies just below the last bit that a step keeps, and is lost. Of a step's 17 possible losses by
/// alignment 16 are taken, and of its loss by the result's 23 bits, worth four more, none.
#[test]
fn the_bound_is_reached_on_a_tensor_core() {
    let core = TensorCore { k: 16, fraction: 25, result: 23, promote: Some(512) };
    let p = Linear { output: Rounding::NONE, ..Linear::under(&RoundingContract::PARITY) };
    let mut x = Array2::from_elem((1, 512), 2.0_f64.powi(-25) * (1.0 - 2.0_f64.powi(-8)));
    x[[0, 0]] = 1.0;
    let ratio = ratio(&p, &x, &Array2::ones((1, 512)), Order::TensorCore(core));
    assert!((0.7..=1.0).contains(&ratio), "{ratio}");
}

/// bf16 outputs: the rounding of the output is nearly all of the bound.
#[test]
fn the_bound_is_reached_by_the_output() {
    let (x, w) = (array![[1.0, 2.0_f64.powi(-8)]], array![[1.0, 1.0]]);
    assert!(ratio(&Linear::under(&RoundingContract::EAGER_BF16), &x, &w, Order::Sequential) > 0.99);
}

#[test]
fn the_bound_of_input_errors_is_reached() {
    let (x, w) = (array![[1.0, 1.0]], matrix::Matrix::stored(array![[1.0, -3.0]].view(), Storage::Bf16));
    let mut tracked = Tracked::exact(x.clone());
    tracked.error.as_mut().expect("exact is tracked").certain.fill(0.25);
    let want = linear(&ideal(), x.view(), &w).expect("good");
    let got = linear(&ideal(), array![[1.25, 0.75]].view(), &w).expect("good");
    let bound = ideal().bound(&tracked, &w, &want);
    assert!(reached(&got, &want, &bound) > 0.999);
    assert_eq!((bound.carried, ideal().bound(&Tracked::exact(x), &w, &want).carried), (1, 0));
}

#[test]
fn c1_nothing_to_multiply() {
    for (n, k) in [(0, 2), (2, 0)] {
        let w = matrix::Matrix::stored(Array2::zeros((3, k)).view(), Storage::Bf16);
        let err = linear(&ideal(), Array2::<f64>::zeros((n, k)).view(), &w).expect_err("against the contract");
        assert_eq!(err.to_string(), "linear C1: min(n, k) = 0, expected at least 1");
    }
}

#[test]
fn c2_weight_of_another_width() {
    let w = matrix::Matrix::stored(Array2::zeros((3, 4)).view(), Storage::Bf16);
    let err = linear(&ideal(), Array2::<f64>::zeros((1, 2)).view(), &w).expect_err("against the contract");
    assert_eq!(err.to_string(), "linear C2: columns of w = 4, expected k = 2");
}
