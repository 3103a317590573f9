//! `reference/src/compare.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use reference::Storage;
use reference::bound::ErrorBound;
use reference::compare::{Worst, compare, ratio};
use tests::strategy::{Fill, Matrix};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Whether one value passes, and whether it does so unsuspected.
fn passes(candidate: f64, reference: f64, bound: f64) -> bool {
    let error = ErrorBound { certain: array![[bound]], sigma: array![[bound]], carried: 0 };
    let found = compare(array![[candidate]].view(), array![[reference]].view(), &error, Storage::Real, 8.0);
    assert_eq!(found.count, 1);
    let worst = found.worst.expect("there is one element");
    assert_eq!(found.faults == 0, worst.ratio <= 1.0);
    assert_eq!(worst.ratio, ratio(candidate, reference, bound));
    assert!(!worst.ratio.is_nan() && worst.ratio >= 0.0);
    found.faults == 0
}

/// Candidate, reference, bound, verdict.
#[test]
fn special_values() {
    for (candidate, reference, bound, want) in [
        // NaN on any side fails, whatever the bound.
        (NAN, 1.0, 1.0, false),
        (1.0, NAN, 1.0, false),
        (NAN, NAN, 1.0, false),
        (NAN, NAN, INF, false),
        (NAN, INF, INF, false),
        (NAN, 0.0, 0.0, false),
        (1.0, 2.0, NAN, false),
        (NAN, NAN, NAN, false),
        (INF, 1.0, NAN, false),
        // An infinity passes against the same infinity only.
        (INF, INF, 0.0, true),
        (-INF, -INF, 1.0, true),
        (INF, INF, INF, true),
        (INF, INF, NAN, true),
        (INF, -INF, INF, false),
        (-INF, INF, 1.0, false),
        (INF, 1.0, INF, false),
        (INF, f64::MAX, INF, false),
        (1.0, INF, INF, false),
        (1.0, -INF, 1.0, false),
        // A bound of zero asks for equality, and zeros are equal.
        (1.0, 1.0, 0.0, true),
        (0.0, -0.0, 0.0, true),
        (1.0, 1.0_f64.next_up(), 0.0, false),
        (0.0, f64::from_bits(1), 0.0, false),
        // Equal values pass without a bound, but different ones do not with a negative bound.
        (1.0, 1.0, NAN, true),
        (1.0, 1.0, -1.0, true),
        (1.0, 1.5, -1.0, false),
        (1.5, 1.0, -INF, false),
        // A bound is reached, and not exceeded.
        (1.5, 1.0, 0.5, true),
        (0.5, 1.0, 0.5, true),
        (1.5_f64.next_up(), 1.0, 0.5, false),
        (1.0, 2.0, INF, true),
        // Neither are differences that overflow, or bounds among the subnormal numbers.
        (f64::MAX, -f64::MAX, f64::MAX, false),
        (f64::from_bits(3), f64::from_bits(1), f64::from_bits(2), true),
        (f64::from_bits(4), f64::from_bits(1), f64::from_bits(2), false),
    ] {
        assert_eq!(passes(candidate, reference, bound), want, "{candidate} against {reference} ± {bound}");
    }
}

proptest! {
    /// Element by element, and nothing else.
    #[test]
    fn counts_are_those_of_the_elements(n in 1..5_usize, d in 1..9_usize, seed in any::<u16>(), lambda in 0.0..9.0) {
        let seed = u64::from(seed);
        let [c, r, b] = [0, 1, 2].map(|i| Matrix::new((n, d), Fill::Whole, Storage::Bf16, 3 * seed + i).values());
        let error = ErrorBound { certain: b.mapv(f64::abs), sigma: b.mapv(|b| b.abs() / 8.0), carried: 0 };
        let found = compare(c.view(), r.view(), &error, Storage::Real, lambda);
        let off = (&c - &r).mapv(f64::abs);
        let count = |f: &dyn Fn((usize, usize)) -> bool| ndarray::indices((n, d)).into_iter().filter(|&i| f(i)).count();
        prop_assert_eq!(found.count, n * d);
        prop_assert_eq!(found.equal, count(&|i| c[i] == r[i]));
        prop_assert_eq!(found.faults, count(&|i| off[i] > error.certain[i]));
        prop_assert_eq!(found.suspicious, count(&|i| off[i] <= error.certain[i] && off[i] > lambda * error.sigma[i]));
        let worst = found.worst.expect("there are elements");
        let ratios = ndarray::indices((n, d)).into_iter().map(|i| ratio(c[i], r[i], error.certain[i]));
        prop_assert_eq!(worst.ratio, ratios.fold(0.0, f64::max));
        prop_assert_eq!((worst.candidate, worst.reference, worst.bound), (c[worst.at], r[worst.at], error.certain[worst.at]));
    }
}

/// The first of equals, row by row.
#[test]
fn the_worst_is_the_first_of_equals() {
    let (r, c) = (Array2::zeros((2, 2)), array![[0.0, 1.0], [-1.0, 1.0]]);
    let error = ErrorBound { certain: Array2::from_elem((2, 2), 2.0), sigma: Array2::zeros((2, 2)), carried: 0 };
    let found = compare(c.view(), r.view(), &error, Storage::Real, 8.0);
    assert_eq!(found.worst, Some(Worst { at: (0, 1), candidate: 1.0, reference: 0.0, bound: 2.0, ratio: 0.5 }));
    assert_eq!((found.equal, found.faults, found.suspicious), (1, 0, 3));
}

#[test]
fn a_nan_is_the_worst_of_all() {
    let (r, c) = (array![[1.0, 1.0, 1.0]], array![[9.0, NAN, INF]]);
    let error = ErrorBound { certain: array![[1.0, 1.0, 1.0]], sigma: array![[1.0, 1.0, 1.0]], carried: 0 };
    let found = compare(c.view(), r.view(), &error, Storage::Real, 8.0);
    assert_eq!((found.faults, found.worst.expect("faults").at), (3, (0, 1)));
}

#[test]
fn nothing_has_no_worst() {
    let none = Array2::zeros((0, 3));
    let found = compare(none.view(), none.view(), &ErrorBound::exact((0, 3)), Storage::Real, 8.0);
    assert_eq!((found.count, found.worst), (0, None));
}
