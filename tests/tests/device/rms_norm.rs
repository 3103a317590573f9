//! `optimized/kernels/rms_norm.cu` and `optimized/src/ops/rms_norm.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::rms_norm::rms_norm;
use proptest::prelude::*;
use reference::RoundingContract;
use reference::ops::rms_norm::RmsNorm;
use reference::semantics::{EpsPlace, NormWeight};
use tests::bounds::bits;
use tests::device::{devices, emulated_devices};
use tests::values::activations;

const EPS: f32 = 1e-6;

/// y of x and w, on the device, with its padding checked.
fn run(gpu: &Gpu, x: ArrayView2<'_, bf16>, (w, weight): (ArrayView2<'_, bf16>, NormWeight), eps: f32) -> Array2<bf16> {
    let device = || -> Result<Array2<bf16>, Error> {
        gpu.download_padded(&rms_norm(gpu, &gpu.upload(x)?, &gpu.upload(w)?, weight, eps)?)
    };
    let y = device().unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(ndarray::Axis(1), x.ncols());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The definition in f64. The sum has positive terms only, so that in any order it is within d·u; the root halves
    /// that; the other operations add 8·u, and 1 + w one more; rounding to bf16 adds 2⁻⁸ of the result.
    #[test]
    fn rows_are_scaled_to_unit_root_mean_square((n, d) in (1..5_usize, 1..2500_usize), gemma: bool, seed: u64) {
        let (weight, one) = if gemma { (NormWeight::OnePlus, 1.0) } else { (NormWeight::Plain, 0.0) };
        let (x, w) = (activations(seed, (n, d)), activations(!seed, (1, d)));
        let of_f32 = (d as f64 / 2.0 + 9.0) / f64::from(1 << 24);
        let of_bf16 = 1.0 / f64::from(1 << 8);
        for gpu in devices() {
            let y = run(&gpu, x.view(), (w.view(), weight), EPS);
            for (x, y) in x.rows().into_iter().zip(y.rows()) {
                let mean = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / d as f64;
                for ((&x, &w), &y) in x.iter().zip(&w).zip(y) {
                    let want = (one + f64::from(w)) * f64::from(x) / (mean + f64::from(EPS)).sqrt();
                    let bound = want.abs() * (of_f32 + of_bf16 * (1.0 + of_f32));
                    prop_assert!((f64::from(y) - want).abs() <= bound, "{}: {y} against {want}", gpu.name());
                }
            }
        }
    }

    /// Bit for bit what the reference computes in the kernel's order.
    #[test]
    fn it_is_the_reference_in_its_order((n, d) in (1..5_usize, 1..5000_usize), gemma: bool, seed: u64) {
        let weight = if gemma { NormWeight::OnePlus } else { NormWeight::Plain };
        let (x, w) = (activations(seed, (n, d)), activations(!seed, (1, d)));
        let contract = RoundingContract::PARITY.ordered().expect("it is fixed");
        let p = RmsNorm::under(&contract, f64::from(EPS), EpsPlace::Inside).weighing(weight);
        let (x32, w32) = (x.mapv(f32::from), w.mapv(f32::from));
        let want = reference::ops::rms_norm::rms_norm(&p, x32.view(), w32.row(0)).expect("shapes fit");
        for gpu in emulated_devices() {
            let y = run(&gpu, x.view(), (w.view(), weight), EPS);
            prop_assert_eq!(y.mapv(bf16::to_bits), bits(&want), "{}", gpu.name());
        }
    }

    #[test]
    fn rows_do_not_see_each_other((n, d) in (1..5_usize, 1..600_usize), seed: u64) {
        let (x, w) = (activations(seed, (n, d)), activations(!seed, (1, d)));
        for gpu in devices() {
            let whole = run(&gpu, x.view(), (w.view(), NormWeight::Plain), EPS);
            let last = run(&gpu, x.slice(s![n - 1.., ..]), (w.view(), NormWeight::Plain), EPS);
            prop_assert_eq!(last, whole.slice(s![n - 1.., ..]), "{}", gpu.name());
        }
    }
}

/// Where every value is ±4 and ε is 0, each operation is exact, and y is ±w, or the nearest to ±(1 + w).
#[test]
fn a_row_of_equal_magnitudes_becomes_the_weight_exactly() {
    /// 16 + ε is 16.
    const NOTHING: f32 = 1e-30;
    let w = activations(3, (1, 300));
    let of = |weight: bf16, kind| match kind {
        NormWeight::Plain => weight,
        NormWeight::OnePlus => bf16::from_f32(1.0 + f32::from(weight)),
    };
    let x = Array2::from_shape_fn((2, 300), |(i, j)| bf16::from_f32(if (i + j) % 3 == 0 { -4.0 } else { 4.0 }));
    for kind in [NormWeight::Plain, NormWeight::OnePlus] {
        let signed = |(i, j): (usize, usize)| if (i + j) % 3 == 0 { -of(w[[0, j]], kind) } else { of(w[[0, j]], kind) };
        let want = Array2::from_shape_fn((2, 300), signed);
        for gpu in devices() {
            assert_eq!(run(&gpu, x.view(), (w.view(), kind), NOTHING), want, "{} {kind}", gpu.name());
        }
    }
}

#[test]
fn c1_weight_of_another_width() {
    for gpu in devices() {
        let (x, w) = (gpu.zeros((2, 8)), gpu.zeros((1, 9)));
        let error = rms_norm(&gpu, &x.expect("memory"), &w.expect("memory"), NormWeight::Plain, EPS)
            .expect_err("widths differ");
        assert_eq!(error.to_string(), "rms_norm C2: len(w) = 9, expected d = 8");
    }
}
