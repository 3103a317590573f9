//! `optimized/kernels/dense_ffn.cu` and `optimized/src/ops/dense_ffn.rs`.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use optimized::device::Gpu;
use optimized::ops;
use optimized::ops::dense_ffn::{DenseFfn, dense_ffn_tiled};
use optimized::ops::moe::{Experts, moe};
use optimized::ops::router::Routed;
use optimized::tensor::Matrix;
use optimized::tiles::Tiles;
use proptest::prelude::*;
use reference::config::Coefficients;
use reference::ops::dense_ffn::Activation;
use reference::ops::linear::{Linear, linear};
use reference::semantics::{GateClamp, Semantics};
use reference::{RoundingContract, Storage, Tracked, matrix};
use tests::bounds::{assert_within, wide};
use tests::cuts::tiles;
use tests::device::devices;
use tests::quantized::{SCHEMES, in_bf16, stored, weight};
use tests::values::activations;

/// Of the released model, and others.
const M3: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };
const NARROW: Coefficients = Coefficients { alpha: 0.5, limit: 1.25, beta: 0.5 };

/// Tokens, widths, activation.
#[derive(Debug, Clone, Copy)]
struct Case {
    n: usize,
    d: usize,
    m: usize,
    oai: Option<Coefficients>,
    clamp: GateClamp,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let oai = prop_oneof![Just(None), Just(Some(M3)), Just(Some(NARROW))];
    let clamp = prop_oneof![Just(GateClamp::Upper), Just(GateClamp::Symmetric)];
    let sizes = (1..70_usize, 1..150_usize, 1..90_usize);
    (sizes, oai, clamp, any::<u64>()).prop_map(|((n, d, m), oai, clamp, seed)| Case { n, d, m, oai, clamp, seed })
}

impl Case {
    /// x, w₁ over w₃, w₂.
    fn inputs(&self) -> [Array2<bf16>; 3] {
        [(0, self.n, self.d), (1, 2 * self.m, self.d), (2, self.d, self.m)]
            .map(|(i, rows, columns)| activations(self.seed.wrapping_add(i), (rows, columns)))
    }

    fn activation_of_device(&self) -> ops::Activation {
        self.oai.map_or(ops::Activation::Swiglu, |oai| ops::Activation::SwigluOai(oai, self.clamp))
    }

    fn activation(&self, contract: &RoundingContract) -> Activation {
        let semantics = Semantics { gate_clamp: self.clamp, ..Semantics::RELEASED };
        Activation::under(contract, &semantics, self.oai)
    }
}

/// Activation and output, whose padding is zero.
fn run(gpu: &Gpu, tiles: Tiles, case: Case, x: ArrayView2<'_, bf16>) -> [Array2<bf16>; 2] {
    let [_, gate_up, down] = case.inputs();
    let upload = |matrix: ArrayView2<'_, bf16>| gpu.upload(matrix).expect("memory");
    let ffn = DenseFfn { gate_up: upload(gate_up.view()).into(), down: upload(down.view()).into() };
    run_stored(gpu, tiles, case, x, &ffn)
}

/// The same of weights as they are stored.
fn run_stored(gpu: &Gpu, tiles: Tiles, case: Case, x: ArrayView2<'_, bf16>, ffn: &DenseFfn) -> [Array2<bf16>; 2] {
    let x = gpu.upload(x).expect("memory");
    let fed =
        dense_ffn_tiled(gpu, tiles, &x, ffn, case.activation_of_device()).unwrap_or_else(|e| panic!("{case:?}: {e}"));
    let inside = |matrix: &Matrix<bf16>| {
        let padded = gpu.download_padded(matrix).expect("memory");
        let (inside, padding) = padded.view().split_at(Axis(1), matrix.dim().1);
        assert!(padding.iter().all(|&x| x == bf16::ZERO), "padding is zero");
        inside.to_owned()
    };
    [inside(&fed.hidden), inside(&fed.output)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Each step from the device's own input to it.
    #[test]
    fn every_step_is_within_its_bound(case in case()) {
        let [x, gate_up, down] = case.inputs();
        let (contract, ideal) = (RoundingContract::PARITY, Linear::under(&RoundingContract::IDEAL));
        let stored = |w: ArrayView2<'_, bf16>| matrix::Matrix::stored(w.mapv(f64::from).view(), Storage::Bf16);
        let exact = Tracked::exact(wide(&x));
        let project = |rows: ArrayView2<'_, bf16>| {
            let w = stored(rows);
            let value = linear(&ideal, exact.view(), &w).expect("shapes fit");
            let error = Linear::before_activation(&contract).bound(&exact, &w, &value);
            Tracked { value, error: Some(error) }
        };
        let (gate, up) = gate_up.view().split_at(Axis(0), case.m);
        let (g, u) = (project(gate), project(up));
        let want = case.activation(&RoundingContract::IDEAL).of(g.view(), u.view()).expect("shapes fit");
        let error = case.activation(&contract).bound(&g, &u, &want);
        for gpu in devices() {
            for tiles in tiles(&gpu) {
                let [hidden, output] = run(&gpu, tiles, case, x.view());
                assert_within(&wide(&hidden), &want, &error, &format!("{} {tiles:?} {case:?} hidden", gpu.name()));
                let (a, w) = (Tracked::exact(wide(&hidden)), stored(down.view()));
                let y = linear(&ideal, a.view(), &w).expect("shapes fit");
                let error = Linear::under(&contract).bound(&a, &w, &y);
                assert_within(&wide(&output), &y, &error, &format!("{} {tiles:?} {case:?} output", gpu.name()));
            }
        }
    }

    /// It is one expert that all tokens choose, to the bit.
    #[test]
    fn it_is_an_expert_that_all_choose(case in case()) {
        let [x, gate_up, down] = case.inputs();
        for gpu in devices() {
            let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
            let scores = || gpu.zeros((case.n, 1)).expect("memory");
            let routed = Routed {
                logits: scores(),
                scores: scores(),
                choice: scores(),
                chosen: gpu.zeros((case.n, 1)).expect("memory"),
                weights: gpu.upload(Array2::ones((case.n, 1)).view()).expect("memory"),
            };
            let activation = case.activation_of_device();
            let (gate_up, down) = (upload(&gate_up).into(), upload(&down).into());
            let experts = Experts { gate_up, down, first: 0, count: 1, activation };
            let fed = moe(&gpu, &upload(&x), &routed, &experts, None).expect("shapes fit");
            let [hidden, output] = run(&gpu, Tiles::Few, case, x.view());
            let bits = |x: &Array2<bf16>| x.mapv(bf16::to_bits);
            prop_assert_eq!(bits(&gpu.download(&fed.hidden).expect("memory")), bits(&hidden));
            prop_assert_eq!(bits(&gpu.download(&fed.sum).expect("memory")), bits(&output));
        }
    }

    /// A token's bits depend neither on the tiling nor on the tokens beside it.
    #[test]
    fn tokens_do_not_see_each_other(case in case(), first in 0..70_usize) {
        let first = first % case.n;
        let [x, ..] = case.inputs();
        let bits = |x: ArrayView2<'_, bf16>| x.mapv(bf16::to_bits);
        for gpu in devices() {
            let [_, whole] = run(&gpu, Tiles::Many, case, x.view());
            let [_, part] = run(&gpu, Tiles::Few, case, x.slice(s![first.., ..]));
            prop_assert_eq!(bits(part.view()), bits(whole.slice(s![first.., ..])));
        }
    }
}

/// Gate and up projections that end within a block.
#[test]
fn quantized_weights_give_the_bits_of_those_in_bf16() {
    let case = Case { n: 30, d: 150, m: 70, oai: Some(M3), clamp: GateClamp::Upper, seed: 4 };
    let [x, ..] = case.inputs();
    for (seed, scheme) in (1..).zip(SCHEMES) {
        let gate_up = [1, 2].map(|part| weight(seed * 9 + part, (case.m, case.d), scheme, 0));
        let down = [weight(seed * 9, (case.d, case.m), scheme, 0)];
        for gpu in devices() {
            let upload = |parts: &[matrix::Matrix<'_>]| gpu.upload(in_bf16(parts).view()).expect("memory").into();
            let plain = DenseFfn { gate_up: upload(&gate_up), down: upload(&down) };
            let quantized = DenseFfn { gate_up: stored(&gpu, &gate_up).into(), down: stored(&gpu, &down).into() };
            for tiles in tiles(&gpu) {
                let of = |ffn| run_stored(&gpu, tiles, case, x.view(), ffn).map(|y| y.mapv(bf16::to_bits));
                assert_eq!(of(&quantized), of(&plain), "{} {tiles:?} {scheme:?}", gpu.name());
            }
        }
    }
}

/// Where gates and ups are beyond the limit, on either side or not numbers: g′ is clamped from above only.
#[test]
fn what_is_beyond_the_limit() {
    let values = [-50.0_f32, -8.0, -7.0, -1.0, 0.0, 6.75, 7.0, 7.25, 50.0, f32::NAN];
    let x = Array2::from_shape_fn((1, 1), |_| bf16::ONE);
    for gpu in devices() {
        let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
        let pairs = values.len() * values.len();
        let (gate, up) = (|i: usize| values[i / values.len()], |i: usize| values[i % values.len()]);
        let rows = |i: usize| bf16::from_f32(if i < pairs { gate(i) } else { up(i - pairs) });
        let gate_up = Array2::from_shape_fn((2 * pairs, 1), |(i, _)| rows(i));
        let down = Array2::from_elem((1, pairs), bf16::ZERO);
        let ffn = DenseFfn { gate_up: upload(&gate_up).into(), down: upload(&down).into() };
        let activation = ops::Activation::SwigluOai(M3, GateClamp::Upper);
        let fed = dense_ffn_tiled(&gpu, Tiles::Few, &upload(&x), &ffn, activation).expect("shapes fit");
        let hidden = gpu.download(&fed.hidden).expect("memory");
        for i in 0..pairs {
            let (g, u) = (f64::from(gate(i)), f64::from(up(i)));
            let got = f64::from(hidden[[0, i]]);
            if g.is_nan() || u.is_nan() {
                assert!(got.is_nan(), "g = {g}, u = {u}: {got}");
                continue;
            }
            let g = g.min(7.0);
            let want = (u.clamp(-7.0, 7.0) + 1.0) * g / (1.0 + (-1.702 * g).exp());
            // In f32: α and α·g are rounded, which e^(α·g) turns into 2·|α·g| of u; e^x is within 2 ulp, of 2·u each; the
            // two sums, the quotient and the product add one u each. Then comes the rounding to bf16.
            let of_f32 = (2.0 * (1.702 * g).abs() + 8.0) / f64::from(1 << 24);
            let allowed = want.abs() * (of_f32 + (1.0 + of_f32) / f64::from(1 << 8));
            assert!((got - want).abs() <= allowed, "g = {g}, u = {u}: {got} against {want}");
        }
    }
}

#[test]
fn c1_projections_of_another_width() {
    for gpu in devices() {
        let zeros = |dim| gpu.zeros::<bf16>(dim).expect("memory");
        let ffn = DenseFfn { gate_up: zeros((6, 5)).into(), down: zeros((5, 4)).into() };
        let error = dense_ffn_tiled(&gpu, Tiles::Few, &zeros((2, 5)), &ffn, ops::Activation::Swiglu);
        assert_eq!(error.expect_err("3 of 4").to_string(), "dense_ffn K1: rows(w1, w3) = 6, expected 2·m = 8");
    }
}
