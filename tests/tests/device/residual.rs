//! `optimized/kernels/residual.cu` and `optimized/src/ops/residual.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis};
use optimized::device::Gpu;
use optimized::ops::residual::residual;
use proptest::prelude::*;
use reference::ops::residual as oracle;
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

/// y of x and f, on the device, with its padding checked.
fn run(gpu: &Gpu, x: ArrayView2<'_, bf16>, f: ArrayView2<'_, bf16>) -> Array2<bf16> {
    let [on_device, branch] = [x, f].map(|values| gpu.upload(values).expect("memory"));
    let y = residual(gpu, &on_device, &branch).unwrap_or_else(|error| panic!("{error}"));
    let y = gpu.download_padded(&y).expect("memory");
    let (inside, padding) = y.view().split_at(Axis(1), x.ncols());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_value_is_within_the_bound((n, d) in (1..6_usize, 1..2500_usize), seed: u64) {
        let (x, f) = (activations(seed, (n, d)), activations(seed ^ 1, (n, d)));
        let p = |contract| oracle::Residual::under(contract);
        let exact = [&x, &f].map(|values| Tracked::exact(wide(values)));
        let want = oracle::residual(&p(&RoundingContract::IDEAL), exact[0].view(), exact[1].view()).expect("good");
        let error = p(&RoundingContract::PARITY).bound(&exact[0], &exact[1], &want);
        for gpu in devices() {
            assert_within(&wide(&run(&gpu, x.view(), f.view())), &want, &error, gpu.name());
        }
    }

    /// A thread that adds what is not its own would be seen: sums of small whole numbers are exact.
    #[test]
    fn whole_numbers_add_exactly((n, d) in (1..4_usize, 1..700_usize)) {
        let x = Array2::from_shape_fn((n, d), |(i, j)| bf16::from_f32(((i * 31 + j * 7) % 64) as f32));
        let f = Array2::from_shape_fn((n, d), |(i, j)| bf16::from_f32(((i * 13 + j * 3) % 64) as f32));
        let want = ndarray::Zip::from(&x).and(&f).map_collect(|x, f| bf16::from_f32(f32::from(*x) + f32::from(*f)));
        for gpu in devices() {
            prop_assert_eq!(run(&gpu, x.view(), f.view()), want.clone(), "{}", gpu.name());
        }
    }
}

#[test]
fn special_values_add_as_in_f32() {
    let row = |values: [f32; 6]| Array2::from_shape_fn((1, 6), |(_, j)| bf16::from_f32(values[j]));
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let (x, f) = (row([inf, inf, nan, 3.0e38, 1.0, -0.0]), row([1.0, -inf, 0.0, 3.0e38, -1.0, -0.0]));
    for gpu in devices() {
        let y = run(&gpu, x.view(), f.view()).mapv(f32::from);
        assert_eq!((y[[0, 0]], y[[0, 3]], y[[0, 4]], y[[0, 5]]), (inf, inf, 0.0, 0.0), "{}", gpu.name());
        assert!(y[[0, 1]].is_nan() && y[[0, 2]].is_nan(), "{}", gpu.name());
    }
}

#[test]
fn c1_shapes_are_equal() {
    for gpu in devices() {
        let [x, f] = [(2, 8), (2, 9)].map(|dim| gpu.zeros(dim).expect("memory"));
        let error = residual(&gpu, &x, &f).expect_err("another shape");
        assert_eq!(error.to_string(), "residual C1: shape of f = (2, 9), expected (2, 8)");
    }
}
