//! `optimized/kernels/linear_bias.cu` and `optimized/src/ops/linear_bias.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::ops::linear_bias::{linear_bias, linear_bias_tiled};
use proptest::prelude::*;
use reference::ops::linear_bias as oracle;
use reference::ops::linear_bias::LinearBias;
use reference::{RoundingContract, Storage, Tracked, matrix};
use tests::bounds::{assert_within, wide};
use tests::cuts::tilings;
use tests::device::devices;
use tests::values::{activations, whole_numbers};

/// y of x, w and b, on the device, with its padding checked.
fn run(gpu: &Gpu, tiling: Tiling, [x, w, b]: [ArrayView2<'_, bf16>; 3]) -> Array2<bf16> {
    let device = || -> Result<Array2<bf16>, Error> {
        let y = linear_bias_tiled(gpu, tiling, &gpu.upload(x)?, &gpu.upload(w)?, &gpu.upload(b)?)?;
        gpu.download_padded(&y)
    };
    let y = device().unwrap_or_else(|error| panic!("{} {tiling:?}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(Axis(1), w.nrows());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{} {tiling:?}: the padding is zero", gpu.name());
    inside.to_owned()
}

fn bits(y: ArrayView2<'_, bf16>) -> Array2<u16> {
    y.mapv(bf16::to_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn it_is_within_the_bound((n, m, k) in (1..40_usize, 1..150_usize, 1..700_usize), seed: u64) {
        let (x, w, b) = (activations(seed, (n, k)), activations(!seed, (m, k)), activations(seed ^ 1, (1, m)));
        let stored = matrix::Matrix::stored(wide(&w).view(), Storage::Bf16);
        let (exact, bias) = (Tracked::exact(wide(&x)), wide(&b));
        let ideal = LinearBias::under(&RoundingContract::IDEAL);
        let want = oracle::linear_bias(&ideal, exact.view(), &stored, bias.row(0)).expect("shapes fit");
        let error = LinearBias::under(&RoundingContract::PARITY).bound(&exact, &stored, bias.row(0), &want);
        for gpu in devices() {
            for tiling in tilings(&gpu, n) {
                let got = run(&gpu, tiling, [x.view(), w.view(), b.view()]);
                assert_within(&wide(&got), &want, &error, &format!("{} {tiling:?} {n} {m} {k}", gpu.name()));
            }
        }
    }

    /// It is `linear`'s sum in f32 plus b, rounded once, to the bit; so with a b of zeros it is `linear`.
    #[test]
    fn it_is_the_sum_of_linear_and_b((n, m, k) in (1..20_usize, 1..150_usize, 1..1200_usize), seed: u64) {
        let (x, w, b) = (activations(seed, (n, k)), activations(!seed, (m, k)), activations(seed ^ 1, (1, m)));
        let none = Array2::from_elem((1, m), bf16::ZERO);
        for gpu in devices() {
            for tiling in tilings(&gpu, n) {
                let (on_x, on_w) = (gpu.upload(x.view()).expect("memory"), gpu.upload(w.view()).expect("memory"));
                let sums = linear_tiled::<f32>(&gpu, tiling, &on_x, &on_w).expect("shapes fit");
                let sums: Array2<f32> = gpu.download(&sums).expect("memory");
                let want = (sums.clone() + b.mapv(f32::from)).mapv(bf16::from_f32);
                let got = run(&gpu, tiling, [x.view(), w.view(), b.view()]);
                prop_assert_eq!(bits(got.view()), bits(want.view()), "{} {:?}", gpu.name(), tiling);
                let without = run(&gpu, tiling, [x.view(), w.view(), none.view()]);
                prop_assert_eq!(&without, &sums.mapv(bf16::from_f32), "{} {:?}", gpu.name(), tiling);
            }
        }
    }

    /// A row's bits depend neither on the tiling nor on the rows beside it, whatever these are.
    #[test]
    fn rows_do_not_see_each_other((n, m, k) in (2..17_usize, 1..100_usize, 1..1200_usize), first in 1..16_usize, seed: u64) {
        let (mut x, w, b) = (activations(seed, (n, k)), activations(!seed, (m, k)), activations(seed ^ 1, (1, m)));
        let first = 1 + first % (n - 1);
        x.slice_mut(s![..first, ..]).fill(bf16::NAN);
        for gpu in devices() {
            let whole = run(&gpu, Tiling::FewRows, [x.view(), w.view(), b.view()]);
            for tiling in tilings(&gpu, 1) {
                let part = run(&gpu, tiling, [x.slice(s![first.., ..]), w.view(), b.view()]);
                prop_assert_eq!(bits(part.view()), bits(whole.slice(s![first.., ..])), "{} {:?}", gpu.name(), tiling);
            }
        }
    }
}

/// With whole numbers up to 256 the result is exact in any order, and in bf16.
#[test]
fn whole_numbers_are_exact() {
    let (x, w, b) = (whole_numbers(1, (9, 5), 5), whole_numbers(2, (70, 5), 5), whole_numbers(3, (1, 70), 100));
    let want = wide(&x).dot(&wide(&w).t()) + wide(&b);
    for gpu in devices() {
        for tiling in tilings(&gpu, 1) {
            assert_eq!(wide(&run(&gpu, tiling, [x.view(), w.view(), b.view()])), want, "{} {tiling:?}", gpu.name());
        }
    }
}

/// 16·16 + 1·1.5 + 1 is 258.5, in bf16 258. Were 257.5 rounded first, to 258, the sum would be 259, and in bf16 260.
#[test]
fn r1_rounds_once_after_the_bias() {
    let of = |values: &[f32]| {
        let values: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
        Array2::from_shape_vec((1, values.len()), values).expect("one row")
    };
    let (x, w, b) = (of(&[16.0, 1.0]), of(&[16.0, 1.5]), of(&[1.0]));
    for gpu in devices() {
        for tiling in tilings(&gpu, 1) {
            assert_eq!(run(&gpu, tiling, [x.view(), w.view(), b.view()]), of(&[258.0]), "{} {tiling:?}", gpu.name());
        }
    }
}

/// A value of b that is not finite shows in its column, and nowhere else.
#[test]
fn what_is_not_finite_in_b_is_seen_in_its_column() {
    let (x, w, mut b) = (activations(1, (5, 70)), activations(2, (67, 70)), activations(3, (1, 67)));
    (b[[0, 66]], b[[0, 3]]) = (bf16::NAN, bf16::INFINITY);
    for gpu in devices() {
        for tiling in tilings(&gpu, 1) {
            let y = run(&gpu, tiling, [x.view(), w.view(), b.view()]);
            for ((_, j), y) in y.indexed_iter() {
                assert_eq!(y.is_finite(), j != 66 && j != 3, "{} {tiling:?} column {j}", gpu.name());
            }
        }
    }
}

#[test]
fn c1_a_bias_of_another_width_and_rows_of_different_width() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let refused = |w, b| linear_bias(&gpu, &zeros((2, 8)), &zeros(w), &zeros(b)).expect_err("no fit").to_string();
        assert_eq!(refused((3, 8), (1, 4)), "linear_bias C1: len(b) = 4, expected m = 3");
        assert_eq!(refused((3, 9), (1, 3)), "linear C2: columns of w = 9, expected k = 8");
    }
}
