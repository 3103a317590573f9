//! `optimized/kernels/layer_norm.cu` and `optimized/src/ops/layer_norm.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::layer_norm::layer_norm;
use proptest::prelude::*;
use reference::ops::layer_norm as oracle;
use reference::ops::layer_norm::LayerNorm;
use reference::{RoundingContract, Storage, Tracked};
use tests::bounds::{self, assert_within, wide};
use tests::device::{devices, emulated_devices};
use tests::strategy::{Fill, Matrix};
use tests::values::activations;

/// As released.
const EPS: f32 = 1e-5;

/// y of x, w and b, on the device, with its padding checked.
fn run(gpu: &Gpu, x: ArrayView2<'_, bf16>, w: &Array2<bf16>, b: &Array2<bf16>) -> Array2<bf16> {
    let device = || -> Result<Array2<bf16>, Error> {
        let (w, b) = (gpu.upload(w.view())?, gpu.upload(b.view())?);
        gpu.download_padded(&layer_norm(gpu, &gpu.upload(x)?, &w, &b, EPS)?)
    };
    let y = device().unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
    let (inside, padding) = y.view().split_at(Axis(1), x.ncols());
    assert!(padding.iter().all(|&value| value == bf16::ZERO), "{}: the padding is zero", gpu.name());
    inside.to_owned()
}

fn bits(y: ArrayView2<'_, bf16>) -> Array2<u16> {
    y.mapv(bf16::to_bits)
}

/// Fails unless the devices' y is within the reference's bound.
fn demand_within(x: &Array2<bf16>, w: &Array2<bf16>, b: &Array2<bf16>, what: &str) {
    let p = |contract| LayerNorm::under(contract, f64::from(EPS));
    let (exact, wide_w, wide_b) = (Tracked::exact(wide(x)), wide(w), wide(b));
    let want = oracle::layer_norm(&p(&RoundingContract::IDEAL), exact.view(), wide_w.row(0), wide_b.row(0));
    let want = want.expect("shapes fit");
    let error = p(&RoundingContract::PARITY).bound(&exact, wide_w.row(0), &want);
    for gpu in devices() {
        assert_within(&wide(&run(&gpu, x.view(), w, b)), &want, &error, &format!("{} {what}", gpu.name()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Rows of one value, of large values that cancel, of subnormal ones.
    #[test]
    fn it_is_within_the_bound((n, d) in (1..5_usize, 1..2500_usize), fill in prop::sample::select(&Fill::FINITE), seed: u64) {
        let drawn = Matrix::new((n, d), fill, Storage::Bf16, seed).f32().mapv(bf16::from_f32);
        let (w, b) = (activations(!seed, (1, d)), activations(seed ^ 1, (1, d)));
        demand_within(&drawn, &w, &b, &format!("{n} × {d} {fill:?} {seed}"));
    }

    /// Bit for bit what the reference computes in the kernel's order.
    #[test]
    fn it_is_the_reference_in_its_order((n, d) in (1..5_usize, 1..5000_usize), seed: u64) {
        let (x, w, b) = (activations(seed, (n, d)), activations(!seed, (1, d)), activations(seed ^ 1, (1, d)));
        let p = LayerNorm::under(&RoundingContract::PARITY.ordered().expect("it is fixed"), f64::from(EPS));
        let [x32, w32, b32] = [&x, &w, &b].map(|x| x.mapv(f32::from));
        let want = oracle::layer_norm(&p, x32.view(), w32.row(0), b32.row(0)).expect("shapes fit");
        for gpu in emulated_devices() {
            prop_assert_eq!(bits(run(&gpu, x.view(), &w, &b).view()), bounds::bits(&want), "{}", gpu.name());
        }
    }

    /// Nor a row that is not a number.
    #[test]
    fn rows_do_not_see_each_other((n, d) in (2..5_usize, 1..600_usize), seed: u64) {
        let (mut x, w, b) = (activations(seed, (n, d)), activations(!seed, (1, d)), activations(seed ^ 1, (1, d)));
        for gpu in devices() {
            let whole = run(&gpu, x.view(), &w, &b);
            let last = run(&gpu, x.slice(s![n - 1.., ..]), &w, &b);
            prop_assert_eq!(bits(last.view()), bits(whole.slice(s![n - 1.., ..])), "{}", gpu.name());
        }
        x.row_mut(0).fill(bf16::NAN);
        for gpu in devices() {
            let beside = run(&gpu, x.view(), &w, &b);
            let alone = run(&gpu, x.slice(s![1.., ..]), &w, &b);
            prop_assert_eq!(bits(beside.slice(s![1.., ..])), bits(alone.view()), "{}", gpu.name());
        }
    }
}

/// The tower's width.
#[test]
fn rows_of_1280() {
    let (x, w, b) = (activations(1, (3, 1280)), activations(2, (1, 1280)), activations(3, (1, 1280)));
    demand_within(&x, &w, &b, "the tower's");
}

/// Where d is a power of two, the mean of equal values is exact, and no deviation is left.
#[test]
fn a_row_of_one_value_becomes_the_bias_exactly() {
    let x = Array2::from_shape_fn((3, 256), |(i, _)| bf16::from_f32([1e30, -3.0, 0.1][i]));
    let (w, b) = (activations(1, (1, 256)), activations(2, (1, 256)));
    for gpu in devices() {
        for y in run(&gpu, x.view(), &w, &b).rows() {
            assert_eq!(y, b.row(0), "{}", gpu.name());
        }
    }
}

#[test]
fn what_is_not_finite_is_seen_in_its_row() {
    let (w, b) = (activations(2, (1, 300)), activations(3, (1, 300)));
    for bad in [bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY] {
        let mut x = activations(1, (2, 300));
        x[[0, 299]] = bad;
        for gpu in devices() {
            let y = run(&gpu, x.view(), &w, &b);
            assert!(y.row(0).iter().all(|y| y.is_nan()) && y.row(1).iter().all(|y| y.is_finite()), "{}", gpu.name());
        }
    }
}

#[test]
fn c2_to_c4_weights_of_another_width_and_an_epsilon_of_nothing() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let refused = |w, b, eps| {
            layer_norm(&gpu, &zeros((2, 8)), &zeros(w), &zeros(b), eps).expect_err("it does not fit").to_string()
        };
        assert_eq!(refused((1, 9), (1, 8), EPS), "layer_norm C2: len(w) = 9, expected d = 8");
        assert_eq!(refused((1, 8), (1, 7), EPS), "layer_norm C3: len(b) = 7, expected d = 8");
        assert_eq!(refused((1, 8), (1, 8), 0.0), "layer_norm C4: ε = 0, expected above 0");
    }
}
