//! `optimized/kernels/add_rms_norm.cu` and `optimized/src/ops/add_rms_norm.rs`.

use half::bf16;
use ndarray::Array2;
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::rms_norm::rms_norm;
use proptest::prelude::*;
use tests::device::devices;
use tests::values::activations;

const EPS: f32 = 1e-6;

/// s, y, and the plain norm of s, each with its padding.
fn run(gpu: &Gpu, x: &Array2<bf16>, f: &Array2<bf16>, w: &Array2<bf16>) -> Result<[Array2<bf16>; 3], Error> {
    let w = gpu.upload(w.view())?;
    let (s, y) = add_rms_norm(gpu, &gpu.upload(x.view())?, &gpu.upload(f.view())?, &w, EPS)?;
    let apart = rms_norm(gpu, &s, &w, EPS)?;
    Ok([gpu.download_padded(&s)?, gpu.download_padded(&y)?, gpu.download_padded(&apart)?])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// R1: the stream is rounded before it is normalized, so that the fused operator is the two plain ones to the bit.
    #[test]
    fn r1_it_is_the_addition_and_the_norm_of_the_rounded_sum((n, d) in (1..5_usize, 1..1500_usize), seed: u64) {
        let (x, f, w) = (activations(seed, (n, d)), activations(!seed, (n, d)), activations(seed ^ 1, (1, d)));
        for gpu in devices() {
            let [s, y, apart] = run(&gpu, &x, &f, &w).unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
            for ((i, j), &s) in s.indexed_iter() {
                let want = if j < d { bf16::from_f32(f32::from(x[[i, j]]) + f32::from(f[[i, j]])) } else { bf16::ZERO };
                prop_assert_eq!(s, want, "{} [{}, {}]", gpu.name(), i, j);
            }
            prop_assert_eq!(y, apart, "{}", gpu.name());
        }
    }
}

#[test]
fn c1_a_branch_of_another_shape() {
    for gpu in devices() {
        let (x, f, w) = (gpu.zeros((2, 8)), gpu.zeros((3, 8)), gpu.zeros((1, 8)));
        let (x, f, w) = (x.expect("memory"), f.expect("memory"), w.expect("memory"));
        let error = add_rms_norm(&gpu, &x, &f, &w, EPS).expect_err("shapes differ");
        assert_eq!(error.to_string(), "add_rms_norm C1: rows(f)·cols(f) = 24, expected 2 × 8");
    }
}

#[test]
fn c2_weight_of_another_width() {
    for gpu in devices() {
        let (x, f, w) = (gpu.zeros((2, 8)), gpu.zeros((2, 8)), gpu.zeros((1, 9)));
        let (x, f, w) = (x.expect("memory"), f.expect("memory"), w.expect("memory"));
        let error = add_rms_norm(&gpu, &x, &f, &w, EPS).expect_err("widths differ");
        assert_eq!(error.to_string(), "add_rms_norm C2: cols(w) = 9, expected one row of d = 8");
    }
}
