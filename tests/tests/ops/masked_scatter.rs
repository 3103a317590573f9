//! `reference/src/ops/masked_scatter.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::bound::ErrorBound;
use reference::ops::masked_scatter::{MaskedScatter, masked_scatter};
use reference::{RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::strategy::{Contract, Matrix, Noise, contract, filled, finite, noise, ranging};

/// x \[n, d\], m \[n\], f \[marked, d\], under a contract, with errors of f.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: Matrix,
    m: Vec<bool>,
    f: Matrix,
    noise: Noise,
}

fn case() -> impl Strategy<Value = Case> {
    let mask = proptest::collection::vec(any::<bool>(), 1..20);
    (contract(), noise(), mask, 1..6_usize).prop_flat_map(|(contract, noise, m, d)| {
        let storage = contract.activations;
        let marked = m.iter().filter(|m| **m).count();
        (filled((m.len(), d), finite(), storage), ranging((marked, d), finite(), Storage::F32, storage))
            .prop_map(move |(x, f)| Case { contract, x, m: m.clone(), f, noise })
    })
}

fn ideal() -> MaskedScatter {
    MaskedScatter::under(&RoundingContract::IDEAL)
}

fn oracle(p: &MaskedScatter, x: &Array2<f64>, m: &[bool], f: &Array2<f64>) -> Array2<f64> {
    masked_scatter(p, x.view(), m, f.view()).expect("the case keeps the contract")
}

proptest! {
    /// The definition: the marked rows are f, in order, and the others are as they were.
    #[test]
    fn marked_rows_are_the_features(case in case()) {
        let y = oracle(&ideal(), &case.x, &case.m, &case.f);
        let mut next = 0;
        for (i, &marked) in case.m.iter().enumerate() {
            if marked {
                prop_assert_eq!(y.row(i), case.f.row(next));
                next += 1;
            } else {
                prop_assert_eq!(y.row(i), case.x.row(i));
            }
        }
        prop_assert_eq!(next, case.f.nrows());
    }

    /// R1 rounds features, and nothing else.
    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let p = MaskedScatter::under(&case.contract);
        let f = case.noise.on(&case.f, 0);
        let got = masked_scatter(&p, case.x.f32().view(), &case.m, f.f32().view()).expect("good").mapv(f64::from);
        let want = oracle(&ideal(), &case.x, &case.m, &case.f);
        within(&got, &want, &p.bound(&case.x.exact(), &case.m, &f.tracked))?;
    }

    /// Errors of rows that are kept are kept.
    #[test]
    fn errors_go_with_their_rows(case in case()) {
        let with = |x: &Array2<f64>, e: f64, carried| {
            let certain = Array2::from_elem(x.dim(), e);
            Tracked { value: x.clone(), error: Some(ErrorBound { sigma: &certain / 2.0, certain, carried }) }
        };
        let bound = ideal().bound(&with(&case.x, 1.0, 1), &case.m, &with(&case.f, 2.0, 2));
        for ((i, _), e) in bound.certain.indexed_iter() {
            prop_assert_eq!(*e, if case.m[i] { 2.0 } else { 1.0 });
        }
        prop_assert_eq!((bound.carried, bound.sigma), (2, bound.certain / 2.0));
    }
}

/// 1.005 is not a bf16; the row that is kept is not rounded again.
#[test]
fn r1_rounds_the_features() {
    let p = MaskedScatter::under(&RoundingContract::EAGER_BF16);
    let y = oracle(&p, &array![[1.005], [2.0]], &[false, true], &array![[1.005]]);
    assert_eq!(y, array![[1.005], [Storage::Bf16.nearest(1.005)]]);
}

#[test]
fn nan_stays_visible() {
    let y = oracle(&ideal(), &array![[f64::NAN], [2.0]], &[false, true], &array![[f64::NAN]]);
    assert!(y.iter().all(|y| y.is_nan()));
}

#[test]
fn constraints() {
    let fails = |m: &[bool], f: (usize, usize)| {
        let x = Array2::<f64>::zeros((3, 2));
        masked_scatter(&ideal(), x.view(), m, Array2::zeros(f).view()).expect_err("against the contract").to_string()
    };
    assert_eq!(fails(&[true], (1, 2)), "masked_scatter C1: len(m) = 1, expected n = 3");
    assert_eq!(fails(&[true, false, false], (1, 3)), "masked_scatter C2: columns of f = 3, expected d = 2");
    let more = fails(&[true, true, false], (1, 2));
    assert_eq!(more, "masked_scatter C3: rows that are marked = 2, expected 1, the rows of f");
}
