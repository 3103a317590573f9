//! `reference/src/ops/rms_norm.rs`.

use ndarray::{Array1, Array2, Axis, array, concatenate};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::compare::compare;
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::reduction::Reduction;
use reference::rounding::RmsRound;
use reference::semantics::{EpsPlace, NormWeight};
use reference::{Real, Rounding, RoundingContract, Storage, Tracked};
use tests::judge::{NEVER, likely, reached, within};
use tests::simulated::Order;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, matrix, noise, random};

const EPS: f64 = 1e-6;

/// x \[n, d\], w \[d\], under a contract, with errors of x.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    place: EpsPlace,
    weight: NormWeight,
    x: Matrix,
    w: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> RmsNorm {
        RmsNorm::under(&self.contract, EPS, self.place).weighing(self.weight)
    }

    fn ideal(&self) -> RmsNorm {
        RmsNorm::under(&RoundingContract::IDEAL, EPS, self.place).weighing(self.weight)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let place = prop_oneof![Just(EpsPlace::Inside), Just(EpsPlace::Outside)];
    let weight = prop_oneof![Just(NormWeight::Plain), Just(NormWeight::OnePlus)];
    let dims = (1..4_usize, 1..70_usize);
    (contract(), place, weight, noise(), dims).prop_flat_map(move |(contract, place, weight, noise, (n, d))| {
        let storage = contract.activations;
        (filled((n, d), fill.clone(), storage), matrix((1, d), storage)).prop_map(move |(x, w)| Case {
            contract,
            place,
            weight,
            x,
            w,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

/// The oracle, on a case known to be good.
fn oracle(p: &RmsNorm, x: &Array2<f64>, w: &Array1<f64>) -> Array2<f64> {
    rms_norm(p, x.view(), w.view()).expect("the case keeps the contract")
}

fn in_f32(p: &RmsNorm, x: &Array2<f32>, w: &Array1<f64>) -> Array2<f64> {
    rms_norm(p, x.view(), w.mapv(f32::of).view()).expect("the case keeps the contract").mapv(f64::from)
}

/// A kernel: the sum in some order, 1/√ off by up to two ulps.
fn kernel(p: &RmsNorm, x: &Array2<f32>, w: &Array1<f64>, order: Order, off: f64) -> Array2<f64> {
    let mut y = Array2::zeros(x.dim());
    for (xi, mut yi) in x.rows().into_iter().zip(y.rows_mut()) {
        let xi = xi.to_vec();
        let mean = order.dot(&xi, &xi) / f32::of(xi.len() as f64);
        let norm = match p.eps_place {
            EpsPlace::Inside => (mean + f32::of(p.eps)).wide().sqrt(),
            EpsPlace::Outside => (mean.sqrt() + 1e-8).wide(),
        };
        let r = f32::of((1.0 + 3.0 * off * f32::UNIT_ROUNDOFF) / norm);
        for (j, &x) in xi.iter().enumerate() {
            let w = f32::of(w[j]);
            let m = if p.weight == NormWeight::OnePlus { 1.0 + w } else { w };
            yi[j] = p.output.round(m * p.normalized.round(x * r)).wide();
        }
    }
    y
}

proptest! {
    /// The definition, without the reference's own loop: mean(y²) = mean(x²) / (mean(x²) + ε) for w = 1.
    #[test]
    fn rows_have_unit_mean_square(case in case()) {
        let p = RmsNorm { eps_place: EpsPlace::Inside, weight: NormWeight::Plain, ..case.ideal() };
        let y = oracle(&p, &case.x, &Array1::ones(case.x.ncols()));
        let limit = (4 * case.x.ncols()) as f64 * f64::UNIT_ROUNDOFF;
        for (xi, yi) in case.x.rows().into_iter().zip(y.rows()) {
            let (of_x, of_y) = (xi.pow2().mean().expect("d ≥ 1"), yi.pow2().mean().expect("d ≥ 1"));
            prop_assert!((of_y - of_x / (of_x + EPS)).abs() <= limit);
        }
    }

    #[test]
    fn sign_of_x_passes_through_exactly(case in case()) {
        let (p, w) = (case.params(), case.w.vector());
        prop_assert_eq!(oracle(&p, &-&*case.x, &w), -oracle(&p, &case.x, &w));
    }

    /// Unless a result falls among the subnormal numbers, whose spacing does not double.
    #[test]
    fn doubling_w_doubles_y_exactly(case in case()) {
        let (p, w) = (case.ideal().weighing(NormWeight::Plain), case.w.vector());
        prop_assert_eq!(oracle(&p, &case.x, &(&w * 2.0)), oracle(&p, &case.x, &w) * 2.0);
    }

    /// D08: 1 + w of a weight that is 1 less; and that of zeros is 1.
    #[test]
    fn one_plus_a_weight_is_that_weight_and_one(case in case()) {
        let (gemma, plain) = (case.ideal().weighing(NormWeight::OnePlus), case.ideal().weighing(NormWeight::Plain));
        let w = case.w.vector().mapv(f64::round);
        prop_assert_eq!(oracle(&gemma, &case.x, &(&w - 1.0)), oracle(&plain, &case.x, &w));
        prop_assert_eq!(oracle(&gemma, &case.x, &(&w * 0.0)), oracle(&plain, &case.x, &Array1::ones(w.len())));
    }

    #[test]
    fn scaling_x_by_a_power_of_two_and_eps_by_its_square_changes_nothing(case in case(), k in -9..9) {
        let p = RmsNorm { eps_place: EpsPlace::Inside, ..case.params() };
        let scaled = RmsNorm { eps: p.eps * 4.0_f64.powi(k), ..p };
        let w = case.w.vector();
        prop_assert_eq!(oracle(&scaled, &(&*case.x * 2.0_f64.powi(k)), &w), oracle(&p, &case.x, &w));
    }

    #[test]
    fn rows_do_not_see_each_other(case in case()) {
        let (p, w) = (case.params(), case.w.vector());
        let twice = concatenate(Axis(0), &[case.x.view(), case.x.view()]).expect("same width");
        let y = oracle(&p, &case.x, &w);
        prop_assert_eq!(oracle(&p, &twice, &w), concatenate(Axis(0), &[y.view(), y.view()]).expect("same width"));
    }

    /// Up to the order of the sum: d·u of it, of which the root takes half, and the last bits of y.
    #[test]
    fn reversing_the_channels_reverses_them(case in case()) {
        let (p, w) = (case.ideal(), case.w.vector());
        let mut back = oracle(&p, &case.x.slice(ndarray::s![.., ..;-1]).to_owned(), &w.slice(ndarray::s![..;-1]).to_owned());
        back.invert_axis(Axis(1));
        let bound = p.bound(&case.x.exact(), w.view(), &back);
        within(&back, &oracle(&p, &case.x, &w), &bound)?;
    }

    /// What licenses `bound` for the device: f32 accumulators keep it, whatever errors of x came before.
    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, w) = (case.params(), case.noise.on(&case.x, 0), case.w.vector());
        let want = oracle(&case.ideal(), &case.x, &w);
        let bound = p.bound(&x.tracked, w.view(), &want);
        within(&in_f32(&p, &x.f32(), &w), &want, &bound)?;
        for order in Order::ROUNDING {
            for off in [-1.0, 1.0] {
                within(&kernel(&p, &x.f32(), &w, order, off), &want, &bound)?;
            }
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, w) = (case.params(), case.noise.on(&case.x, 0), case.w.vector());
        let want = oracle(&case.ideal(), &case.x, &w);
        likely(&in_f32(&p, &x.f32(), &w), &want, &p.bound(&x.tracked, w.view(), &want))?;
    }

    #[test]
    fn a_row_of_zeros_stays_zero(case in case_of(Just(Fill::Zero))) {
        prop_assert_eq!(oracle(&case.params(), &case.x, &case.w.vector()), Array2::<f64>::zeros(case.x.dim()));
    }

    /// A NaN in a row is seen all along it, an infinity at least where it stands; other rows see neither.
    #[test]
    fn nan_and_infinity_stay_visible(case in case(), at in any::<prop::sample::Index>()) {
        let (p, w, j) = (case.params(), Array1::ones(case.x.ncols()), at.index(case.x.ncols()));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut x = case.x.values();
            x[[0, j]] = bad;
            let y = oracle(&p, &x, &w);
            prop_assert!(y[[0, j]].is_nan());
            prop_assert!(!bad.is_nan() || y.row(0).iter().all(|y| y.is_nan()));
            prop_assert!(y.rows().into_iter().skip(1).all(|row| row.iter().all(|y| y.is_finite())));
        }
    }
}

/// √(3² + 4²) / √2 is 5 / √2 without ε; with S3's outside the root, a thousandth of 10⁻⁸ becomes 10⁻³ / 1.001.
#[test]
fn d09_eps_inside_and_outside_the_root() {
    let place = |eps_place| RmsNorm::under(&RoundingContract::IDEAL, EPS, eps_place);
    let (x, w) = (array![[1e-11]], array![1.0]);
    // Inside: 1e-11 / 1e-3 = 1e-8.
    assert!((oracle(&place(EpsPlace::Inside), &x, &w)[[0, 0]] - 1e-8).abs() < 1e-8 * 4.0 * f64::EPSILON);
    let outside = oracle(&place(EpsPlace::Outside), &x, &w)[[0, 0]];
    assert!((outside - 1e-3 / 1.001).abs() < 1e-3 * 4.0 * f64::EPSILON);
}

/// D08: 4 / √12.5 = 1.13137…, times 1 + 2 is 3.394…; w alone would make it 2.2627…, and R1 with bf16's 1.1328125 3.40625.
#[test]
fn d08_one_plus_rounds_once() {
    let p = RmsNorm::under(&RoundingContract::EAGER_BF16, EPS, EpsPlace::Inside).weighing(NormWeight::OnePlus);
    assert_eq!(oracle(&p, &array![[4.0, 3.0]], &array![2.0, 0.0]), array![[3.390_625, 0.847_656_25]]);
}

/// A bound cannot tell whether R1 is there; these numbers can: without it y₁ is 3.390625.
#[test]
fn r1_rounds_before_the_weight() {
    let p = RmsNorm::under(&RoundingContract::EAGER_BF16, EPS, EpsPlace::Inside);
    assert_eq!(oracle(&p, &array![[4.0, 3.0]], &array![3.0, 1.0]), array![[3.40625, 0.847_656_25]]);
}

/// D10: fused kernels round once; with R1 y₁ would be 3.40625.
#[test]
fn d10_one_rounding_skips_r1() {
    let contract = RoundingContract { rms: RmsRound::One, ..RoundingContract::EAGER_BF16 };
    let p = RmsNorm::under(&contract, EPS, EpsPlace::Inside);
    assert_eq!(p.normalized, Rounding::NONE);
    assert_eq!(oracle(&p, &array![[4.0, 3.0]], &array![3.0, 1.0]), array![[3.390_625, 0.847_656_25]]);
}

/// One over √(1 + 10⁻⁶) times 1 + 2⁻⁷ is 1.00781…, of which R2 keeps 1.0078125; unrounded it ends in …0746.
#[test]
fn r2_rounds_the_output() {
    let p = RmsNorm::under(&RoundingContract::FUSED, EPS, EpsPlace::Inside);
    assert_eq!(oracle(&p, &array![[1.0]], &array![1.007_812_5]), array![[1.007_812_5]]);
}

/// The first channel is 1 to f32; each other square is a little more than half an ulp of the sum, which rounds up each
/// time. So the sum is off by (d − 1)·u, and y by half of that.
#[test]
fn the_bound_is_reached_by_the_sum() {
    let d = 4096;
    let mut x = Array2::from_elem((1, d), 2.0_f64.powi(-12) * (1.0 + 2.0_f64.powi(-10)));
    x[[0, 0]] = 1.0;
    let p = RmsNorm::under(&RoundingContract::EAGER_F32, EPS, EpsPlace::Inside);
    let w = Array1::ones(d);
    let want = oracle(&RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside), &x, &w);
    let ratio = reached(&in_f32(&p, &x.mapv(f32::of), &w), &want, &p.bound(&Tracked::exact(x), w.view(), &want));
    assert!(ratio > 0.9, "{ratio}");
}

/// M3's width, unit variance, in f32, of an order that is known.
fn wide(reduction: Reduction) -> (RmsNorm, RmsNorm, Array2<f64>, Array1<f64>) {
    let contract = RoundingContract { reduction, ..RoundingContract::EAGER_F32 };
    let under = |contract: &RoundingContract| RmsNorm::under(contract, EPS, EpsPlace::Inside);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let x = Array2::from_shape_fn((4, 6144), |_| f32::of(rng.random_range(-1.7..1.7)).wide());
    (under(&contract), under(&RoundingContract::IDEAL), x, Array1::ones(6144))
}

/// An ε of 10⁻⁵ in the place of 10⁻⁶ moves y by 4.5·10⁻⁶, 75 roundings of f32; d·u/2 would hide 3072, but no sum of known
/// order is off by so much. In any order it may be.
#[test]
fn another_epsilon_is_seen_where_the_order_is_known() {
    for (reduction, order) in [(Reduction::Parity, Order::Block), (Reduction::Torch, Order::Cascade)] {
        let (p, ideal, x, w) = wide(reduction);
        let want = oracle(&ideal, &x, &w);
        let bound = p.bound(&Tracked::exact(x.clone()), w.view(), &want);
        let of = |eps: f64| kernel(&RmsNorm { eps, ..p }, &x.mapv(f32::of), &w, order, 1.0);
        assert!(reached(&of(1e-6), &want, &bound) < 0.5);
        let found = compare(of(1e-5).view(), want.view(), &bound, Storage::Real, NEVER);
        assert_eq!(found.faults, found.count, "{reduction}: {:?}", found.worst);
        let (any, ..) = wide(Reduction::Any);
        assert!(reached(&of(1e-5), &want, &any.bound(&Tracked::exact(x.clone()), w.view(), &want)) < 0.1);
    }
}

/// Random rounding stands for any arithmetic in f32: it strays at least as far as one does that rounds each step to nearest.
#[test]
fn stochastic_runs_stray_as_far_as_arithmetic_in_f32() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let x = Array2::from_shape_fn((32, 40), |_| f32::of(rng.random_range(-1.7..1.7)).wide());
    let w = Array1::from_shape_fn(40, |_| f32::of(rng.random_range(-0.5..0.5)).wide());
    for weight in [NormWeight::Plain, NormWeight::OnePlus] {
        let under = |contract: &RoundingContract| RmsNorm::under(contract, EPS, EpsPlace::Inside).weighing(weight);
        let want = oracle(&under(&RoundingContract::IDEAL), &x, &w);
        let strays = |y: &Array2<f64>| (y - &want).mapv(|d| d * d).sum().sqrt();
        let own = in_f32(&under(&RoundingContract::EAGER_F32), &x.mapv(f32::of), &w);
        for seed in 0..8 {
            let drawn = oracle(&under(&RoundingContract::EAGER_F32.stochastic(seed)), &x, &w);
            let (seen, allowed) = (strays(&own), strays(&drawn));
            // In u²/3: the sum's and the root's, three products, 1 + w, and the last rounding, whose variance is twice as large.
            let squares = 40.0 / 4.0 + 16.0 + 3.0 + 2.0;
            let most = (squares / 3.0_f64).sqrt() * Storage::F32.unit_roundoff() * want.mapv(|y| y * y).sum().sqrt();
            // Of 32 draws of r, their mean square has a standard deviation of a sixth.
            assert!(seen < allowed && allowed < 1.5 * most, "{weight:?}: {seen}, {allowed} and {most}");
        }
    }
}

/// A 1, and squares of a little more than half an ulp of it, as many as its thread or lane adds: these round up each time.
/// The other roundings of the bound need other values.
#[test]
fn the_bound_of_a_known_order_is_approached() {
    for (reduction, order, least) in [(Reduction::Parity, Order::Block, 0.35), (Reduction::Torch, Order::Cascade, 0.15)]
    {
        let (p, ideal, mut x, w) = wide(reduction);
        x.fill(2.0_f64.powi(-12) * (1.0 + 2.0_f64.powi(-10)));
        x.column_mut(0).fill(1.0);
        let want = oracle(&ideal, &x, &w);
        let bound = p.bound(&Tracked::exact(x.clone()), w.view(), &want);
        let ratio = reached(&kernel(&p, &x.mapv(f32::of), &w, order, 0.0), &want, &bound);
        assert!((least..=1.0).contains(&ratio), "{reduction}: {ratio}");
    }
}

#[test]
fn the_bound_of_an_input_error_is_reached() {
    let p = RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside);
    let (x, w) = (array![[1.0, 1.0, 1.0, 1.0]], array![2.0, 2.0, 2.0, 2.0]);
    let want = oracle(&p, &x, &w);
    for (moved, certain, least) in [
        // One channel grows: y₁ moves by 3/4·w·δ, and the bound has |δ|·r + |x|·‖δ‖/√d·r² = 3/2·w·δ.
        (array![[1.0 + 1e-6, 1.0, 1.0, 1.0]], array![[1e-6, 0.0, 0.0, 0.0]], 0.49),
        // One against the rest: w·δ·(1 + 1/2) of 2·w·δ.
        (array![[1.0 + 1e-6, 1.0 - 1e-6, 1.0 - 1e-6, 1.0 - 1e-6]], array![[1e-6, 1e-6, 1e-6, 1e-6]], 0.74),
    ] {
        let mut tracked = Tracked::exact(x.clone());
        tracked.error.as_mut().expect("exact is tracked").certain.assign(&certain);
        let ratio = reached(&oracle(&p, &moved, &w), &want, &p.bound(&tracked, w.view(), &want));
        assert!((least..=1.0).contains(&ratio), "{ratio}");
    }
}

/// The square of more than 1.8·10¹⁹ is infinite in f32, and its row becomes zero there: no rounding error, so a fault.
#[test]
fn an_overflow_of_the_squares_is_a_fault() {
    let x = Matrix::new((1, 3), Fill::Largest, Storage::Bf16, 0);
    let p = RmsNorm::under(&RoundingContract::FUSED, EPS, EpsPlace::Inside);
    let (w, ideal) = (Array1::ones(3), RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside));
    let (want, got) = (oracle(&ideal, &x, &w), in_f32(&p, &x.f32(), &w));
    assert_eq!(got, Array2::<f64>::zeros((1, 3)));
    assert!(want.iter().all(|y| (y.abs() - 1.0).abs() < 1e-9));
    assert!(within(&got, &want, &p.bound(&x.exact(), w.view(), &want)).is_err());
}

#[test]
fn c1_nothing_to_normalize() {
    let p = RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside);
    for (n, d) in [(2, 0), (0, 2)] {
        let err = rms_norm(&p, Array2::<f64>::zeros((n, d)).view(), Array1::ones(d).view())
            .expect_err("against the contract");
        assert_eq!(err.to_string(), "rms_norm C1: min(n, d) = 0, expected at least 1");
    }
}

#[test]
fn c2_weight_of_another_width() {
    let p = RmsNorm::under(&RoundingContract::IDEAL, EPS, EpsPlace::Inside);
    let err =
        rms_norm(&p, Array2::<f64>::zeros((1, 2)).view(), Array1::ones(3).view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rms_norm C2: len(w) = 3, expected d = 2");
}

#[test]
fn c3_epsilon_of_zero() {
    let p = RmsNorm::under(&RoundingContract::IDEAL, 0.0, EpsPlace::Inside);
    let err =
        rms_norm(&p, Array2::<f64>::zeros((1, 2)).view(), Array1::ones(2).view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rms_norm C3: ε = 0, expected above 0");
}

#[test]
fn c4_width_of_zero() {
    let p = RmsNorm { width: 0.0, ..RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside) };
    let err =
        rms_norm(&p, Array2::<f64>::zeros((1, 2)).view(), Array1::ones(2).view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "rms_norm C4: width = 0, expected above 0");
}

/// 3² + 4² over four channels instead of two.
#[test]
fn the_sum_may_be_divided_by_another_number() {
    let p = RmsNorm { width: 2.0, ..RmsNorm::under(&RoundingContract::IDEAL, 1e-6, EpsPlace::Inside) };
    let y = rms_norm(&p, array![[3.0, 4.0]].view(), Array1::ones(2).view()).expect("it keeps the contract");
    assert_eq!(y, array![[3.0, 4.0]] * (1e-6_f64 + 6.25).sqrt().recip());
}
