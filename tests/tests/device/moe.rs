//! `optimized/kernels/moe.cu` and `optimized/src/ops/moe.rs`.

use std::ops::Range;

use half::bf16;
use ndarray::{Array2, Axis, s};
use optimized::device::Gpu;
use optimized::ops;
use optimized::ops::moe::{Experts, Shared, moe_tiled};
use optimized::ops::router::Routed;
use optimized::tiles::Tiles;
use optimized::weight::WeightMatrix;
use proptest::prelude::*;
use reference::config::Coefficients;
use reference::matrix::Matrix;
use reference::ops::dense_ffn::Activation;
use reference::ops::linear::{Linear, linear};
use reference::ops::moe::{Moe, WithShared, moe, rows_of, with_shared};
use reference::semantics::{GateClamp, Semantics};
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::bounds::{assert_within, wide};
use tests::cuts::tiles;
use tests::device::devices;
use tests::quantized::{SCHEMES, in_bf16, stored, weight};
use tests::values::{Draw, activations};

/// Tokens, experts, choices, widths.
#[derive(Debug, Clone, Copy)]
struct Case {
    n: usize,
    experts: usize,
    k: usize,
    h: usize,
    intermediate: usize,
    /// Of M3: SwiGLU-OAI, and by what the sum is scaled before the shared expert's output is added.
    m3: Option<f64>,
    seed: u64,
}

const OAI: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };

fn case() -> impl Strategy<Value = Case> {
    let m3 = prop_oneof![Just(None), Just(Some(2.0)), Just(Some(1.5))];
    (1..60_usize, 1..9_usize, 0..8_usize, 1..90_usize, 1..70_usize, m3, any::<u64>()).prop_map(
        |(n, experts, k, h, intermediate, m3, seed)| Case { n, experts, k: 1 + k % experts, h, intermediate, m3, seed },
    )
}

impl Case {
    /// x, the experts' weights one below the other, and each token's choice.
    fn inputs(&self) -> ([Array2<bf16>; 3], Array2<usize>, Array2<f32>) {
        let rows = [
            (0, self.n, self.h),
            (1, self.experts * 2 * self.intermediate, self.h),
            (2, self.experts * self.h, self.intermediate),
        ];
        let matrices = rows.map(|(i, rows, columns)| activations(self.seed.wrapping_add(i), (rows, columns)));
        let mut draw = Draw::new(self.seed);
        let mut chosen = Array2::zeros((self.n, self.k));
        for mut row in chosen.rows_mut() {
            let start = draw.below(self.experts as u64);
            row.iter_mut().zip(start..).for_each(|(to, e)| *to = usize::try_from(e).expect("small") % self.experts);
        }
        let weights = Array2::from_shape_simple_fn((self.n, self.k), || draw.signed_unit());
        (matrices, chosen, weights)
    }

    /// What the shared expert says of the last so many tokens.
    fn shared(&self, tokens: usize) -> Array2<bf16> {
        activations(!self.seed, (self.n, self.h)).slice(s![self.n - tokens.., ..]).to_owned()
    }

    fn activation(&self, contract: &RoundingContract) -> Activation {
        Activation::under(contract, &Semantics::RELEASED, self.m3.map(|_| OAI))
    }
}

/// Activations, outputs, sum, and with what the shared expert says.
fn run(
    gpu: &Gpu,
    tiles: Tiles,
    case: Case,
    x: &Array2<bf16>,
    chosen: &Array2<usize>,
    w: &Array2<f32>,
) -> [Array2<bf16>; 4] {
    let ([_, gate_up, down], _, _) = case.inputs();
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory").into();
    run_stored(gpu, tiles, case, (x, chosen, w), [upload(&gate_up), upload(&down)])
}

/// The same of weights as they are stored.
fn run_stored(
    gpu: &Gpu,
    tiles: Tiles,
    case: Case,
    inputs: (&Array2<bf16>, &Array2<usize>, &Array2<f32>),
    weights: [WeightMatrix; 2],
) -> [Array2<bf16>; 4] {
    run_some(gpu, tiles, (case, 0..case.experts), inputs, weights)
}

/// The same of a rank that has some of the experts.
fn run_some(
    gpu: &Gpu,
    tiles: Tiles,
    (case, own): (Case, Range<usize>),
    (x, chosen, w): (&Array2<bf16>, &Array2<usize>, &Array2<f32>),
    [gate_up, down]: [WeightMatrix; 2],
) -> [Array2<bf16>; 4] {
    let upload = |matrix: &Array2<bf16>| gpu.upload(matrix.view()).expect("memory");
    let scores = || gpu.zeros((x.nrows(), case.experts)).expect("memory");
    let chosen = chosen.mapv(|e| i32::try_from(e).expect("small"));
    let routed = Routed {
        logits: scores(),
        scores: scores(),
        choice: scores(),
        chosen: gpu.upload(chosen.view()).expect("memory"),
        weights: gpu.upload(w.view()).expect("memory"),
    };
    let activation =
        if case.m3.is_some() { ops::Activation::SwigluOai(OAI, GateClamp::Upper) } else { ops::Activation::Swiglu };
    let experts = Experts { gate_up, down, first: own.start, count: own.len(), activation };
    let output = upload(&case.shared(x.nrows()));
    let shared = case.m3.map(|scale| Shared { output: &output, scale: f32::of(scale) });
    let fed = moe_tiled(gpu, tiles, &upload(x), &routed, &experts, shared);
    let fed = fed.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let with_shared = fed.with_shared.unwrap_or_else(|| upload(&Array2::default((x.nrows(), case.h))));
    [fed.hidden, fed.outputs, fed.sum, with_shared].map(|matrix| {
        let padded = gpu.download_padded(&matrix).expect("memory");
        let (inside, padding) = padded.view().split_at(Axis(1), matrix.dim().1);
        assert!(padding.iter().all(|&x| x == bf16::ZERO), "padding is zero");
        inside.to_owned()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    /// Each step from the device's own input to it.
    #[test]
    fn every_step_is_within_its_bound(case in case()) {
        let ([x, gate_up, down], chosen, weights) = case.inputs();
        let contract = RoundingContract::PARITY;
        let stored = |matrix: Array2<bf16>| Matrix::stored(wide(&matrix).view(), Storage::Bf16);
        let ideal = Linear::under(&RoundingContract::IDEAL);
        for gpu in devices() {
            for tiles in tiles(&gpu) {
                let [hidden, outputs, sum, all] = run(&gpu, tiles, case, &x, &chosen, &weights);
                for expert in 0..case.experts {
                    let rows = rows_of(expert, chosen.view());
                    if rows.is_empty() {
                        continue;
                    }
                    let tokens: Vec<usize> = rows.iter().map(|row| row / case.k).collect();
                    let x = Tracked::exact(wide(&x.select(Axis(0), &tokens)));
                    let first = 2 * expert * case.intermediate;
                    let part = |from: usize| stored(gate_up.slice(s![from..from + case.intermediate, ..]).to_owned());
                    let project = |w: &Matrix<'_>| {
                        let y = linear(&ideal, x.view(), w).expect("shapes fit");
                        let error = Linear::before_activation(&contract).bound(&x, w, &y);
                        Tracked { value: y, error: Some(error) }
                    };
                    let (g, u) = (project(&part(first)), project(&part(first + case.intermediate)));
                    let a = case.activation(&RoundingContract::IDEAL).of(g.view(), u.view()).expect("shapes fit");
                    let error = case.activation(&contract).bound(&g, &u, &a);
                    let got = hidden.select(Axis(0), &rows);
                    assert_within(&wide(&got), &a, &error, &format!("{tiles:?} {case:?} hidden"));

                    let w = stored(down.slice(s![expert * case.h..(expert + 1) * case.h, ..]).to_owned());
                    let a = Tracked::exact(wide(&got));
                    let y = linear(&ideal, a.view(), &w).expect("shapes fit");
                    let error = Linear::under(&contract).bound(&a, &w, &y);
                    assert_within(&wide(&outputs.select(Axis(0), &rows)), &y, &error, &format!("{tiles:?} {case:?} outputs"));
                }
                let (outputs, w) = (Tracked::exact(wide(&outputs)), Tracked::exact(weights.mapv(f64::from)));
                let y = moe(&Moe::under(&RoundingContract::IDEAL), outputs.view(), w.view(), chosen.view()).expect("shapes fit");
                let error = Moe::under(&contract).bound(&outputs, &w, &y);
                assert_within(&wide(&sum), &y, &error, &format!("{tiles:?} {case:?} sum"));

                if let Some(scale) = case.m3 {
                    let p = |contract| WithShared::under(contract, &Semantics::RELEASED, scale);
                    let (y, h) = (Tracked::exact(wide(&sum)), Tracked::exact(wide(&case.shared(case.n))));
                    let z = with_shared(&p(&RoundingContract::IDEAL), y.view(), h.view()).expect("shapes fit");
                    let error = p(&contract).bound(&y, &h, &z);
                    assert_within(&wide(&all), &z, &error, &format!("{tiles:?} {case:?} with the shared expert"));
                }
            }
        }
    }

    /// Ranks that have some experts each: their outputs are those that one has which has all, and 0 elsewhere, and each adds up its
    /// own, in the order of choice.
    #[test]
    fn ranks_add_up_their_own_experts(case in case(), cut in 1..8_usize) {
        let ([x, gate_up, down], chosen, weights) = case.inputs();
        let cut = cut.min(case.experts);
        for gpu in devices() {
            let [hidden, outputs, ..] = run(&gpu, Tiles::Few, case, &x, &chosen, &weights);
            for own in [0..cut, cut..case.experts].into_iter().filter(|own| !own.is_empty()) {
                let rows = |all: &Array2<bf16>, each: usize| {
                    gpu.upload(all.slice(s![own.start * each..own.end * each, ..])).expect("memory").into()
                };
                let of_rank = [rows(&gate_up, 2 * case.intermediate), rows(&down, case.h)];
                let inputs = (&x, &chosen, &weights);
                let [part_hidden, part_outputs, sum, all] =
                    run_some(&gpu, Tiles::Many, (case, own.clone()), inputs, of_rank);
                let is_own = |row: usize| own.contains(&chosen[[row / case.k, row % case.k]]);
                for (part, whole) in [(&part_hidden, &hidden), (&part_outputs, &outputs)] {
                    for (row, (part, whole)) in part.rows().into_iter().zip(whole.rows()).enumerate() {
                        let zeros = || part.iter().all(|x| *x == bf16::ZERO);
                        prop_assert!(if is_own(row) { part == whole } else { zeros() }, "{} row {row}", gpu.name());
                    }
                }
                let want = Array2::from_shape_fn(sum.dim(), |(i, j)| {
                    let slots = (0..case.k).filter(|slot| is_own(i * case.k + slot));
                    let add = |y, slot| weights[[i, slot]].mul_add(f32::from(outputs[[i * case.k + slot, j]]), y);
                    bf16::from_f32(slots.fold(0.0_f32, add))
                });
                prop_assert_eq!(&sum, &want, "{}", gpu.name());
                if let Some(scale) = case.m3 {
                    let shared = case.shared(case.n);
                    let want = Array2::from_shape_fn(sum.dim(), |at| {
                        let scaled = bf16::from_f32(f32::of(scale) * f32::from(sum[at]));
                        bf16::from_f32(f32::from(scaled) + f32::from(shared[at]))
                    });
                    prop_assert_eq!(&all, &want, "{}", gpu.name());
                }
            }
        }
    }

    /// A token's bits depend neither on the tiling nor on the tokens beside it.
    #[test]
    fn tokens_do_not_see_each_other(case in case(), first in 0..60_usize) {
        let first = first % case.n;
        let ([x, ..], chosen, weights) = case.inputs();
        let rest = s![first.., ..];
        let bits = |x: &Array2<bf16>| x.mapv(bf16::to_bits);
        for gpu in devices() {
            let [_, outputs, sum, all] = run(&gpu, Tiles::Many, case, &x, &chosen, &weights);
            let parts = (x.slice(rest).to_owned(), chosen.slice(rest).to_owned(), weights.slice(rest).to_owned());
            let [_, part_outputs, part_sum, part_all] = run(&gpu, Tiles::Few, case, &parts.0, &parts.1, &parts.2);
            let rest_sum = sum.slice(rest).to_owned();
            prop_assert_eq!(bits(&part_sum), bits(&rest_sum));
            prop_assert_eq!(bits(&part_all), bits(&all.slice(rest).to_owned()));
            let rest = outputs.slice(s![first * case.k.., ..]).to_owned();
            prop_assert_eq!(bits(&part_outputs), bits(&rest));
        }
    }
}

/// Experts that end within a block; and only one of the two weights quantized.
#[test]
fn quantized_weights_give_the_bits_of_those_in_bf16() {
    let case = Case { n: 21, experts: 4, k: 2, h: 90, intermediate: 70, m3: Some(2.0), seed: 6 };
    let ([x, ..], chosen, weights) = case.inputs();
    for (seed, scheme) in (1..).zip(SCHEMES) {
        let of_experts = |first: u64, parts: u64, dim| -> Vec<Matrix<'static>> {
            (first..first + parts * case.experts as u64).map(|part| weight(100 * seed + part, dim, scheme, 0)).collect()
        };
        let gate_up = of_experts(0, 2, (case.intermediate, case.h));
        let down = of_experts(50, 1, (case.h, case.intermediate));
        for gpu in devices() {
            let plain = |parts: &[Matrix<'_>]| gpu.upload(in_bf16(parts).view()).expect("memory").into();
            let quantized = |parts: &[Matrix<'_>]| stored(&gpu, parts).into();
            for tiles in tiles(&gpu) {
                let of = |experts| {
                    run_stored(&gpu, tiles, case, (&x, &chosen, &weights), experts).map(|y| y.mapv(bf16::to_bits))
                };
                let want = of([plain(&gate_up), plain(&down)]);
                assert_eq!(of([quantized(&gate_up), quantized(&down)]), want, "{} {tiles:?} {scheme:?}", gpu.name());
                assert_eq!(of([quantized(&gate_up), plain(&down)]), want, "{} {tiles:?} {scheme:?}", gpu.name());
            }
        }
    }
}
