//! Fourteen faults that any product of matrices may have, in each such operator, at three scales of its output, judged as
//! the local lens judges: by the operator's own bound. None is missed, and no right implementation is blamed.

mod kernel;
mod operator;

use reference::Storage;
use reference::bound::confidence;
use reference::compare::{Comparison, compare};

use kernel::{Fault, Kernel};
use operator::{Case, OPERATORS, Operator};

/// What outputs are multiplied by: as it comes, as of an expert's part, as of logits.
const SCALES: [i32; 3] = [0, -8, 6];

/// λ of the lens.
fn judge(case: &Case, kernel: Kernel) -> Comparison {
    let lambda = confidence(1 << 30, 1e-6);
    compare(case.computed(kernel).view(), case.want.view(), &case.error, Storage::Bf16, lambda)
}

fn is_seen(found: &Comparison) -> bool {
    found.faults + found.suspicious > 0
}

/// Why a fault is none, and cannot be seen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Invisible {
    /// The truncating store of an f32 is given an f32: it changes nothing.
    NothingToTruncate,
    /// What truncation adds to the rounding of a sum of experts, at most u·|y|, rounding their outputs may add, too:
    /// u·Σ|w·e|. Where the outputs are shown, as to [`Operator::Combine`], it is seen.
    WithinTheRoundingOfOutputs,
}

fn invisible(operator: Operator, fault: Fault) -> Option<Invisible> {
    match (operator, fault) {
        (Operator::Router | Operator::TokenScores, Fault::Truncated) => Some(Invisible::NothingToTruncate),
        (Operator::DownAndCombine, Fault::Truncated) => Some(Invisible::WithinTheRoundingOfOutputs),
        _ => None,
    }
}

/// Proves it, from what the fault changes in a right kernel's result.
fn prove(why: Invisible, case: &Case, kernel: Kernel) {
    let (changed, right) = (case.computed(kernel), case.computed(Kernel::right(kernel.order)));
    match why {
        Invisible::NothingToTruncate => assert_eq!(changed, right),
        Invisible::WithinTheRoundingOfOutputs => {
            let sizes = case.sizes();
            for (at, right) in right.indexed_iter() {
                let roundings = Storage::Bf16.rounding_error(right.abs()) + Storage::Bf16.rounding_error(sizes[at]);
                assert!((changed[at] - right).abs() <= roundings, "{at:?}: {} of {right}", changed[at]);
            }
            assert_ne!(changed, right, "it truncates something");
        }
    }
}

#[test]
fn every_fault_is_seen_in_every_operator_at_every_scale() {
    let mut missed = Vec::new();
    for (operator, scale) in cases() {
        let case = Case::new(operator, scale, 1);
        for (order, fault) in
            case.orders().into_iter().rev().step_by(3).flat_map(|order| Fault::ALL.map(|fault| (order, fault)))
        {
            let kernel = Kernel { order, fault: Some(fault) };
            if let Some(why) = invisible(operator, fault) {
                prove(why, &case, kernel);
            } else if !is_seen(&judge(&case, kernel)) {
                missed.push(format!("{operator:?} × 2^{scale}, {order:?}: {fault:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn no_right_implementation_is_blamed() {
    for (operator, scale) in cases() {
        for seed in 1..4 {
            let case = Case::new(operator, scale, seed);
            for order in case.orders() {
                let found = judge(&case, Kernel::right(order));
                assert!(!is_seen(&found), "{operator:?} × 2^{scale}, seed {seed}, {order:?}: {found:?}");
            }
        }
    }
}

/// Scales are powers of two, so that a fault is as large in every one: what changes is what gates with a fixed tolerance
/// make of it.
#[test]
fn bounds_scale_with_the_output() {
    for operator in OPERATORS {
        let [one, small, large] = SCALES.map(|scale| Case::new(operator, scale, 1));
        for (other, scale) in [(small, SCALES[1]), (large, SCALES[2])] {
            let factor = 2.0_f64.powi(scale);
            assert_eq!(&one.want * factor, other.want, "{operator:?}");
            let ratio = other.error.certain.sum() / one.error.certain.sum() / factor;
            assert!((ratio - 1.0).abs() < 1e-9, "{operator:?}: {ratio}");
        }
    }
}

fn cases() -> impl Iterator<Item = (Operator, i32)> {
    OPERATORS.into_iter().flat_map(|operator| SCALES.map(|scale| (operator, scale)))
}
