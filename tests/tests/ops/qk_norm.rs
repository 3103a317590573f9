//! `reference/src/ops/qk_norm.rs`.

use ndarray::{Array1, Array2, Axis, array, concatenate, s};
use proptest::prelude::*;
use reference::ops::qk_norm::{QkNorm, qk_norm};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::semantics::{self, EpsPlace, NormWeight};
use reference::{Real, RoundingContract, Tracked};
use tests::judge::{likely, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, matrix, noise, random};

/// x \[n, heads·d\], w \[heads·d\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    over: semantics::QkNorm,
    head_dim: usize,
    x: Matrix,
    w: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self, contract: &RoundingContract) -> QkNorm {
        let norm = RmsNorm::under(contract, 1e-6, EpsPlace::Inside);
        QkNorm { norm, over: self.over, head_dim: self.head_dim }
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    use semantics::QkNorm::{FullProjection, None, PerHead};
    let over = prop_oneof![Just(FullProjection), Just(PerHead), Just(None)];
    let dims = (1..4_usize, 1..5_usize, 1..12_usize);
    (contract(), over, noise(), dims).prop_flat_map(move |(contract, over, noise, (n, heads, head_dim))| {
        let storage = contract.activations;
        (filled((n, heads * head_dim), fill.clone(), storage), matrix((1, heads * head_dim), storage))
            .prop_map(move |(x, w)| Case { contract, over, head_dim, x, w, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn oracle(p: &QkNorm, x: &Array2<f64>, w: &Array1<f64>) -> Array2<f64> {
    qk_norm(p, x.view(), w.view()).expect("the case keeps the contract")
}

fn per_head(p: &QkNorm, x: &Array2<f64>, w: &Array1<f64>) -> Array2<f64> {
    let heads = x.axis_chunks_iter(Axis(1), p.head_dim).zip(w.axis_chunks_iter(Axis(0), p.head_dim));
    let parts: Vec<_> = heads.map(|(x, w)| rms_norm(&p.norm, x, w).expect("good")).collect();
    concatenate(Axis(1), &parts.iter().map(|part| part.view()).collect::<Vec<_>>()).expect("same rows")
}

proptest! {
    /// D05: each reading is `rms_norm` over other channels.
    #[test]
    fn d05_is_the_norm_of_all_heads_or_of_each_exactly(case in case()) {
        let (p, w) = (case.params(&case.contract), case.w.vector());
        let want = match case.over {
            semantics::QkNorm::FullProjection => rms_norm(&p.norm, case.x.view(), w.view()).expect("good"),
            semantics::QkNorm::PerHead => per_head(&p, &case.x, &w),
            semantics::QkNorm::None => case.x.values(),
        };
        prop_assert_eq!(oracle(&p, &case.x, &w), want);
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, w) = (case.params(&case.contract), case.noise.on(&case.x, 0), case.w.vector());
        let want = oracle(&case.params(&RoundingContract::IDEAL), &case.x, &w);
        let got = qk_norm(&p, x.f32().view(), w.mapv(f32::of).view()).expect("good").mapv(f64::from);
        within(&got, &want, &p.bound(&x.tracked, w.view(), &want))?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, w) = (case.params(&case.contract), case.noise.on(&case.x, 0), case.w.vector());
        let want = oracle(&case.params(&RoundingContract::IDEAL), &case.x, &w);
        let got = qk_norm(&p, x.f32().view(), w.mapv(f32::of).view()).expect("good").mapv(f64::from);
        likely(&got, &want, &p.bound(&x.tracked, w.view(), &want))?;
    }

    /// The bound of each head is that of `rms_norm` over the same channels, no looser, and the depth is kept.
    #[test]
    fn the_bound_is_that_of_the_norm(case in case()) {
        let (p, w) = (case.params(&case.contract), case.w.vector());
        let mut x = case.noise.on(&case.x, 0).tracked;
        x.error.as_mut().expect("tracked").carried = 3;
        let want = oracle(&case.params(&RoundingContract::IDEAL), &case.x, &w);
        let bound = p.bound(&x, w.view(), &want);
        prop_assert_eq!(bound.carried, 3);
        let d = case.head_dim;
        match case.over {
            semantics::QkNorm::FullProjection => prop_assert_eq!(bound, p.norm.bound(&x, w.view(), &want)),
            semantics::QkNorm::None => prop_assert_eq!(Some(bound), x.error),
            semantics::QkNorm::PerHead => for head in 0..want.ncols() / d {
                let columns = head * d..(head + 1) * d;
                let all = s![.., columns.clone()];
                let part = p.norm.bound(&x.columns(columns.clone()), w.slice(s![columns]), &want.slice(all).to_owned());
                prop_assert_eq!(bound.certain.slice(all), part.certain);
                prop_assert_eq!(bound.sigma.slice(all), part.sigma);
            },
        }
    }
}

/// Over both heads the mean square is 12.5, over each of them 9 and 16: per head, every channel would be 1.
#[test]
fn d05_by_hand() {
    let norm = RmsNorm { eps: 1e-30, ..RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside) };
    let p = |over| QkNorm { norm, over, head_dim: 2 };
    let (x, w) = (array![[3.0, 3.0, -4.0, 4.0]], array![1.0, 2.0, 3.0, 4.0]);
    assert_eq!(oracle(&p(semantics::QkNorm::PerHead), &x, &w), array![[1.0, 2.0, -3.0, 4.0]]);
    let full = oracle(&p(semantics::QkNorm::FullProjection), &x, &w);
    assert!((full[[0, 0]] - 3.0 / 12.5_f64.sqrt()).abs() < 4.0 * f64::EPSILON);
    assert_eq!(oracle(&p(semantics::QkNorm::None), &x, &w), x);
}

/// A weight of one head is that of each.
#[test]
fn one_weight_serves_all_heads() {
    let norm = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside).weighing(NormWeight::OnePlus);
    let x = array![[3.0, 3.0, -4.0, 4.0, 5.0, 1.0], [1.0, 7.0, 0.5, 0.0, -2.0, 2.5]];
    for over in [semantics::QkNorm::PerHead, semantics::QkNorm::FullProjection] {
        let p = QkNorm { norm, over, head_dim: 2 };
        let (one, all) = (array![0.5, -0.25], array![0.5, -0.25, 0.5, -0.25, 0.5, -0.25]);
        let y = oracle(&p, &x, &all);
        assert_eq!(oracle(&p, &x, &one), y);
        let x = Tracked::exact(x.clone());
        assert_eq!(p.bound(&x, one.view(), &y), p.bound(&x, all.view(), &y));
    }
}

/// A NaN in one head is seen in all of a token's heads, or in that head, and in no other token.
#[test]
fn nan_reaches_what_it_is_normalized_with() {
    let norm = RmsNorm::under(&RoundingContract::EAGER_BF16, 1e-6, EpsPlace::Inside);
    let x = array![[f64::NAN, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]];
    for (over, count) in [(semantics::QkNorm::FullProjection, 4), (semantics::QkNorm::PerHead, 2)] {
        let y = oracle(&QkNorm { norm, over, head_dim: 2 }, &x, &Array1::ones(4));
        assert_eq!(y.iter().filter(|y| y.is_nan()).count(), count);
        assert!(y.row(1).iter().all(|y| y.is_finite()));
    }
}

#[test]
fn c1_no_whole_number_of_heads() {
    let norm = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside);
    for (head_dim, expected) in [(4, "d = 4"), (0, "d = 0")] {
        let p = QkNorm { norm, over: semantics::QkNorm::FullProjection, head_dim };
        let err =
            qk_norm(&p, Array2::<f64>::zeros((1, 6)).view(), Array1::ones(6).view()).expect_err("against the contract");
        assert_eq!(err.to_string(), format!("qk_norm C1: columns of x = 6, expected a multiple of {expected}"));
    }
}

#[test]
fn c2_weight_of_another_width() {
    let norm = RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside);
    for (over, width) in
        [(semantics::QkNorm::PerHead, 4), (semantics::QkNorm::PerHead, 8), (semantics::QkNorm::FullProjection, 4)]
    {
        let p = QkNorm { norm, over, head_dim: 2 };
        let err = qk_norm(&p, Array2::<f64>::zeros((1, 6)).view(), Array1::ones(width).view())
            .expect_err("against the contract");
        assert_eq!(err.to_string(), format!("qk_norm C2: len(w) = {width}, expected columns of x = 6, or d = 2"));
    }
    let x = Tracked::exact(Array2::<f64>::zeros((1, 6)));
    let p = QkNorm { norm, over: semantics::QkNorm::None, head_dim: 2 };
    assert_eq!(qk_norm(&p, x.view(), Array1::ones(0).view()), Ok(x.value));
}
