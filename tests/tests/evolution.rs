//! `reference/src/evolution.rs`.

use proptest::prelude::*;
use reference::evolution::{Evolution, KeptFlag, THRESHOLD, is_kept};

/// The flags of a sequence of scores, and the state at the end: the number of the round that was kept last.
fn run(baseline: f64, threshold: f64, scores: &[f64], flag: KeptFlag) -> (Vec<bool>, Evolution<usize>) {
    let mut evolution = Evolution::of(0, baseline, threshold).expect("a number");
    let flags = (1..).zip(scores).map(|(round, &score)| evolution.judge(round, score, flag)).collect();
    (flags, evolution)
}

fn scores() -> impl Strategy<Value = Vec<f64>> {
    let score = prop_oneof![8 => -2.0..2.0, 1 => Just(f64::NAN), 1 => Just(f64::NEG_INFINITY)];
    prop::collection::vec(score, 0..40)
}

proptest! {
    /// What is kept rises by more than θ each time, and ends at the best.
    #[test]
    fn what_is_kept_is_monotone(baseline in -1.0..1.0, threshold in 0.0..0.3, scores in scores()) {
        let (flags, evolution) = run(baseline, threshold, &scores, KeptFlag::Decided);
        let kept: Vec<f64> = scores.iter().zip(&flags).filter(|(_, kept)| **kept).map(|(score, _)| *score).collect();
        let mut best = baseline;
        for score in kept {
            prop_assert!(score > best && score > best + threshold);
            best = score;
        }
        prop_assert_eq!(evolution.best(), best);
        // Nothing that was reverted was better than the end by more than θ.
        prop_assert!(scores.iter().all(|score| !is_kept(*score, best, threshold)));
    }

    /// A state is the candidate of the last round that was kept, whatever was tried and reverted after it.
    #[test]
    fn reverting_restores(baseline in -1.0..1.0, scores in scores()) {
        let (flags, evolution) = run(baseline, THRESHOLD, &scores, KeptFlag::Decided);
        let last = flags.iter().rposition(|kept| *kept).map_or(0, |round| round + 1);
        prop_assert_eq!(*evolution.state(), last);
        let alone: Vec<f64> = scores.iter().zip(&flags).filter(|(_, kept)| **kept).map(|(score, _)| *score).collect();
        prop_assert_eq!(run(baseline, THRESHOLD, &alone, KeptFlag::Decided).1.best(), evolution.best());
    }

    /// θ itself is not enough, and the next number above is.
    #[test]
    fn the_threshold_is_strict(best in -1.0..1.0, threshold in 0.0..0.3) {
        let edge: f64 = best + threshold;
        prop_assert!(!is_kept(edge, best, threshold) && is_kept(edge.next_up(), best, threshold));
    }
}

#[test]
fn what_is_no_number_is_never_kept() {
    let (flags, evolution) = run(1.0, THRESHOLD, &[f64::NAN, -f64::NAN], KeptFlag::Decided);
    assert_eq!((flags, evolution.best(), *evolution.state()), (vec![false, false], 1.0, 0));
}

/// Over the reals neither is above b + θ; in f64, 0.06 + 0.01 is below the nearest number to 0.07.
#[test]
fn at_the_threshold_the_rounding_decides() {
    assert!(!is_kept(0.51, 0.5, THRESHOLD));
    assert!(is_kept(0.07, 0.06, THRESHOLD));
}

/// The document's loop on its own rule: from 0.50, a round of 0.56 is kept, one of 0.565 is not, one of 0.60 is. Its listing
/// flags them inversely.
#[test]
fn doc003_bug() {
    let scores = [0.56, 0.565, 0.60, 0.40];
    let (decided, evolution) = run(0.5, THRESHOLD, &scores, KeptFlag::Decided);
    let (listed, other) = run(0.5, THRESHOLD, &scores, KeptFlag::Listing);
    assert_eq!(decided, [true, false, true, false]);
    assert_eq!(listed, [false, true, false, false]);
    assert_eq!(evolution, other);
    assert!((evolution.improvement().expect("of 0.5") - 0.2).abs() < 1e-12);
}

#[test]
fn an_improvement_on_nothing_is_none() {
    assert_eq!(run(0.0, THRESHOLD, &[1.0], KeptFlag::Decided).1.improvement(), None);
}

#[test]
fn c1_a_baseline_that_is_no_number() {
    let error = Evolution::of((), f64::NAN, THRESHOLD).expect_err("it is none");
    assert_eq!(error.to_string(), "evolution C1: s₀ = NaN, expected a number");
}

#[test]
fn c2_a_negative_threshold() {
    let error = Evolution::of((), 1.0, -0.5).expect_err("it is negative");
    assert_eq!(error.to_string(), "evolution C2: θ = -0.5, expected at least 0");
}
