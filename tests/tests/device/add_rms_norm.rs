//! `optimized/kernels/add_rms_norm.cu` and `optimized/src/ops/add_rms_norm.rs`.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::error::Error;
use optimized::ops::add_rms_norm::add_rms_norm;
use optimized::ops::rms_norm::rms_norm;
use proptest::prelude::*;
use reference::ops::add_rms_norm as oracle;
use reference::semantics::{EpsPlace, NormWeight};
use reference::{RoundingContract, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::activations;

const EPS: f32 = 1e-6;

fn params(contract: &RoundingContract, weight: NormWeight) -> oracle::AddRmsNorm {
    let p = oracle::AddRmsNorm::under(contract, f64::from(EPS), EpsPlace::Inside);
    oracle::AddRmsNorm { norm: p.norm.weighing(weight), ..p }
}

fn weight() -> impl Strategy<Value = NormWeight> {
    prop_oneof![Just(NormWeight::Plain), Just(NormWeight::OnePlus)]
}

/// s, y, and the plain norm of s, each with its padding.
fn run(
    gpu: &Gpu,
    x: &Array2<bf16>,
    f: &Array2<bf16>,
    (w, weight): (&Array2<bf16>, NormWeight),
) -> Result<[Array2<bf16>; 3], Error> {
    let w = gpu.upload(w.view())?;
    let (s, y) = add_rms_norm(gpu, &gpu.upload(x.view())?, &gpu.upload(f.view())?, &w, weight, EPS)?;
    let apart = rms_norm(gpu, &s, &w, weight, EPS)?;
    Ok([gpu.download_padded(&s)?, gpu.download_padded(&y)?, gpu.download_padded(&apart)?])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_is_within_the_bound((n, d) in (1..5_usize, 1..1500_usize), kind in weight(), seed: u64) {
        let (x, f, w) = (activations(seed, (n, d)), activations(!seed, (n, d)), activations(seed ^ 1, (1, d)));
        let [exact_x, exact_f] = [&x, &f].map(|values| Tracked::exact(wide(values)));
        let weight = wide(&w).row(0).to_owned();
        let want = oracle::add_rms_norm(&params(&RoundingContract::IDEAL, kind), exact_x.view(), exact_f.view(), weight.view());
        let (s, y) = want.expect("shapes fit");
        let (of_s, of_y) = params(&RoundingContract::PARITY, kind).bound(&exact_x, &exact_f, weight.view(), (&s, &y));
        for gpu in devices() {
            let got = run(&gpu, &x, &f, (&w, kind)).unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
            let inside = |padded: &Array2<bf16>| wide(&padded.slice(s![.., ..d]).to_owned());
            assert_within(&inside(&got[0]), &s, &of_s, "s");
            assert_within(&inside(&got[1]), &y, &of_y, "y");
        }
    }

    /// R1: the stream is rounded before it is normalized, so that the fused operator is the two plain ones to the bit.
    #[test]
    fn r1_it_is_the_addition_and_the_norm_of_the_rounded_sum((n, d) in (1..5_usize, 1..1500_usize), kind in weight(), seed: u64) {
        let (x, f, w) = (activations(seed, (n, d)), activations(!seed, (n, d)), activations(seed ^ 1, (1, d)));
        let [x32, f32, w32] = [&x, &f, &w].map(|values| values.mapv(f32::from));
        let want = oracle::add_rms_norm(&params(&RoundingContract::PARITY, kind), x32.view(), f32.view(), w32.row(0));
        let (sum, _) = want.expect("shapes fit");
        for gpu in devices() {
            let [s, y, apart] = run(&gpu, &x, &f, (&w, kind)).unwrap_or_else(|error| panic!("{}: {error}", gpu.name()));
            for ((i, j), &s) in s.indexed_iter() {
                let want = if j < d { sum[[i, j]] } else { 0.0 };
                prop_assert_eq!(f32::from(s), want, "{} [{}, {}]", gpu.name(), i, j);
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
        let error = add_rms_norm(&gpu, &x, &f, &w, NormWeight::Plain, EPS).expect_err("shapes differ");
        assert_eq!(error.to_string(), "residual C1: shape of f = (3, 8), expected (2, 8)");
    }
}

#[test]
fn c2_weight_of_another_width() {
    for gpu in devices() {
        let (x, f, w) = (gpu.zeros((2, 8)), gpu.zeros((2, 8)), gpu.zeros((1, 9)));
        let (x, f, w) = (x.expect("memory"), f.expect("memory"), w.expect("memory"));
        let error = add_rms_norm(&gpu, &x, &f, &w, NormWeight::Plain, EPS).expect_err("widths differ");
        assert_eq!(error.to_string(), "rms_norm C2: len(w) = 9, expected d = 8");
    }
}
