//! `optimized/kernels/router.cu` and `optimized/src/ops/router.rs`.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::router::router;
use proptest::prelude::*;
use reference::matrix::Matrix;
use reference::ops::linear::Linear;
use reference::ops::router as oracle;
use reference::{RoundingContract, Semantics, Storage, Tracked};
use tests::bounds::{assert_within, wide};
use tests::device::devices;
use tests::values::{activations, whole_numbers};

/// What the device says, on the host.
struct Said {
    logits: Array2<f32>,
    scores: Array2<f32>,
    choice: Array2<f32>,
    chosen: Array2<usize>,
    weights: Array2<f32>,
}

fn run(gpu: &Gpu, x: &Array2<bf16>, gate: &Array2<f32>, bias: &Array2<f32>, k: usize) -> Said {
    let upload = |matrix: &Array2<f32>| gpu.upload(matrix.view()).expect("memory");
    let x = gpu.upload(x.view()).expect("memory");
    let routed = router(gpu, &x, &upload(gate), &upload(bias), k).unwrap_or_else(|error| panic!("{error}"));
    let chosen = gpu.download(&routed.chosen).expect("memory");
    Said {
        logits: gpu.download(&routed.logits).expect("memory"),
        scores: gpu.download(&routed.scores).expect("memory"),
        choice: gpu.download(&routed.choice).expect("memory"),
        chosen: chosen.mapv(|expert| usize::try_from(expert).expect("experts are not negative")),
        weights: gpu.download(&routed.weights).expect("memory"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Each step from the device's own input to it.
    #[test]
    fn every_step_is_within_its_bound((n, d, e) in (1..20_usize, 1..200_usize, 1..70_usize), pick in 0..100_usize, seed: u64) {
        let k = 1 + pick % e.min(32);
        let (x, gate) = (activations(seed, (n, d)), activations(!seed, (e, d)).mapv(f32::from));
        let bias = activations(seed ^ 1, (1, e)).mapv(f32::from);
        for gpu in devices() {
            let said = run(&gpu, &x, &gate, &bias, k);
            let contract = RoundingContract::PARITY;
            let exact = |values: &Array2<f32>| Tracked::exact(values.mapv(f64::from));
            let got = |values: &Array2<f32>| values.mapv(f64::from);

            let linear = Linear::router(&contract);
            let weight = Matrix::stored(got(&gate).view(), Storage::F32);
            let z = wide(&x).dot(&got(&gate).t());
            assert_within(&got(&said.logits), &z, &linear.bound(&Tracked::exact(wide(&x)), &weight, &z), "logits");

            let p = oracle::Router::under(&contract, &Semantics::DOCUMENTS, k);
            let r = oracle::scores(&p, got(&said.logits).view());
            assert_within(&got(&said.scores), &r, &p.bound_scores(&exact(&said.logits), &r), "scores");
            let bias = got(&bias).row(0).to_owned();
            let c = oracle::choice(&p, got(&said.scores).view(), bias.view()).expect("a bias for each");
            assert_within(&got(&said.choice), &c, &p.bound_choice(&exact(&said.scores), &c), "choice");
            let chosen = oracle::top_k(k, got(&said.choice).view());
            prop_assert_eq!(&said.chosen, &chosen);
            let w = oracle::weights(&p, got(&said.scores).view(), c.view(), chosen.view());
            let error = p.bound_weights(&exact(&said.scores), &exact(&said.choice), chosen.view(), &w);
            assert_within(&got(&said.weights), &w, &error, "weights");
        }
    }

    /// A token's bits do not depend on the tokens beside it.
    #[test]
    fn tokens_do_not_see_each_other(n in 2..20_usize, first in 0..19_usize, seed: u64) {
        let first = first % n;
        let (x, gate) = (activations(seed, (n, 40)), activations(!seed, (12, 40)).mapv(f32::from));
        let bias = activations(seed ^ 1, (1, 12)).mapv(f32::from);
        for gpu in devices() {
            let whole = run(&gpu, &x, &gate, &bias, 3);
            let part = run(&gpu, &x.slice(s![first.., ..]).to_owned(), &gate, &bias, 3);
            prop_assert_eq!(part.logits.mapv(f32::to_bits), whole.logits.slice(s![first.., ..]).mapv(f32::to_bits));
            prop_assert_eq!(part.weights.mapv(f32::to_bits), whole.weights.slice(s![first.., ..]).mapv(f32::to_bits));
            prop_assert_eq!(&part.chosen, &whole.chosen.slice(s![first.., ..]));
        }
    }

    /// Equal experts: the lowest come first, and each only once.
    #[test]
    fn of_equal_experts_the_lowest_is_chosen(e in 1..100_usize, pick in 0..100_usize, seed: u64) {
        let k = 1 + pick % e.min(32);
        let bias = whole_numbers(seed, (1, e), 1).mapv(f32::from);
        for gpu in devices() {
            let said = run(&gpu, &Array2::from_elem((2, 8), bf16::ONE), &Array2::zeros((e, 8)), &bias, k);
            prop_assert_eq!(&said.chosen, &oracle::top_k(k, said.choice.view()));
        }
    }
}

/// A sigmoid saturates at both ends; where all chosen scores underflow, the weights are not numbers, as in the original.
#[test]
fn saturated_experts() {
    let gate = Array2::from_shape_fn((4, 1), |(e, _)| [30.0, 20.0, -100.0, -100.0][e]);
    for gpu in devices() {
        let one = Array2::from_elem((1, 1), bf16::ONE);
        let high = run(&gpu, &one, &gate, &Array2::zeros((1, 4)), 2);
        assert_eq!(high.chosen.row(0).to_vec(), [0, 1]);
        assert_eq!(high.weights.row(0).to_vec(), [0.5, 0.5]);
        let bias = Array2::from_shape_fn((1, 4), |(_, e)| [0.0, 0.0, 9.0, 9.0][e]);
        let low = run(&gpu, &one, &gate, &bias, 2);
        assert_eq!(low.chosen.row(0).to_vec(), [2, 3]);
        assert!(low.weights.iter().all(|w| w.is_nan()));
    }
}
