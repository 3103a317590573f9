//! `reference/src/ops/add_rms_norm.rs`.

use ndarray::{Array1, Array2, array};
use proptest::prelude::*;
use reference::ops::add_rms_norm::{AddRmsNorm, add_rms_norm};
use reference::ops::residual::residual;
use reference::ops::rms_norm::rms_norm;
use reference::rounding::NormInput;
use reference::semantics::EpsPlace;
use reference::{Real, Rounding, RoundingContract, Storage, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, matrix, noise, random};

const EPS: f64 = 1e-6;

/// x and f \[n, d\], w \[d\], under a contract, with errors of x and f.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: Matrix,
    f: Matrix,
    w: Matrix,
    noise: Noise,
}

fn params(contract: &RoundingContract) -> AddRmsNorm {
    AddRmsNorm::under(contract, EPS, EpsPlace::Inside)
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    (contract(), noise(), 1..4_usize, 1..70_usize).prop_flat_map(move |(contract, noise, n, d)| {
        let storage = contract.activations;
        let drawn = || filled((n, d), fill.clone(), storage);
        (drawn(), drawn(), matrix((1, d), storage)).prop_map(move |(x, f, w)| Case { contract, x, f, w, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

/// Those of which no two make sums that are equal, whose roundings, which a mean square adds up, are equal, too.
fn random_sums() -> impl Strategy<Value = Fill> + Clone {
    random().prop_filter("sums are equal", |fill| *fill != Fill::Cancelling)
}

fn oracle(p: &AddRmsNorm, x: &Array2<f64>, f: &Array2<f64>, w: &Array1<f64>) -> (Array2<f64>, Array2<f64>) {
    add_rms_norm(p, x.view(), f.view(), w.view()).expect("the case keeps the contract")
}

/// What a device computes of operands with errors, the truth, and the bounds: of s, and of y.
fn judged(case: &Case) -> [(Array2<f64>, Array2<f64>, reference::bound::ErrorBound); 2] {
    let (p, w) = (params(&case.contract), case.w.vector());
    let (x, f) = (case.noise.on(&case.x, 0), case.noise.on(&case.f, 1));
    let got = add_rms_norm(&p, x.f32().view(), f.f32().view(), w.mapv(f32::of).view()).expect("good");
    let (s, y) = oracle(&params(&RoundingContract::IDEAL), &case.x, &case.f, &w);
    let (of_s, of_y) = p.bound(&x.tracked, &f.tracked, w.view(), (&s, &y));
    [(got.0.mapv(f64::from), s, of_s), (got.1.mapv(f64::from), y, of_y)]
}

proptest! {
    /// D60: the norm of the sum as it is stored, or before.
    #[test]
    fn d60_is_the_addition_and_the_norm_of_what_it_reads_exactly(case in case()) {
        let (p, w) = (params(&case.contract), case.w.vector());
        let (s, y) = oracle(&p, &case.x, &case.f, &w);
        prop_assert_eq!(&s, &residual(&p.residual, case.x.view(), case.f.view()).expect("good"));
        let read = if p.input == NormInput::Stored { s } else { &*case.x + &*case.f };
        prop_assert_eq!(y, rms_norm(&p.norm, read.view(), w.view()).expect("good"));
    }

    #[test]
    fn order_is_irrelevant_and_no_branch_is_the_plain_norm_exactly(case in case()) {
        let (p, w) = (params(&case.contract), case.w.vector());
        prop_assert_eq!(oracle(&p, &case.x, &case.f, &w), oracle(&p, &case.f, &case.x, &w));
        let (s, y) = oracle(&p, &case.x, &Array2::zeros(case.x.dim()), &w);
        prop_assert_eq!(&s, &*case.x);
        prop_assert_eq!(y, rms_norm(&p.norm, case.x.view(), w.view()).expect("good"));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        for (got, want, bound) in judged(&case) {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random_sums())) {
        for (got, want, bound) in judged(&case) {
            likely(&got, &want, &bound)?;
        }
    }
}

/// 256 + 1.5 is stored as 258, so that y₁ is 64.5 times y₂; of the sum before R1 it would be 64.375 times.
#[test]
fn r1_rounds_before_the_norm_reads() {
    let mut p = params(&RoundingContract::IDEAL);
    p.residual.output = Rounding::nearest(Storage::Bf16);
    let (x, f, w) = (array![[256.0, 2.0]], array![[1.5, 2.0]], array![1.0, 1.0]);
    for (input, ratio) in [(NormInput::Stored, 64.5), (NormInput::Sum, 64.375), (NormInput::Fused, 64.375)] {
        let (s, y) = oracle(&AddRmsNorm { input, ..p }, &x, &f, &w);
        assert_eq!(s, array![[258.0, 4.0]]);
        assert!((y[[0, 0]] / y[[0, 1]] - ratio).abs() < 1e-12, "{input:?} {y}");
    }
}

/// R1 moves the first sum by half a step. The norm's own bound has no room for what that does to y; the operator's has.
#[test]
fn the_bound_carries_what_r1_does() {
    let p = AddRmsNorm { input: NormInput::Stored, ..params(&RoundingContract::EAGER_F32) };
    let p = AddRmsNorm { residual: params(&RoundingContract::EAGER_BF16).residual, ..p };
    let (x, f, w) = (array![[256.0, 200.0]], array![[1.0, 200.0]], array![1.0, 1.0]);
    let (s, y) = oracle(&params(&RoundingContract::IDEAL), &x, &f, &w);
    let (_, got) = oracle(&p, &x, &f, &w);
    let (_, bound) = p.bound(&Tracked::exact(x), &Tracked::exact(f), w.view(), (&s, &y));
    assert!(within(&got, &y, &bound).is_ok());
    assert!(within(&got, &y, &p.norm.bound(&Tracked::exact(s), w.view(), &y)).is_err());
}

#[test]
fn the_constraints_are_those_of_the_parts() {
    let p = params(&RoundingContract::IDEAL);
    let run = |f: Array2<f64>, w: Array1<f64>| {
        add_rms_norm(&p, array![[1.0, 2.0]].view(), f.view(), w.view()).expect_err("against the contract").to_string()
    };
    assert_eq!(run(array![[1.0]], Array1::ones(2)), "residual C1: shape of f = (1, 1), expected (1, 2)");
    assert_eq!(run(array![[1.0, 1.0]], Array1::ones(3)), "rms_norm C2: len(w) = 3, expected d = 2");
}
