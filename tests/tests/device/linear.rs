//! `optimized/kernels/linear.cu` and `optimized/src/ops/linear.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::linear::{Output, Tiling, linear, linear_tiled};
use proptest::prelude::*;
use reference::accumulator::{Accumulator, TensorCore};
use reference::matrix::{Encoding, Matrix};
use reference::ops::linear::Linear;
use reference::{Rounding, RoundingContract};
use tests::device::devices;
use tests::tensor_core::dot;
use tests::values::{Draw, activations, whole_numbers};

const TILINGS: [Tiling; 3] = [Tiling::Small, Tiling::Large, Tiling::FewRows];

/// y of x and w, on the device, with its padding checked.
fn run<T: Output>(gpu: &Gpu, tiling: Tiling, x: ArrayView2<'_, bf16>, w: ArrayView2<'_, bf16>) -> Array2<T> {
    let device = || -> Result<Array2<T>, Error> {
        let y = linear_tiled(gpu, tiling, &gpu.upload(x)?, &gpu.upload(w)?)?;
        gpu.download_padded(&y)
    };
    let y = device().unwrap_or_else(|error| panic!("{} {tiling:?}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(ndarray::Axis(1), w.nrows());
    assert!(padding.iter().all(|&value| value == T::default()), "{} {tiling:?}: the padding is zero", gpu.name());
    inside.to_owned()
}

/// Bits, so that NaN equals itself and −0 is not 0.
fn bits(y: &Array2<f32>) -> Array2<u32> {
    y.mapv(f32::to_bits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// With whole numbers the result is exact in any order, so it is known without a model.
    #[test]
    fn whole_numbers_are_exact((n, m, k) in (1..40_usize, 1..150_usize, 1..700_usize), seed: u64) {
        let (x, w) = (whole_numbers(seed, (n, k), 7), whole_numbers(!seed, (m, k), 7));
        let want = x.mapv(f64::from).dot(&w.mapv(f64::from).t());
        for gpu in devices() {
            for tiling in TILINGS.into_iter().filter(|&tiling| tiling != Tiling::FewRows || n <= 16) {
                let y = run::<f32>(&gpu, tiling, x.view(), w.view());
                prop_assert_eq!(&y.mapv(f64::from), &want, "{} {:?}", gpu.name(), tiling);
            }
        }
    }

    /// A row's bits do not depend on the tiling, nor on the rows beside it.
    #[test]
    fn rows_do_not_see_each_other(
        (n, m, k) in (1..17_usize, 1..100_usize, 1..1200_usize),
        first in 0..16_usize,
        seed: u64,
    ) {
        let (x, w) = (activations(seed, (n, k)), activations(!seed, (m, k)));
        let first = first % n;
        for gpu in devices() {
            let whole = bits(&run(&gpu, Tiling::FewRows, x.view(), w.view()));
            for tiling in TILINGS {
                let part = bits(&run(&gpu, tiling, x.slice(s![first.., ..]), w.view()));
                prop_assert_eq!(&part, &whole.slice(s![first.., ..]), "{} {:?}", gpu.name(), tiling);
            }
        }
    }
}

/// The order of summation is the one that `gemm.cuh` promises, to the bit.
#[test]
fn the_sum_is_the_tensor_cores_in_chunks() {
    for k in [1, 16, 63, 64, 511, 512, 513, 1537] {
        let (x, w) = (activations(k as u64, (3, k)), activations(!k as u64, (20, k)));
        let want = Array2::from_shape_fn((3, 20), |(i, j)| {
            let row = |matrix: &Array2<bf16>, row| matrix.row(row).to_vec();
            dot(&row(&x, i), &row(&w, j))
        });
        for gpu in devices() {
            for tiling in TILINGS {
                let y = run(&gpu, tiling, x.view(), w.view());
                assert_eq!(bits(&y), bits(&want), "{} {tiling:?} k = {k}", gpu.name());
            }
        }
    }
}

/// So does the reference where it takes sums in that order, and with any other promotion, step or fraction it does not.
#[test]
fn the_reference_in_its_order_has_the_same_bits() {
    let contract = RoundingContract::PARITY.ordered().expect("the order is fixed");
    let Accumulator::TensorCore(core) = contract.accumulator else { panic!("a tensor core's") };
    for k in [1, 16, 63, 64, 511, 512, 513, 1537] {
        let (x, w) = (activations(k as u64, (3, k)), activations(!k as u64, (20, k)));
        let bytes: Vec<u8> = w.iter().flat_map(|w| w.to_le_bytes()).collect();
        let w = Matrix::new(w.dim(), Encoding::Bf16, bytes).expect("two bytes each");
        let of = |core| {
            let contract = RoundingContract { accumulator: Accumulator::TensorCore(core), ..contract };
            let p = Linear { output: Rounding::NONE, ..Linear::under(&contract) };
            bits(&reference::ops::linear::linear(&p, x.mapv(f32::from).view(), &w).expect("it fits"))
        };
        let want = Array2::from_shape_fn((3, 20), |(i, j)| dot(&x.row(i).to_vec(), &row(&w, j)));
        assert_eq!(of(core), bits(&want), "k = {k}");
        let unpromoted = of(TensorCore { promote: Some(1 << 20), ..core });
        // A last product alone may round as it is cut off.
        assert!(unpromoted == bits(&want) || k > 512, "k = {k}");
        if k > 513 {
            assert_ne!(unpromoted, bits(&want), "k = {k}");
            assert_ne!(of(TensorCore { k: 8, ..core }), bits(&want), "k = {k}");
            assert_ne!(of(TensorCore { fraction: 23, ..core }), bits(&want), "k = {k}");
        }
    }
}

/// A row of a matrix of bf16.
fn row(w: &Matrix<'_>, j: usize) -> Vec<bf16> {
    w.panel::<f32>(j, 1).iter().map(|&w| bf16::from_f32(w)).collect()
}

/// Values at both ends of the exponents' range, infinities and NaN, which the tensor core's model treats apart.
#[test]
fn extreme_values_are_summed_the_same_way_in_all_tilings() {
    let extremes = [f32::MAX, 1e-38, 1e-40, f32::INFINITY, 0.0, -0.0, 1e30, -1e30].map(bf16::from_f32);
    let mut draw = Draw::new(5);
    let mut drawn =
        |dim| Array2::from_shape_simple_fn(dim, || extremes[usize::try_from(draw.below(8)).expect("below 8")]);
    let (x, w) = (drawn((9, 40)), drawn((33, 40)));
    for gpu in devices() {
        let few = bits(&run(&gpu, Tiling::FewRows, x.view(), w.view()));
        for tiling in TILINGS {
            assert_eq!(bits(&run(&gpu, tiling, x.view(), w.view())), few, "{} {tiling:?}", gpu.name());
        }
    }
}

#[test]
fn bf16_is_the_f32_result_rounded_once() {
    let (x, w) = (activations(1, (18, 600)), activations(2, (70, 600)));
    for gpu in devices() {
        for (tiling, rows) in [(Tiling::Small, 18), (Tiling::Large, 18), (Tiling::FewRows, 16)] {
            let x = x.slice(s![..rows, ..]);
            let want = run::<f32>(&gpu, tiling, x, w.view()).mapv(bf16::from_f32);
            assert_eq!(run::<bf16>(&gpu, tiling, x, w.view()), want, "{} {tiling:?}", gpu.name());
        }
    }
}

#[test]
fn the_tiling_suits_the_shape() {
    assert_eq!(Tiling::of(1, 6144, 3072), Tiling::FewRows);
    assert_eq!(Tiling::of(16, 3072, 20_000), Tiling::Small);
    assert_eq!(Tiling::of(17, 6144, 3072), Tiling::Small);
    assert_eq!(Tiling::of(4096, 6144, 3072), Tiling::Large);
}

#[test]
fn c1_rows_of_different_width() {
    for gpu in devices() {
        let (x, w) = (gpu.zeros((2, 8)), gpu.zeros((3, 9)));
        let error = linear::<f32>(&gpu, &x.expect("memory"), &w.expect("memory")).expect_err("widths differ");
        assert_eq!(error.to_string(), "linear C2: columns of w = 9, expected k = 8");
    }
}

#[test]
fn c3_too_many_rows_for_few_rows() {
    for gpu in devices() {
        let (x, w) = (gpu.zeros((17, 8)), gpu.zeros((3, 8)));
        let (x, w) = (x.expect("memory"), w.expect("memory"));
        let error = linear_tiled::<f32>(&gpu, Tiling::FewRows, &x, &w).expect_err("17 rows are not few");
        assert_eq!(error.to_string(), "linear K5: n = 17, expected at most 16");
    }
}
