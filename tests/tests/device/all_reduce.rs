//! `optimized/kernels/all_reduce.cu` and `optimized/src/ops/all_reduce.rs`.

use half::bf16;
use ndarray::{Array2, Axis, Zip};
use optimized::device::Gpu;
use optimized::ops::all_reduce::{all_reduce, all_reduce_f32};
use optimized::tensor::Matrix;
use proptest::prelude::*;
use reference::ops::all_reduce as oracle;
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

/// y of all parts, on the device, with its padding checked.
fn run(gpu: &Gpu, parts: &[Array2<bf16>]) -> Array2<bf16> {
    let parts: Vec<Matrix<bf16>> = parts.iter().map(|part| gpu.upload(part.view()).expect("memory")).collect();
    let y = all_reduce(gpu, &parts.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
    let columns = y.dim().1;
    let y = gpu.download_padded(&y).expect("memory");
    let (inside, padding) = y.view().split_at(Axis(1), columns);
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Rounded at each sum of two, in the order of ranks: to the bit, and so within the bound.
    #[test]
    fn parts_are_added_rank_by_rank((n, d) in (1..6_usize, 1..2500_usize), ranks in 1..9_u64, seed: u64) {
        let parts: Vec<Array2<bf16>> = (0..ranks).map(|rank| activations(seed ^ rank, (n, d))).collect();
        let mut bits = parts[0].clone();
        for part in &parts[1..] {
            Zip::from(&mut bits).and(part).for_each(|y, &x| *y = bf16::from_f32(f32::from(*y) + f32::from(x)));
        }
        let exact: Vec<Tracked<f64>> = parts.iter().map(|part| Tracked::exact(wide(part))).collect();
        let p = |contract| oracle::AllReduce::under(contract);
        let want = oracle::all_reduce(&p(&RoundingContract::IDEAL), &exact).expect("one shape");
        let error = p(&RoundingContract::PARITY).bound(&exact);
        for gpu in devices() {
            let got = run(&gpu, &parts);
            prop_assert_eq!(&got, &bits, "{}", gpu.name());
            assert_within(&wide(&got), &want, &error, gpu.name());
        }
    }

    #[test]
    fn sums_in_f32_are_added_rank_by_rank(n in 1..200_usize, ranks in 1..65_u64, seed: u64) {
        let parts: Vec<Array2<f32>> =
            (0..ranks).map(|rank| activations(seed ^ rank, (n, 2)).mapv(f32::from)).collect();
        let want = parts[1..].iter().fold(parts[0].clone(), |sum, part| sum + part);
        for gpu in devices() {
            let parts: Vec<Matrix<f32>> = parts.iter().map(|part| gpu.upload(part.view()).expect("memory")).collect();
            let y = all_reduce_f32(&gpu, &parts.iter().collect::<Vec<_>>()).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(gpu.download(&y).expect("memory"), &want, "{}", gpu.name());
        }
    }
}

#[test]
fn infinite_and_undefined_parts_stay() {
    let row = |values: [f32; 3]| Array2::from_shape_fn((1, 3), |(_, j)| bf16::from_f32(values[j]));
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for gpu in devices() {
        let y = run(&gpu, &[row([inf, 1.0, inf]), row([1.0, nan, -inf]), row([1.0, 1.0, 1.0])]).mapv(f32::from);
        assert_eq!(y[[0, 0]], inf, "{}", gpu.name());
        assert!(y[[0, 1]].is_nan() && y[[0, 2]].is_nan(), "{}", gpu.name());
    }
}

#[test]
fn what_cannot_be_added_is_refused() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let said = |parts: &[&Matrix<bf16>]| all_reduce(&gpu, parts).expect_err("it cannot").to_string();
        assert_eq!(said(&[]), "all_reduce C1: R = 0, expected at least 1");
        assert_eq!(said(&[&zeros((2, 8)), &zeros((2, 9))]), "all_reduce C2: shape of a part = (2, 9), expected (2, 8)");
        let part = zeros((1, 1));
        assert_eq!(said(&vec![&part; 65]), "all_reduce K1: R = 65, expected at most 64");
    }
}
