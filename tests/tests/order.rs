//! Sums in a fixed order, against other implementations of the same order.

use half::bf16;
use ndarray::Array2;
use proptest::prelude::*;
use reference::accumulator::{Accumulator, TensorCore};
use reference::order::{Lanes, Order};
use reference::{RoundingContract, Storage};
use tests::tensor_core;
use tests::values::Draw;

/// Our kernels' tensor core.
fn core() -> TensorCore {
    match RoundingContract::PARITY.accumulator {
        Accumulator::TensorCore(core) => core,
        other => panic!("{other} is no tensor core"),
    }
}

/// Σ aₖbₖ.
fn dot(core: TensorCore, a: &[bf16], b: &[bf16]) -> f32 {
    let row = |x: &[bf16]| Array2::from_shape_fn((1, x.len()), |(_, k)| x[k].to_f32());
    Order::Steps(core).product(row(a).view(), row(b).t()).expect("the order is fixed")[[0, 0]]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The definition in whole numbers has the same bits, whatever the exponents.
    #[test]
    fn a_tensor_cores_steps_are_those_of_its_definition(k in 0..1300_usize, spread in 0..120_u64, seed: u64) {
        let mut draw = Draw::new(seed);
        let mut factors = || -> Vec<bf16> {
            let exponent = |draw: &mut Draw| i32::try_from(draw.below(spread + 1)).expect("small") - 60;
            (0..k).map(|_| bf16::from_f32(draw.signed_unit() * 2.0_f32.powi(exponent(&mut draw)))).collect()
        };
        let (a, b) = (factors(), factors());
        prop_assert_eq!(dot(core(), &a, &b).to_bits(), tensor_core::dot(&a, &b).to_bits());
        let unpromoted = TensorCore { promote: None, ..core() };
        prop_assert_eq!(dot(unpromoted, &a, &b).to_bits(), tensor_core::chain(&a, &b).to_bits());
    }

    /// Any bits: subnormal numbers, both ends of the range, infinities, NaN.
    #[test]
    fn so_are_those_of_any_bits(k in 1..40_usize, seed: u64) {
        let mut draw = Draw::new(seed);
        let mut factors = || -> Vec<bf16> { (0..k).map(|_| bf16::from_bits(draw.bits16())).collect() };
        let (a, b) = (factors(), factors());
        let (got, want) = (dot(core(), &a, &b), tensor_core::dot(&a, &b));
        prop_assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{got:e} against {want:e}");
    }
}

/// Terms 0 to 9, two to a lane of four: lane 0 has 0, 1, 8 and 9; lanes 0 and 2 are added first, then 1 and 3.
#[test]
fn lanes_take_vectors_and_are_added_in_pairs() {
    let terms: Vec<f32> = (0..10).map(|i| 1.0 + 0.1_f32.powi(i)).collect();
    let order = Order::Lanes(Lanes { count: 4, vector: 2 });
    let lane = |own: &[usize]| own.iter().fold(0.0_f32, |sum, &i| sum + terms[i]);
    let want = (lane(&[0, 1, 8, 9]) + lane(&[4, 5])) + (lane(&[2, 3]) + lane(&[6, 7]));
    assert_eq!(order.sum(10, |sum: f32, i| sum + terms[i]).to_bits(), want.to_bits());
}

/// 64 lanes are two warps, added one after the other; 2²⁴ swallows the ones that come after it one by one.
#[test]
fn warps_are_added_upward() {
    let order = Order::Lanes(Lanes { count: 64, vector: 1 });
    let terms: Vec<f32> = (0..64).map(|i| if i == 0 { 16_777_216.0 } else { 1.0 }).collect();
    let sum = |order: Order| order.sum(64, |sum: f32, i| sum + terms[i]);
    assert_eq!(sum(order), 16_777_216.0 + 30.0 + 32.0);
    assert_eq!(sum(Order::Any), 16_777_216.0);
}

#[test]
fn a_contract_of_unknown_sums_fixes_no_order() {
    let fixed = |contract: RoundingContract| contract.ordered().is_some();
    assert!(fixed(RoundingContract::PARITY));
    for contract in [
        RoundingContract::FUSED,
        RoundingContract::EAGER_BF16,
        RoundingContract { accumulator: Accumulator::HOPPER, ..RoundingContract::PARITY },
    ] {
        assert!(!fixed(contract), "{contract}");
    }
    let ordered = RoundingContract::PARITY.ordered().expect("it is fixed");
    assert_eq!(ordered.products(), Order::Steps(core()));
    assert_eq!(RoundingContract::PARITY.products(), Order::Any);
    assert_eq!(ordered.stored().round(1.0 + 1.0 / 256.0), Storage::Bf16.nearest(1.0 + 1.0 / 256.0));
}
