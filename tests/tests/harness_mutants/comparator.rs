//! The comparator.

use ndarray::{Array2, ArrayView2, array, s};
use reference::Storage;
use reference::bound::ErrorBound;
use reference::compare::{Comparison, compare};

use super::{Check, demand};

/// A candidate, the reference, and how far a candidate may be from such a value.
type Comparator =
    dyn Fn(ArrayView2<'_, f64>, ArrayView2<'_, f64>, &dyn Fn(ArrayView2<'_, f64>) -> ErrorBound) -> Comparison;

const LAMBDA: f64 = 8.0;

fn real(
    c: ArrayView2<'_, f64>,
    r: ArrayView2<'_, f64>,
    bound: &dyn Fn(ArrayView2<'_, f64>) -> ErrorBound,
) -> Comparison {
    compare(c, r, &bound(r), Storage::Real, LAMBDA)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mutant {
    IgnoresNaN,
    DropsTheLastElement,
    DropsTheLastRow,
    ComparesMeans,
    SwapsOperands,
    ComparesMagnitudes,
    CosineAbove0999,
    TwiceTheBound,
    HundredTimesTheBound,
    NoSuspicion,
    PassesAnyInfinity,
}

const MUTANTS: [Mutant; 11] = [
    Mutant::IgnoresNaN,
    Mutant::DropsTheLastElement,
    Mutant::DropsTheLastRow,
    Mutant::ComparesMeans,
    Mutant::SwapsOperands,
    Mutant::ComparesMagnitudes,
    Mutant::CosineAbove0999,
    Mutant::TwiceTheBound,
    Mutant::HundredTimesTheBound,
    Mutant::NoSuspicion,
    Mutant::PassesAnyInfinity,
];

impl Mutant {
    fn compare(
        self,
        candidate: ArrayView2<'_, f64>,
        reference: ArrayView2<'_, f64>,
        bound: &dyn Fn(ArrayView2<'_, f64>) -> ErrorBound,
    ) -> Comparison {
        let (n, d) = reference.dim();
        let error = bound(reference);
        let with = |c: ArrayView2<'_, f64>, error: &ErrorBound| compare(c, reference, error, Storage::Real, LAMBDA);
        let part = |rows: usize, columns: usize| {
            let at = s![..rows, ..columns];
            let part = |x: &Array2<f64>| x.slice(at).to_owned();
            let error = ErrorBound { certain: part(&error.certain), sigma: part(&error.sigma), carried: 0 };
            compare(candidate.slice(at), reference.slice(at), &error, Storage::Real, LAMBDA)
        };
        let widened = |factor: f64| {
            with(candidate, &ErrorBound { certain: &error.certain * factor, sigma: &error.sigma * factor, carried: 0 })
        };
        // A figure of the whole decides: all elements are faults, or none.
        let as_a_whole = |passes: bool| {
            let found = with(reference, &error);
            if passes { found } else { Comparison { equal: 0, faults: n * d, ..found } }
        };
        let instead = |of: fn(f64) -> bool| {
            let mut patched = candidate.to_owned();
            patched.zip_mut_with(&reference, |c, &r| *c = if of(*c) { r } else { *c });
            with(patched.view(), &error)
        };
        match self {
            Mutant::IgnoresNaN => instead(f64::is_nan),
            Mutant::PassesAnyInfinity => instead(f64::is_infinite),
            Mutant::DropsTheLastElement => {
                let mut patched = candidate.to_owned();
                patched[[n - 1, d - 1]] = reference[[n - 1, d - 1]];
                with(patched.view(), &error)
            }
            Mutant::DropsTheLastRow => part(n - 1, d),
            Mutant::ComparesMeans => {
                let mean = |x: ArrayView2<'_, f64>| x.sum() / x.len() as f64;
                as_a_whole((mean(candidate) - mean(reference)).abs() <= mean(error.certain.view()))
            }
            Mutant::SwapsOperands => compare(reference, candidate, &bound(candidate), Storage::Real, LAMBDA),
            Mutant::ComparesMagnitudes => {
                compare(candidate.mapv(f64::abs).view(), reference.mapv(f64::abs).view(), &error, Storage::Real, LAMBDA)
            }
            Mutant::CosineAbove0999 => {
                let dot = |x: ArrayView2<'_, f64>, y: ArrayView2<'_, f64>| (&x * &y).sum();
                let lengths = (dot(candidate, candidate) * dot(reference, reference)).sqrt();
                as_a_whole(dot(candidate, reference) > 0.999 * lengths)
            }
            Mutant::TwiceTheBound => widened(2.0),
            Mutant::HundredTimesTheBound => widened(100.0),
            Mutant::NoSuspicion => Comparison { suspicious: 0, ..with(candidate, &error) },
        }
    }
}

/// Five values, of both signs, whose mean is 0.
fn reference() -> Array2<f64> {
    array![[4.0, -1.0], [1.0, -5.0], [3.0, -2.0]]
}

/// One rounding to bf16.
fn rounding(value: ArrayView2<'_, f64>) -> ErrorBound {
    ErrorBound::exact(value.dim()).rounded(value, Storage::Bf16)
}

/// What is found where one value is changed.
fn with(comparator: &Comparator, at: [usize; 2], change: fn(f64) -> f64) -> Comparison {
    let (mut candidate, reference) = (reference(), reference());
    candidate[at] = change(candidate[at]);
    comparator(candidate.view(), reference.view(), &rounding)
}

/// One fault there, and nothing else.
fn is_one_fault(comparator: &Comparator, at: [usize; 2], change: fn(f64) -> f64) -> bool {
    let found = with(comparator, at, change);
    let worst = found.worst.is_some_and(|worst| worst.at == (at[0], at[1]));
    (found.count, found.equal, found.faults, found.suspicious) == (6, 5, 1, 0) && worst
}

/// u of bf16.
const U: f64 = 1.0 / 256.0;

const CHECKS: [Check<Comparator>; 11] = [
    Check {
        name: "what is equal passes",
        holds: |comparator| {
            let found = with(comparator, [0, 0], |x| x);
            (found.count, found.equal, found.faults, found.suspicious) == (6, 6, 0, 0)
        },
    },
    Check {
        name: "what is within its bound passes",
        holds: |comparator| {
            let found = with(comparator, [1, 0], |x| x * (1.0 + 0.9 * U));
            (found.equal, found.faults, found.suspicious) == (5, 0, 0)
        },
    },
    Check { name: "NaN is a fault", holds: |comparator| is_one_fault(comparator, [1, 1], |_| f64::NAN) },
    Check { name: "an infinity is a fault", holds: |comparator| is_one_fault(comparator, [0, 1], |_| f64::INFINITY) },
    Check { name: "the last value counts", holds: |comparator| is_one_fault(comparator, [2, 1], |x| 2.0 * x) },
    Check {
        name: "every value of the last row counts",
        holds: |comparator| is_one_fault(comparator, [2, 0], |x| 2.0 * x),
    },
    Check { name: "a sign counts", holds: |comparator| is_one_fault(comparator, [0, 1], |x| -x) },
    Check {
        name: "two errors do not cancel",
        holds: |comparator| {
            let swapped = array![[-1.0, 4.0], [1.0, -5.0], [3.0, -2.0]];
            let found = comparator(swapped.view(), reference().view(), &rounding);
            (found.equal, found.faults) == (4, 2)
        },
    },
    Check {
        name: "half as much again as the bound is a fault",
        holds: |comparator| is_one_fault(comparator, [0, 0], |x| x * (1.0 + 1.5 * U)),
    },
    Check {
        name: "the bound is the reference's, and so is the reference",
        holds: |comparator| {
            // Within u of itself, not of the reference.
            let found = with(comparator, [1, 0], |x| x * (1.0 + U * (1.0 + U / 2.0)));
            let worst = found.worst.expect("there are values");
            found.faults == 1 && worst.reference == 1.0 && worst.candidate > 1.0 && worst.ratio < 1.0 + U
        },
    },
    Check {
        name: "what no independent roundings explain is suspicious",
        holds: |comparator| {
            let narrow = |value: ArrayView2<'_, f64>| {
                let error = rounding(value);
                ErrorBound { sigma: &error.certain / 100.0, ..error }
            };
            let mut candidate = reference();
            candidate[[1, 0]] += U / 2.0;
            let found = comparator(candidate.view(), reference().view(), &narrow);
            (found.faults, found.suspicious) == (0, 1)
        },
    },
];

#[test]
fn mistakes_in_the_comparator_are_found() {
    demand(&CHECKS[..], &real as &Comparator, &MUTANTS, |mutant| {
        Box::new(move |c, r, bound| mutant.compare(c, r, bound))
    });
}
