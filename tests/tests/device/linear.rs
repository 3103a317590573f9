//! `optimized/kernels/linear.cu` and `optimized/src/ops/linear.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::linear::{Output, Tiling, linear, linear_tiled};
use optimized::weight::{Quantized, WeightView};
use proptest::prelude::*;
use reference::accumulator::{Accumulator, TensorCore};
use reference::matrix::{Encoding, Matrix, Scales};
use reference::ops::linear::Linear;
use reference::{Rounding, RoundingContract};
use tests::cuts::tilings;
use tests::device::devices;
use tests::quantized::{SCHEMES, in_bf16, stored, weight};
use tests::tensor_core::dot;
use tests::values::{Draw, activations, whole_numbers};

/// y of x and w, on the device, with its padding checked.
fn run<T: Output>(gpu: &Gpu, tiling: Tiling, x: ArrayView2<'_, bf16>, w: ArrayView2<'_, bf16>) -> Array2<T> {
    let w = gpu.upload(w).unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
    run_stored(gpu, tiling, x, (&w).into())
}

/// The same of w as it is stored.
fn run_stored<T: Output>(gpu: &Gpu, tiling: Tiling, x: ArrayView2<'_, bf16>, w: WeightView<'_>) -> Array2<T> {
    let device = || -> Result<Array2<T>, Error> {
        let y = linear_tiled(gpu, tiling, &gpu.upload(x)?, w)?;
        gpu.download_padded(&y)
    };
    let y = device().unwrap_or_else(|error| panic!("{} {tiling:?}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(ndarray::Axis(1), w.dim().0);
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
            for tiling in tilings(&gpu, n) {
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
            for tiling in tilings(&gpu, 1) {
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
            for tiling in tilings(&gpu, 1) {
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
        for tiling in tilings(&gpu, 1) {
            assert_eq!(bits(&run(&gpu, tiling, x.view(), w.view())), few, "{} {tiling:?}", gpu.name());
        }
    }
}

#[test]
fn bf16_is_the_f32_result_rounded_once() {
    let (x, w) = (activations(1, (18, 600)), activations(2, (70, 600)));
    for gpu in devices() {
        for tiling in tilings(&gpu, 1) {
            let x = x.slice(s![..if tiling == Tiling::FewRows { 16 } else { 18 }, ..]);
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

/// Blocks that no edge of a tile, of a part or of the matrix respects, and parts that begin within a block.
#[test]
fn quantized_weights_give_the_bits_of_those_in_bf16() {
    for (seed, scheme) in (1..).zip(SCHEMES) {
        for k in [16, 63, 200, 1100] {
            let x = activations(seed, (13, k));
            let parts = [(70, 0), (9, 3), (65, 40)]
                .map(|(rows, above)| weight(seed + rows as u64, (rows, k), scheme, above % scheme.0.0));
            for gpu in devices() {
                let w = stored(&gpu, &parts);
                for tiling in tilings(&gpu, 1) {
                    let want = run::<f32>(&gpu, tiling, x.view(), in_bf16(&parts).view());
                    let got = run_stored::<f32>(&gpu, tiling, x.view(), (&w).into());
                    assert_eq!(bits(&got), bits(&want), "{} {tiling:?} {scheme:?} k = {k}", gpu.name());
                    let got = run_stored::<bf16>(&gpu, tiling, x.view(), (&w).into());
                    assert_eq!(got, want.mapv(bf16::from_f32), "{} {tiling:?} {scheme:?} k = {k}", gpu.name());
                }
            }
        }
    }
}

/// Every code by scales at both ends of their range, each value alone in a product with 1.
#[test]
fn every_code_is_what_it_is_in_bf16() {
    let codes: Vec<u8> = (0..=u8::MAX).filter(|code| code & 0x7f != 0x7f).collect();
    let k = codes.len();
    let ones = Array2::from_shape_fn((k, k), |(i, j)| if i == j { bf16::ONE } else { bf16::ZERO });
    for (encoding, scales) in [
        (Encoding::F32, vec![1e-45, f64::from(f32::MIN_POSITIVE), 1e-38, 3.37e-4, 1.0 / 3.0, 1e30]),
        (Encoding::E8m0, vec![2.0_f64.powi(-127), 2.0_f64.powi(-126), 1.0, 2.0_f64.powi(119)]),
    ] {
        let rows = scales.len();
        let values = Matrix::new((rows, 1), encoding, encoding.narrow(scales)).expect("one a row");
        let elements = Matrix::new((rows, k), Encoding::E4m3, codes.repeat(rows)).expect("a byte each");
        let w = elements.scaled(Scales { block: (1, 256), above: 0, values }).expect("a scale a row");
        for gpu in devices() {
            let got = run_stored::<f32>(&gpu, Tiling::Small, ones.view(), (&stored(&gpu, &[w.view()])).into());
            let want = in_bf16(&[w.view()]).mapv(f32::from);
            // A sum has no negative zero.
            assert_eq!(bits(&got), bits(&want.t().mapv(|x| x + 0.0)), "{} {encoding:?}", gpu.name());
        }
    }
}

/// What is no number stays none, in its row alone.
#[test]
fn codes_and_scales_that_are_no_numbers() {
    let x = Array2::from_elem((1, 64), bf16::ONE);
    let mut codes = vec![0x38; 3 * 64];
    codes[64 + 5] = 0xff;
    let values = Matrix::new((3, 1), Encoding::E8m0, vec![127, 127, 255]).expect("one a row");
    let w = Matrix::new((3, 64), Encoding::E4m3, codes).expect("a byte each");
    let w = w.scaled(Scales { block: (1, 64), above: 0, values }).expect("a scale a row");
    for gpu in devices() {
        let y = run_stored::<f32>(&gpu, Tiling::FewRows, x.view(), (&stored(&gpu, &[w.view()])).into());
        assert!(y[[0, 0]] == 64.0 && y[[0, 1]].is_nan() && y[[0, 2]].is_nan(), "{}: {y}", gpu.name());
    }
}

/// Weights of other forms are not taken as they are: the host rounds them to bf16.
#[test]
fn what_kernels_do_not_take_as_it_is_stored() {
    let narrow = weight(1, (4, 40), ((4, 5), Encoding::F32), 0);
    let (floats, powers) = (weight(2, (4, 40), SCHEMES[2], 0), weight(3, (4, 40), ((4, 16), Encoding::E8m0), 0));
    let in_f16 = floats.view().held_in(reference::Storage::F16);
    let plain = Matrix::stored(Array2::ones((4, 40)).view(), reference::Storage::Bf16);
    let refused = [vec![narrow], vec![floats.view(), powers], vec![floats.view(), plain], vec![in_f16], vec![]];
    for gpu in devices() {
        for (i, parts) in refused.iter().enumerate() {
            assert!(Quantized::stacked(&gpu, parts).expect("memory").is_none(), "{}: {i}", gpu.name());
        }
    }
}
