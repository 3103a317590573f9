//! `reference/src/ops/residual.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::ops::residual::{Residual, residual};
use reference::{Rounding, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, matrix, noise};

#[derive(Debug)]
struct Case {
    contract: Contract,
    x: Matrix,
    f: Matrix,
    noise: Noise,
}

fn case() -> impl Strategy<Value = Case> {
    (contract(), noise(), 1..4_usize, 1..40_usize).prop_flat_map(|(contract, noise, n, d)| {
        let storage = contract.activations;
        (matrix((n, d), storage), matrix((n, d), storage)).prop_map(move |(x, f)| Case { contract, x, f, noise })
    })
}

fn ideal() -> Residual {
    Residual::under(&RoundingContract::IDEAL)
}

fn oracle(p: &Residual, x: &Array2<f64>, f: &Array2<f64>) -> Array2<f64> {
    residual(p, x.view(), f.view()).expect("the case keeps the contract")
}

proptest! {
    #[test]
    fn order_is_irrelevant_and_zero_changes_nothing_exactly(case in case()) {
        let p = Residual::under(&case.contract);
        prop_assert_eq!(oracle(&p, &case.x, &case.f), oracle(&p, &case.f, &case.x));
        prop_assert_eq!(&oracle(&p, &case.x, &Array2::zeros(case.x.dim())), &*case.x);
    }

    #[test]
    fn an_opposite_cancels_exactly(case in case()) {
        prop_assert_eq!(oracle(&Residual::under(&case.contract), &case.x, &-&*case.x), Array2::<f64>::zeros(case.x.dim()));
    }

    #[test]
    fn whole_numbers_add_exactly(x in filled((2, 9), Just(Fill::Whole), Storage::Bf16)) {
        let p = Residual::under(&RoundingContract::EAGER_BF16);
        prop_assert_eq!(oracle(&p, &x, &x), &*x * 2.0);
    }

    #[test]
    fn a_device_stays_within_the_bound(
        case in case(),
        terms in prop::sample::select(vec![[1.0; 2], [3.556_558_820_077_845_5, 1.0], [1.0, 2.0], [0.7, -0.3]]),
        gamma in prop::sample::select(vec![1.0, 1.01, -0.3, 0.0]),
    ) {
        let factors = [terms[0], terms[1], gamma];
        let p = Residual { factors, ..Residual::under(&case.contract) };
        let (x, f) = (case.noise.on(&case.x, 0), case.noise.on(&case.f, 1));
        let want = oracle(&Residual { factors, ..ideal() }, &case.x, &case.f);
        let got = residual(&p, x.f32().view(), f.f32().view()).expect("good").mapv(f64::from);
        let bound = p.bound(&x.tracked, &f.tracked, &want);
        within(&got, &want, &bound)?;
        likely(&got, &want, &bound)?;
    }
}

/// As MiniMax-Text-01 scales its stream: 3.5·3 + 2·0.25 is 11; in bf16 1.00390625·1.0078125 is 1.0117…, which is 1.015625.
#[test]
fn a_port_may_scale_what_is_added() {
    let of = |factors, x: f64, f: f64| {
        let p = Residual { factors, ..Residual::under(&RoundingContract::EAGER_BF16) };
        oracle(&p, &array![[x]], &array![[f]])[[0, 0]]
    };
    assert_eq!(of([3.5, 2.0, 1.0], 3.0, 0.25), 11.0);
    assert_eq!(of([1.003_906_25, 1.0, 1.0], 1.007_812_5, 0.0), 1.015_625);
    assert_eq!(of([0.0, 1.0, 1.0], 3.0, 0.25), 0.25);
}

/// 1.00586 is 1.0078125 in bf16, three times which is 3.03125 there; three times the sum itself would be 3.015625.
#[test]
fn a_port_may_scale_the_sum_as_it_was_stored() {
    let p = Residual { factors: [1.0, 1.0, 3.0], ..Residual::under(&RoundingContract::EAGER_BF16) };
    assert_eq!(oracle(&p, &array![[1.0]], &array![[0.00586]])[[0, 0]], 3.031_25);
}

/// 256 + 1.5 is 257.5, between the bf16 256 and 258; unrounded it would be 257.5.
#[test]
fn r1_rounds_the_sum() {
    let p = Residual { factors: [1.0; 3], output: Rounding::nearest(Storage::Bf16), unit: 0.0 };
    assert_eq!(residual(&p, array![[256.0]].view(), array![[1.5]].view()), Ok(array![[258.0]]));
}

/// A sum in the middle of two bf16, of which one operand was off by its whole bound.
#[test]
fn the_bound_is_reached() {
    let p = Residual::under(&RoundingContract::EAGER_BF16);
    let (x, f) = (array![[1.0]], array![[2.0_f64.powi(-8)]]);
    let mut input = Tracked::exact(f.clone());
    input.error.as_mut().expect("exact is tracked").certain[[0, 0]] = 2.0_f64.powi(-12);
    let moved = array![[f[[0, 0]] + 2.0_f64.powi(-12)]];
    let want = oracle(&ideal(), &x, &f);
    let ratio = reached(&oracle(&p, &x, &moved), &want, &p.bound(&Tracked::exact(x), &input, &want));
    assert!(ratio > 0.9, "{ratio}");
}

#[test]
fn one_operand_alone_has_an_error_too() {
    let p = ideal();
    let x = Tracked::exact(array![[1.0]]);
    let mut f = Tracked::exact(array![[1.0]]);
    f.error.as_mut().expect("exact is tracked").certain[[0, 0]] = 0.25;
    let y = array![[2.0]];
    assert!(p.bound(&x, &f, &y).certain[[0, 0]] >= 0.25 && p.bound(&f, &x, &y).certain[[0, 0]] >= 0.25);
    assert!(p.bound(&x, &x, &y).certain[[0, 0]] < 1e-15);
}

#[test]
fn nan_and_infinity_propagate() {
    let p = Residual::under(&RoundingContract::EAGER_F16);
    let (x, f) = (array![[f64::NAN, f64::INFINITY, f64::INFINITY]], array![[1.0, 1.0, f64::NEG_INFINITY]]);
    let y = oracle(&p, &x, &f);
    assert!(y[[0, 0]].is_nan() && y[[0, 1]] == f64::INFINITY && y[[0, 2]].is_nan());
}

#[test]
fn an_overflow_is_a_fault() {
    let p = Residual::under(&RoundingContract::EAGER_F16);
    let x = array![[65_504.0]];
    let (want, got) = (oracle(&ideal(), &x, &x), oracle(&p, &x, &x));
    assert_eq!(got, array![[f64::INFINITY]]);
    assert!(within(&got, &want, &p.bound(&Tracked::exact(x.clone()), &Tracked::exact(x), &want)).is_err());
}

#[test]
fn c1_shapes_differ() {
    let err =
        residual(&ideal(), array![[1.0, 2.0]].view(), array![[1.0], [2.0]].view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "residual C1: shape of f = (2, 1), expected (1, 2)");
}
