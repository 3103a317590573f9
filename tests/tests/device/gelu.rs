//! `optimized/kernels/gelu.cu` and `optimized/src/ops/gelu.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::ops::gelu::gelu;
use proptest::prelude::*;
use reference::ops::gelu as oracle;
use reference::semantics::Gelu;
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

/// a of x, on the device, with its padding checked.
fn run(gpu: &Gpu, x: ArrayView2<'_, bf16>) -> Array2<bf16> {
    let a = gelu(gpu, Gelu::Erf, &gpu.upload(x).expect("memory")).unwrap_or_else(|error| panic!("{error}"));
    let a = gpu.download_padded(&a).expect("memory");
    let (inside, padding) = a.view().split_at(Axis(1), x.ncols());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

/// Every finite bf16, in rows that leave a remainder.
#[test]
fn every_value_is_within_the_bound() {
    let values = (0..=u16::MAX).map(bf16::from_bits).filter(|x| x.is_finite());
    let x: Vec<bf16> = values.chain([bf16::ONE]).collect();
    let columns = 85;
    let rows = x.len() / columns;
    let x = Array2::from_shape_vec((rows, columns), x[..rows * columns].to_vec()).expect("so many");
    let p = |contract| oracle::Gelu::under(contract, oracle::Share::Erf);
    let exact = Tracked::exact(wide(&x));
    let want = oracle::gelu(&p(&RoundingContract::IDEAL), exact.view());
    let error = p(&RoundingContract::PARITY).bound(&exact, &want);
    for gpu in devices() {
        assert_within(&wide(&run(&gpu, x.view())), &want, &error, gpu.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A row is the same in any matrix, whatever stands beside it.
    #[test]
    fn rows_do_not_see_each_other((n, d) in (2..6_usize, 1..2500_usize), seed: u64) {
        let mut x = activations(seed, (n, d));
        x.row_mut(0).fill(bf16::NAN);
        for gpu in devices() {
            let whole = run(&gpu, x.view());
            let last = run(&gpu, x.slice(s![n - 1.., ..]));
            prop_assert_eq!(last, whole.slice(s![n - 1.., ..]), "{}", gpu.name());
        }
    }
}

#[test]
fn far_from_zero_it_is_the_value_or_nothing() {
    let x = [0.0_f32, 8.0, 3e38, f32::INFINITY, -30.0, f32::NAN, f32::NEG_INFINITY].map(bf16::from_f32);
    let x = Array2::from_shape_vec((1, 7), x.to_vec()).expect("seven");
    for gpu in devices() {
        let a = run(&gpu, x.view());
        assert_eq!(a.slice(s![0, ..4]), x.slice(s![0, ..4]), "{}", gpu.name());
        assert_eq!(a[[0, 4]], bf16::ZERO, "{}", gpu.name());
        assert!(a[[0, 5]].is_nan() && a[[0, 6]].is_nan(), "{}: −∞ times nothing", gpu.name());
    }
}

#[test]
fn c1_the_approximation_is_not_implemented() {
    for gpu in devices() {
        let error = gelu(&gpu, Gelu::Tanh, &gpu.zeros((2, 8)).expect("memory")).expect_err("another variant");
        assert_eq!(error.to_string(), "gelu K2: gelu = tanh, expected erf");
    }
}
