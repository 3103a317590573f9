//! `reference/src/ops/layer_norm.rs`.

use ndarray::{Array1, Array2, Axis, array, concatenate};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::ops::layer_norm::{LayerNorm, layer_norm};
use reference::reduction::Reduction;
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::Order;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// As released.
const EPS: f64 = 1e-5;

/// x \[n, d\], w and b \[d\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    x: Matrix,
    w: Matrix,
    b: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> LayerNorm {
        LayerNorm::under(&self.contract, EPS)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&ideal(), &self.x, &self.w.vector(), &self.b.vector())
    }

    /// What devices make of x: the reference in f32, two passes with other orders, and one by Welford's recurrence.
    fn devices(&self, x: &Array2<f32>) -> Vec<Array2<f64>> {
        let p = self.params();
        let (w, b) = (self.w.f32(), self.b.f32());
        let own = layer_norm(&p, x.view(), w.row(0), b.row(0)).expect("good").mapv(f64::from);
        let kernels = [two_passes, from_the_end, welford].into_iter().map(|moments| {
            let mut y = Array2::zeros(x.dim());
            for (xi, mut yi) in x.rows().into_iter().zip(y.rows_mut()) {
                let (mean, variance) = moments(&xi.to_vec());
                let scale = (variance + f32::of(EPS)).sqrt().recip();
                for (j, y) in yi.iter_mut().enumerate() {
                    // As PyTorch on a processor has it: x·r − μ·r.
                    let normalized = xi[j].mul_add(scale, -mean * scale);
                    *y = p.output.round(normalized.mul_add(w[[0, j]], b[[0, j]])).wide();
                }
            }
            y
        });
        kernels.chain([own]).collect()
    }
}

fn two_passes(x: &[f32]) -> (f32, f32) {
    let d = f32::of(x.len() as f64);
    let mean = x.iter().sum::<f32>() / d;
    (mean, x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / d)
}

fn from_the_end(x: &[f32]) -> (f32, f32) {
    let back: Vec<f32> = x.iter().rev().copied().collect();
    two_passes(&back)
}

fn welford(x: &[f32]) -> (f32, f32) {
    let (mut mean, mut squares) = (0.0_f32, 0.0_f32);
    for (i, x) in x.iter().enumerate() {
        let delta = x - mean;
        mean += delta / f32::of((i + 1) as f64);
        squares += delta * (x - mean);
    }
    (mean, squares / f32::of(x.len() as f64))
}

fn ideal() -> LayerNorm {
    LayerNorm::under(&RoundingContract::IDEAL, EPS)
}

fn oracle(p: &LayerNorm, x: &Array2<f64>, w: &Array1<f64>, b: &Array1<f64>) -> Array2<f64> {
    layer_norm(p, x.view(), w.view(), b.view()).expect("the case keeps the contract")
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    (contract(), noise(), (1..4_usize, 1..70_usize)).prop_flat_map(move |(contract, noise, (n, d))| {
        let matrix = |rows| filled((rows, d), fill.clone(), contract.activations);
        let weights = || filled((1, d), Just(Fill::Activation), contract.activations);
        (matrix(n), weights(), weights()).prop_map(move |(x, w, b)| Case { contract, x, w, b, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

/// Twice the ideal's own error: two evaluations in f64.
fn close(one: &Array2<f64>, two: &Array2<f64>, x: &Array2<f64>, w: &Array1<f64>) -> Result<(), TestCaseError> {
    let mut bound = ideal().bound(&Tracked::exact(x.clone()), w.view(), one);
    bound.certain *= 2.0;
    within(two, one, &bound).map(|_| ())
}

proptest! {
    /// The definition, without the reference's own loop: mean 0, and mean square v/(v + ε).
    #[test]
    fn rows_have_zero_mean_and_unit_variance(case in case_of(Just(Fill::Activation))) {
        let d = case.x.ncols();
        let y = oracle(&ideal(), &case.x, &Array1::ones(d), &Array1::zeros(d));
        for (x, y) in case.x.rows().into_iter().zip(y.rows()) {
            let limit = |scale: f64| 64.0 * d as f64 * f64::UNIT_ROUNDOFF * (1.0 + scale);
            let variance = x.var(0.0);
            let large = x.iter().fold(0.0_f64, |top, x| top.max(x.abs())) / (variance + EPS).sqrt();
            prop_assert!(y.mean().expect("d ≥ 1").abs() <= limit(large));
            prop_assert!((y.pow2().mean().expect("d ≥ 1") - variance / (variance + EPS)).abs() <= limit(large * large));
        }
    }

    /// A row of one value is b, exactly: its deviations are 0. A mean of d equal f64 may be off by a little.
    #[test]
    fn a_constant_row_is_the_bias(case in case_of(Just(Fill::Equal))) {
        let d = case.x.ncols();
        let want = Array2::from_shape_fn(case.x.dim(), |(_, j)| case.b[[0, j]]);
        close(&case.want(), &want, &case.x, &case.w.vector())?;
        let powers = Array2::from_elem((1, d.next_power_of_two()), 3.0);
        let (w, b) = (Array1::from_elem(powers.ncols(), 2.0), Array1::from_elem(powers.ncols(), 0.5));
        prop_assert!(oracle(&ideal(), &powers, &w, &b).iter().all(|&y| y == 0.5));
    }

    /// What is added to every element of a row is taken off again. Whole numbers, so that nothing rounds.
    #[test]
    fn a_constant_in_a_row_changes_nothing(case in case_of(Just(Fill::Whole)), by in -100..100_i32) {
        let moved = &*case.x + f64::from(by);
        close(&case.want(), &oracle(&ideal(), &moved, &case.w.vector(), &case.b.vector()), &moved, &case.w.vector())?;
    }

    #[test]
    fn is_affine_in_weight_and_bias(case in case()) {
        let (w, b) = (case.w.vector(), case.b.vector());
        let none = Array1::zeros(w.len());
        let parts = oracle(&ideal(), &case.x, &w, &none) + &b;
        close(&case.want(), &parts, &case.x, &w)?;
        let twice = oracle(&ideal(), &case.x, &(&w * 2.0), &none);
        prop_assert_eq!(twice, oracle(&ideal(), &case.x, &w, &none) * 2.0);
    }

    #[test]
    fn rows_do_not_see_each_other(case in case()) {
        let other = Matrix::new(case.x.dim(), Fill::Activation, case.x.storage(), 7);
        let both = concatenate(Axis(0), &[case.x.view(), other.view()]).expect("same width");
        let y = oracle(&case.params(), &both, &case.w.vector(), &case.b.vector());
        let alone = oracle(&case.params(), &case.x, &case.w.vector(), &case.b.vector());
        prop_assert_eq!(y.slice(ndarray::s![..alone.nrows(), ..]), alone);
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, case.w.row(0), &want);
        for got in case.devices(&x.f32()) {
            within(&got, &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, case.w.row(0), &want);
        for got in case.devices(&x.f32()) {
            likely(&got, &want, &bound)?;
        }
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut x = case.x.values();
            x[[0, at.index(case.x.ncols())]] = bad;
            let y = oracle(&case.params(), &x, &case.w.vector(), &case.b.vector());
            prop_assert!(y.row(0).iter().all(|y| y.is_nan()));
            prop_assert!(y.rows().into_iter().skip(1).all(|row| row.iter().all(|y| y.is_finite())));
        }
    }
}

/// Of 1, 3, 5, 7 the mean is 4 and the variance 5, not 20/3: with ε = 11, r = 1/4.
#[test]
fn by_hand() {
    let p = LayerNorm { eps: 11.0, ..ideal() };
    let (w, b) = (array![4.0, 4.0, 8.0, -4.0], array![0.0, 1.0, 0.0, 0.5]);
    assert_eq!(oracle(&p, &array![[1.0, 3.0, 5.0, 7.0]], &w, &b), array![[-3.0, 0.0, 2.0, -2.5]]);
}

/// z of 1, 3 is ∓1/√(1 + ε) = ∓0.999995; 1 + 2⁻⁷ of it, and 2⁻⁸: 1.01171… rounded once, in bf16 1.0078125 (spacing
/// 2⁻⁷). Rounded before the bias it would be 1.0078125 + 2⁻⁸, a tie, and 1.015625.
#[test]
fn r1_rounds_once_at_the_end() {
    let p = LayerNorm::under(&RoundingContract::EAGER_BF16, EPS);
    let (one, step) = (1.0 + 2.0_f64.powi(-7), 2.0_f64.powi(-8));
    let y = oracle(&p, &array![[1.0, 3.0]], &array![one, one], &array![step, step]);
    assert_eq!(y[[0, 1]], one);
}

/// Two passes whose every addition rounds the same way, on positive numbers: the mean is off by nearly d·u.
#[test]
fn the_bound_is_approached_by_a_sum() {
    let d = 512;
    let mut x = Array2::from_elem((1, d), 2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20)));
    x[[0, 0]] = 1.0;
    let (w, b) = (Array1::ones(d), Array1::zeros(d));
    let want = oracle(&LayerNorm { eps: 1.0, ..ideal() }, &x, &w, &b);
    let p = LayerNorm { eps: 1.0, ..LayerNorm::under(&RoundingContract::EAGER_F32, EPS) };
    let got = layer_norm(&p, x.mapv(f32::of).view(), w.mapv(f32::of).view(), b.mapv(f32::of).view()).expect("good");
    let ratio = reached(&got.mapv(f64::from), &want, &p.bound(&Tracked::exact(x), w.view(), &want));
    assert!((0.15..=1.0).contains(&ratio), "{ratio}");
}

/// An ε of 10⁻⁵ in the place of 10⁻⁶ moves y by 75 roundings of f32: seen where the order of the sums is known.
#[test]
fn another_epsilon_is_seen_where_the_order_is_known() {
    let d = 6144;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let x = Array2::from_shape_fn((1, d), |_| f32::of(rng.random_range(-1.7..1.7)).wide());
    let (w, b) = (Array1::ones(d), Array1::zeros(d));
    let want = oracle(&LayerNorm { eps: 1e-6, ..ideal() }, &x, &w, &b);
    let row = x.row(0).mapv(f32::of).to_vec();
    let of = |eps: f64| {
        let sum = |x: &[f32]| Order::Block.dot(x, &vec![1.0; d]) / f32::of(d as f64);
        let mean = sum(&row);
        let squares: Vec<f32> = row.iter().map(|x| (x - mean) * (x - mean)).collect();
        let r = (sum(&squares) + f32::of(eps)).sqrt().recip();
        Array2::from_shape_fn((1, d), |(_, j)| ((row[j] - mean) * r).wide())
    };
    let reached = |eps: f64, reduction: Reduction| {
        let contract = RoundingContract { reduction, ..RoundingContract::EAGER_F32 };
        let bound = LayerNorm::under(&contract, 1e-6).bound(&Tracked::exact(x.clone()), w.view(), &want);
        reached(&of(eps), &want, &bound)
    };
    assert!(reached(1e-6, Reduction::Parity) < 0.5);
    assert!(reached(1e-5, Reduction::Parity) > 1.0);
    assert!(reached(1e-5, Reduction::Any) < 0.1);
}

/// bf16 outputs: the rounding of the output is nearly all of the bound.
#[test]
fn the_bound_is_reached_by_the_output() {
    let p = LayerNorm::under(&RoundingContract::EAGER_BF16, EPS);
    let most = (1..200).map(|i| {
        let (x, w, b) = (array![[-1.0, 1.0]], array![1.0, 1.0], array![0.0, f64::from(i) / 128.0]);
        let want = oracle(&ideal(), &x, &w, &b);
        reached(&oracle(&p, &x, &w, &b), &want, &p.bound(&Tracked::exact(x), w.view(), &want))
    });
    let most = most.fold(0.0, f64::max);
    assert!((0.98..=1.0).contains(&most), "{most}");
}

/// An error of one element, which is all of the variance: y moves by half of it at first order, as μ moves by half.
#[test]
fn the_bound_of_input_errors_is_approached() {
    let (w, b) = (array![1.0, 1.0], array![0.0, 0.0]);
    let p = LayerNorm { eps: 100.0, ..ideal() };
    let mut x = Tracked::exact(array![[0.0, 0.0]]);
    x.error.as_mut().expect("exact is tracked").certain.fill(0.01);
    let want = oracle(&p, &x.value, &w, &b);
    let got = oracle(&p, &array![[-0.01, 0.01]], &w, &b);
    let ratio = reached(&got, &want, &p.bound(&x, w.view(), &want));
    assert!((0.49..=1.0).contains(&ratio), "{ratio}");
}

/// Runs in f32 stray from f64; what a stochastic run draws strays as far, and no further than the variances that are stated.
#[test]
fn stochastic_runs_stray_as_far_as_arithmetic_in_f32() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let d = 384;
    let x = Array2::from_shape_simple_fn((32, d), || f32::of(rng.random_range(-2.0..3.0)).wide());
    let [w, b] = [(); 2].map(|()| Array1::from_shape_simple_fn(d, || f32::of(rng.random_range(0.5..1.5)).wide()));
    let want = oracle(&ideal(), &x, &w, &b);
    let strays = |y: &Array2<f64>| (y - &want).pow2().sum().sqrt();
    let f32s = |x: &Array1<f64>| x.mapv(f32::of);
    let p = LayerNorm::under(&RoundingContract::EAGER_F32, EPS);
    let own = layer_norm(&p, x.mapv(f32::of).view(), f32s(&w).view(), f32s(&b).view()).expect("good").mapv(f64::from);
    // In u²/3 of each value: r's, of the sum and of the root, three steps, and the last rounding, whose variance is twice as large;
    // and the mean's, in units of r·w.
    let u2 = Storage::F32.unit_roundoff().powi(2) / 3.0;
    let mut squares = 0.0;
    for (x, y) in x.rows().into_iter().zip(want.rows()) {
        let (mean, r) = (x.mean().expect("d ≥ 1"), 1.0 / (x.var(0.0) + EPS).sqrt());
        let of_mean = (d as f64 / 2.0 + 1.0) * (x.pow2().sum() / (d * d) as f64 + mean * mean);
        for ((x, y), (w, b)) in x.iter().zip(y).zip(w.iter().zip(&b)) {
            let (z, size) = (y - b, w * r * (x.abs() + mean.abs()));
            let own = (d as f64 / 4.0 + 16.0) * z * z + size * size + (z.abs() + b.abs()).powi(2) + 2.0 * y * y;
            squares += u2 * (own + (w * r).powi(2) * of_mean);
        }
    }
    for seed in 0..8 {
        let drawn = strays(&oracle(&LayerNorm::under(&RoundingContract::EAGER_F32.stochastic(seed), EPS), &x, &w, &b));
        assert!(strays(&own) < drawn && drawn < 1.5 * squares.sqrt(), "{}, {drawn}, {squares}", strays(&own));
    }
}

#[test]
fn constraints() {
    let fails = |p: &LayerNorm, (n, d): (usize, usize), w: usize, b: usize| {
        let x = Array2::<f64>::zeros((n, d));
        layer_norm(p, x.view(), Array1::zeros(w).view(), Array1::zeros(b).view()).expect_err("against it").to_string()
    };
    assert_eq!(fails(&ideal(), (1, 0), 0, 0), "layer_norm C1: min(n, d) = 0, expected at least 1");
    assert_eq!(fails(&ideal(), (1, 2), 3, 2), "layer_norm C2: len(w) = 3, expected d = 2");
    assert_eq!(fails(&ideal(), (1, 2), 2, 1), "layer_norm C3: len(b) = 1, expected d = 2");
    assert_eq!(fails(&LayerNorm { eps: 0.0, ..ideal() }, (1, 2), 2, 2), "layer_norm C4: ε = 0, expected above 0");
}
