//! `reference/src/accumulator.rs`, and the simulated devices that the operators' bounds are held against.

mod devices;

use proptest::prelude::*;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::Real;
use reference::Storage;
use reference::accumulator::{Accumulator, TensorCore, gamma};
use reference::storage::Mode;
use tests::simulated::Order;
use tests::strategy::{Matrix, matrix};

const HOPPER: TensorCore = TensorCore { k: 16, fraction: 25, result: 23, promote: Some(512) };

/// Two vectors of bf16, whose products are exact in f32.
fn vectors() -> impl Strategy<Value = (Matrix, Matrix)> {
    (1..700_usize).prop_flat_map(|k| (matrix((1, k), Storage::Bf16), matrix((1, k), Storage::Bf16)))
}

fn cores() -> impl Strategy<Value = TensorCore> {
    (2..6_u32, 13..28, 13..24, prop::option::of(4..10_u32)).prop_map(|(k, fraction, result, promote)| TensorCore {
        k: 1 << k,
        fraction,
        result,
        promote: promote.map(|promote| 1 << promote),
    })
}

/// Σ aₖbₖ and Σ |aₖbₖ|, in f64.
fn exact(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = || a.iter().zip(b).map(|(a, b)| a.wide() * b.wide());
    (products().sum(), products().map(f64::abs).sum())
}

/// What f64 leaves of a sum of that absolute value, and what f32 flushes.
fn slack(terms: usize, absolute: f64) -> f64 {
    gamma(terms, f64::UNIT_ROUNDOFF) * absolute + terms as f64 * Accumulator::F32.smallest_normal()
}

proptest! {
    #[test]
    fn every_order_keeps_the_certain_bound((a, b) in vectors(), core in cores(), seed in any::<u64>()) {
        let (a, b) = (a.f32().into_raw_vec_and_offset().0, b.f32().into_raw_vec_and_offset().0);
        let (sum, absolute) = exact(&a, &b);
        let check = |order: Order, accumulator: Accumulator| {
            let limit = accumulator.certain(a.len()) * absolute + slack(a.len(), absolute);
            let off = (order.dot(&a, &b).wide() - sum).abs();
            prop_assert!(off <= limit, "{:?}: {} > {}", order, off, limit);
            Ok(())
        };
        for order in Order::ROUNDING.into_iter().chain([Order::Shuffled(seed), Order::Blocked(33)]) {
            check(order, Accumulator::F32)?;
        }
        for core in [core, HOPPER] {
            check(Order::TensorCore(core), Accumulator::TensorCore(core))?;
        }
    }

    /// No more terms, no more error; and never less than an f64's.
    #[test]
    fn certain_grows_with_the_terms(terms in 1..5000_usize, core in cores()) {
        for accumulator in [Accumulator::F64, Accumulator::F32, Accumulator::TensorCore(core)] {
            prop_assert!(accumulator.certain(terms) <= accumulator.certain(terms + 1));
            prop_assert!(accumulator.certain(terms) >= Accumulator::F64.certain(terms));
        }
    }

    /// Bits kept below the largest addend, bits of the result, and more frequent additions to nearest all help.
    #[test]
    fn a_better_tensor_core_has_a_lower_bound(terms in 1..5000_usize, core in cores()) {
        let certain = |core| Accumulator::TensorCore(core).certain(terms);
        let more = [TensorCore { fraction: core.fraction + 1, ..core }, TensorCore { result: core.result + 1, ..core }];
        prop_assert!(more.into_iter().all(|more| certain(more) < certain(core)));
    }

    #[test]
    fn names_parse_and_print(core in cores()) {
        for accumulator in [Accumulator::F64, Accumulator::F32, Accumulator::TensorCore(core)] {
            prop_assert_eq!(accumulator.to_string().parse(), Ok(accumulator));
        }
    }
}

/// γₙ = nu / (1 − nu).
#[test]
fn gamma_by_hand() {
    assert_eq!(gamma(1, 0.25), 0.25 / 0.75);
    assert_eq!(gamma(2, 0.25), 1.0);
    assert_eq!(gamma(0, 0.25), 0.0);
    assert_eq!(Accumulator::F32.certain(100), gamma(100, 2.0_f64.powi(-24)));
    assert_eq!(Accumulator::F64.certain(100), gamma(100, 2.0_f64.powi(-53)));
}

/// One step of 16 products: 17 addends cut at 2⁻²⁵ of the largest, the result at 2⁻²³, to first order; then one addition
/// to f32. Of 600 products the first 512 are 32 steps, and two chunks are added.
#[test]
fn a_tensor_core_by_hand() {
    let step = 17.0 * 2.0_f64.powi(-25) + 2.0_f64.powi(-23);
    for (terms, steps, chunks) in [(1, 1.0, 1), (16, 1.0, 1), (17, 2.0, 1), (512, 32.0, 1), (600, 32.0, 2)] {
        let chain = (1.0_f64 + step).powf(steps) - 1.0;
        let want = (1.0 + chain) * (1.0 + gamma(chunks, f32::UNIT_ROUNDOFF)) - 1.0;
        let c = Accumulator::HOPPER_512.certain(terms);
        assert!((c - want).abs() <= 4.0 * f64::UNIT_ROUNDOFF, "{terms}: {c} {want}");
    }
}

/// Each product is a little more than half an ulp of the sum.
#[test]
fn the_bound_of_f32_is_reached() {
    let a: Vec<f32> =
        std::iter::once(1.0).chain((1..1024).map(|_| f32::of(2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20))))).collect();
    let b = vec![1.0; a.len()];
    let (sum, absolute) = exact(&a, &b);
    let ratio = (Order::Sequential.dot(&a, &b).wide() - sum).abs() / (Accumulator::F32.certain(1024) * absolute);
    assert!((0.99..=1.0).contains(&ratio), "{ratio}");
}

/// Every product just below the last bit that is kept; with F = 25 and f = 23, 16 of 21 possible losses a step.
#[test]
fn the_bound_of_a_tensor_core_is_reached() {
    let lost = f32::of(2.0_f64.powi(-25) * (1.0 - 2.0_f64.powi(-8)));
    let a: Vec<f32> = std::iter::once(1.0).chain((1..512).map(|_| lost)).collect();
    let b = vec![1.0; a.len()];
    let (sum, absolute) = exact(&a, &b);
    let off = sum - Order::TensorCore(HOPPER).dot(&a, &b).wide();
    let ratio = off / (Accumulator::HOPPER_512.certain(512) * absolute);
    assert!((0.75..=1.0).contains(&ratio), "{ratio}");
}

/// Where one addend dominates all steps, chunks that start anew lose less: the promotion is seen.
#[test]
fn a_promotion_starts_anew() {
    let without = TensorCore { promote: None, ..HOPPER };
    let a: Vec<f32> = (0..4096).map(|i| if i == 0 { 1.0 } else { f32::of(2.0_f64.powi(-26)) }).collect();
    let b = vec![1.0; a.len()];
    let sum = |core| Order::TensorCore(core).dot(&a, &b).wide();
    assert_eq!(sum(without), 1.0);
    assert!(sum(HOPPER) > 1.0 && sum(HOPPER) <= exact(&a, &b).0);
}

/// On positive data truncation has one sign: a tensor core's sums are too small, always, and no law with √n holds.
#[test]
fn a_tensor_core_has_no_variance() {
    assert_eq!(Accumulator::HOPPER_512.variance(100), None);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..50 {
        let a: Vec<f32> = (0..512).map(|_| f32::of(rng.random_range(0.5..1.0))).collect();
        let b: Vec<f32> = a.iter().rev().copied().collect();
        assert!(Order::TensorCore(HOPPER).dot(&a, &b).wide() <= exact(&a, &b).0);
    }
}

/// The measured variance over orders of summation is below v·(Σ(ab)² + s²), and not by more than a hundred times: signed
/// and positive data, short and long.
#[test]
fn the_variance_is_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (terms, positive) in [(16, false), (16, true), (400, false), (400, true)] {
        let mut products: Vec<f32> =
            (0..terms).map(|_| f32::of(rng.random_range(if positive { 0.0 } else { -1.0 }..1.0))).collect();
        let (sum, _) = exact(&products, &vec![1.0; terms]);
        let squares: f64 = products.iter().map(|p| p.wide() * p.wide()).sum();
        let mut variance = 0.0;
        for _ in 0..1000 {
            products.shuffle(&mut rng);
            variance += (products.iter().fold(0.0_f32, |sum, p| sum + p).wide() - sum).powi(2) / 1000.0;
        }
        let stated = Accumulator::F32.variance(terms).expect("to nearest") * (squares + sum * sum);
        let ratio = variance / stated;
        assert!((0.01..=1.0).contains(&ratio), "{terms} {positive}: {ratio}");
    }
}

/// Uniform with the stated variance, a function of seed and value, and nothing at all where nothing is drawn.
#[test]
fn draws_have_the_stated_variance() {
    let draw = |accumulator: Accumulator, mode, y| accumulator.drawn(mode, 100, 50.0, y);
    assert_eq!(draw(Accumulator::F32, Mode::Nearest, 3.0), 3.0);
    assert_eq!(draw(Accumulator::F64, Mode::Stochastic(1), 3.0), 3.0);
    for accumulator in [Accumulator::F32, Accumulator::HOPPER_512] {
        let off: Vec<f64> = (0..4000).map(|seed| draw(accumulator, Mode::Stochastic(seed), 3.0) - 3.0).collect();
        assert_eq!(off[7], draw(accumulator, Mode::Stochastic(7), 3.0) - 3.0);
        let stated = Accumulator::F32.variance(100).expect("to nearest") * (50.0 + 9.0);
        let (mean, variance) = (off.iter().sum::<f64>() / 4000.0, off.iter().map(|x| x * x).sum::<f64>() / 4000.0);
        // A mean of n draws is off by σ/√n; their mean square by σ²·√(4/5n), the fourth moment being 9/5·σ⁴. Six of each.
        assert!(mean.abs() <= 6.0 * (stated / 4000.0).sqrt());
        assert!((variance / stated - 1.0).abs() <= 6.0 * (0.8_f64 / 4000.0).sqrt(), "{}", variance / stated);
        assert!(off.iter().all(|x| x * x <= 3.0 * stated * (1.0 + 1e-9)));
    }
}

#[test]
fn flushes_by_hand() {
    assert_eq!(Accumulator::F64.smallest_normal(), 2.0_f64.powi(-1022));
    for accumulator in [Accumulator::F32, Accumulator::HOPPER_512] {
        assert_eq!(accumulator.smallest_normal(), 2.0_f64.powi(-126));
    }
}

#[test]
fn words_that_are_none() {
    for word in
        ["", "f16", "tensor:", "tensor:16:25", "tensor:0:25:23:512", "tensor:16:25:23:512:1", "tensor:a:25:23:512"]
    {
        let err = word.parse::<Accumulator>().expect_err("not an accumulator").to_string();
        let names = "unknown, f64, f32, avx512_bf16, hopper, hopper_512, ampere, ada, turing, volta, blackwell, hopper_fp8, \
                     hopper_fp8_128, hopper_fp8_mma, ada_fp8";
        let want = format!("accumulator = {word:?}, expected {names} or tensor:K:FRACTION:RESULT[:PROMOTE]");
        assert_eq!(err, want);
    }
}
