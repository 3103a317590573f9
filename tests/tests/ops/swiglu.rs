//! `reference/src/ops/swiglu.rs`.

use ndarray::{Array2, Zip, array};
use proptest::prelude::*;
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::rounding::ActivationRound;
use reference::semantics::Expert;
use reference::{Real, Rounding, RoundingContract, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::Exponential;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// g and u \[n, d\], under a contract, with errors of both.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    expert: Expert,
    g: Matrix,
    u: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> Swiglu {
        Swiglu::under(&self.contract, self.expert)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&ideal(self.expert), &self.g, &self.u)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let expert = prop_oneof![3 => Just(Expert::Gated), 1 => Just(Expert::Nongated)];
    let dims = (1..4_usize, 1..30_usize);
    (contract(), expert, noise(), dims).prop_flat_map(move |(contract, expert, noise, (n, d))| {
        let storage = contract.activations;
        (filled((n, d), fill.clone(), storage), filled((n, d), fill.clone(), storage)).prop_map(move |(g, u)| Case {
            contract,
            expert,
            g,
            u,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn ideal(expert: Expert) -> Swiglu {
    Swiglu::under(&RoundingContract::IDEAL, expert)
}

fn oracle(p: &Swiglu, g: &Array2<f64>, u: &Array2<f64>) -> Array2<f64> {
    swiglu(p, g.view(), u.view()).expect("the case keeps the contract")
}

/// A kernel: the exponential in base 2 and off by two ulps, a reciprocal instead of the quotient.
fn kernel(p: &Swiglu, g: &Array2<f32>, u: &Array2<f32>, seed: u64) -> Array2<f64> {
    let mut exp = Exponential::new(seed);
    Zip::from(g).and(u).map_collect(|&g, &u| {
        let sigmoid = (1.0 + exp.base_2(g * -std::f32::consts::LOG2_E)).recip();
        let activated = p.activated.round(g * sigmoid);
        p.output.round(if p.expert == Expert::Gated { activated * u } else { activated }).wide()
    })
}

proptest! {
    /// silu(g) − silu(−g) = g·(σ(g) + σ(−g)) = g, up to a sum and a quotient on either side.
    #[test]
    fn the_odd_part_of_silu_is_half_the_identity(case in case()) {
        let one = Array2::ones(case.g.dim());
        let (plus, minus) = (oracle(&ideal(case.expert), &case.g, &one), oracle(&ideal(case.expert), &-&*case.g, &one));
        Zip::from(&plus).and(&minus).and(&*case.g).for_each(|plus, minus, g| {
            assert!((plus - minus - g).abs() <= 8.0 * f64::UNIT_ROUNDOFF * g.abs(), "{g}");
        });
    }

    /// As long as no result is below f64's normal numbers, as one of a whole gate is not.
    #[test]
    fn is_linear_in_u_exactly(case in case_of(Just(Fill::Whole))) {
        let p = ideal(Expert::Gated);
        let a = oracle(&p, &case.g, &case.u);
        prop_assert_eq!(oracle(&p, &case.g, &(&*case.u * -2.0)), &a * -2.0);
        prop_assert_eq!(oracle(&p, &case.g, &Array2::zeros(case.g.dim())), Array2::<f64>::zeros(case.g.dim()));
    }

    #[test]
    fn elements_do_not_see_each_other(case in case()) {
        let a = oracle(&case.params(), &case.g, &case.u);
        prop_assert_eq!(oracle(&case.params(), &case.g.t().to_owned(), &case.u.t().to_owned()), a.t());
    }

    /// D31: without a gate, u does not matter; with u = 1 both are the same.
    #[test]
    fn d31_without_u(case in case()) {
        let p = Swiglu::under(&case.contract, Expert::Nongated);
        let one = Array2::ones(case.g.dim());
        prop_assert_eq!(oracle(&p, &case.g, &case.u), oracle(&Swiglu::under(&case.contract, Expert::Gated), &case.g, &one));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, g, u) = (case.params(), case.noise.on(&case.g, 0), case.noise.on(&case.u, 1));
        let want = case.want();
        let bound = p.bound(&g.tracked, &u.tracked, &want);
        within(&swiglu(&p, g.f32().view(), u.f32().view()).expect("good").mapv(f64::from), &want, &bound)?;
        within(&kernel(&p, &g.f32(), &u.f32(), 1), &want, &bound)?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, g, u) = (case.params(), case.noise.on(&case.g, 0), case.noise.on(&case.u, 1));
        let want = case.want();
        likely(&kernel(&p, &g.f32(), &u.f32(), 2), &want, &p.bound(&g.tracked, &u.tracked, &want))?;
    }

    #[test]
    fn nan_and_infinity_stay_visible(case in case_of(Just(Fill::Equal))) {
        let p = Swiglu::under(&case.contract, Expert::Gated);
        let of = |g: f64, u: f64| oracle(&p, &array![[g]], &array![[u]])[[0, 0]];
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            prop_assert!(!of(1.0, bad).is_finite());
            prop_assert!(!of(bad, 1.0).is_finite());
            prop_assert!(of(0.0, bad).is_nan());
        }
    }
}

/// σ(g) is 1 to f64 from g = 37 on, and g·e^g below −37; below −745 the exponential overflows, and 0 is left, not NaN.
#[test]
fn saturates_on_both_sides() {
    let g = array![[20.0, 90.0, -20.0, -90.0, -800.0]];
    let a = oracle(&ideal(Expert::Gated), &g, &Array2::ones(g.dim()));
    assert_eq!(a[[0, 1]], 90.0);
    assert!((a[[0, 0]] - 20.0 * (1.0 - (-20.0_f64).exp())).abs() < 20.0 * 2.0 * f64::EPSILON);
    assert!((a[[0, 2]] / (-20.0 * (-20.0_f64).exp()) - 1.0).abs() < 1.01 * (-20.0_f64).exp());
    assert!((a[[0, 3]] / (-90.0 * (-90.0_f64).exp()) - 1.0).abs() < 4.0 * f64::EPSILON);
    assert_eq!(a[[0, 4]], 0.0);
}

/// In f32 the exponential overflows at −88.8: zero, which the bound knows to be as good as 90·e⁻⁹⁰·u.
#[test]
fn underflow_in_f32_is_within_the_bound() {
    let (g, u) = (array![[-87.0, -88.5, -90.0, -104.0]], array![[100.0, 100.0, -100.0, 100.0]]);
    for contract in [RoundingContract::EAGER_F32, RoundingContract::FUSED] {
        let p = Swiglu::under(&contract, Expert::Gated);
        let got = swiglu(&p, g.mapv(f32::of).view(), u.mapv(f32::of).view()).expect("good").mapv(f64::from);
        let want = oracle(&ideal(Expert::Gated), &g, &u);
        within(&got, &want, &p.bound(&Tracked::exact(g.clone()), &Tracked::exact(u.clone()), &want)).expect("bounded");
        assert_eq!(got[[0, 2]], 0.0);
    }
}

/// silu(1) = 0.731058…, in bf16 0.73046875; times 1.5 that is 1.095703125, in bf16 1.09375. Without R1 it would be
/// 1.0965877…, in bf16 1.09375 too, so R2 is left out here.
#[test]
fn r1_rounds_the_activation() {
    let p = Swiglu { output: Rounding::NONE, ..Swiglu::under(&RoundingContract::EAGER_BF16, Expert::Gated) };
    assert_eq!(oracle(&p, &array![[1.0]], &array![[1.5]]), array![[1.095_703_125]]);
    let once = Swiglu { output: Rounding::NONE, ..Swiglu::under(&RoundingContract::FUSED, Expert::Gated) };
    assert_eq!(oracle(&once, &array![[1.0]], &array![[1.5]]), array![[1.5 / (1.0 + (-1.0_f64).exp())]]);
}

/// σ(6) = 0.997527…, in bf16 0.99609375; times 6 that is 5.9765625, in bf16 5.96875. silu(6) = 5.985163… is 6 there.
#[test]
fn r1_rounds_the_sigmoid_where_it_is_a_step() {
    let of = |swiglu| Swiglu::under(&RoundingContract { swiglu, ..RoundingContract::EAGER_BF16 }, Expert::Gated);
    assert_eq!(oracle(&of(ActivationRound::Sigmoid), &array![[6.0]], &array![[1.0]]), array![[5.968_75]]);
    assert_eq!(oracle(&of(ActivationRound::Each), &array![[6.0]], &array![[1.0]]), array![[6.0]]);
}

/// 0.731058… · 1.5 = 1.0965877…, in bf16 1.09375.
#[test]
fn r2_rounds_the_product() {
    let p = Swiglu::under(&RoundingContract::FUSED, Expert::Gated);
    assert_eq!(oracle(&p, &array![[1.0]], &array![[1.5]]), array![[1.093_75]]);
}

/// D31: what is stored is rounded, with u or without it: 0.731058… becomes 0.73046875.
#[test]
fn r2_rounds_without_u_too() {
    for swiglu in [ActivationRound::Once, ActivationRound::Stored, ActivationRound::Each] {
        let contract = RoundingContract { swiglu, ..RoundingContract::FUSED };
        let p = Swiglu::under(&contract, Expert::Nongated);
        assert_eq!(oracle(&p, &array![[1.0]], &array![[9.0]]), array![[0.730_468_75]]);
    }
}

fn ratio(p: &Swiglu, (g, ge): (f64, f64), (u, ue): (f64, f64), moved: (f64, f64)) -> f64 {
    let with = |x: f64, e: f64| {
        let mut tracked = Tracked::exact(array![[x]]);
        tracked.error.as_mut().expect("exact is tracked").certain.fill(e);
        tracked
    };
    let want = oracle(&ideal(p.expert), &array![[g]], &array![[u]]);
    let got = oracle(p, &array![[moved.0]], &array![[moved.1]]);
    reached(&got, &want, &p.bound(&with(g, ge), &with(u, ue), &want))
}

/// Both roundings in one direction, each by nearly half an ulp of a number just above a power of two.
#[test]
fn the_bound_is_reached_by_the_roundings() {
    let p = Swiglu::under(&RoundingContract::EAGER_BF16, Expert::Gated);
    let candidates =
        (0..512).flat_map(|i| (0..64).map(move |j| (1.0 + f64::from(i) / 128.0, 1.0 + f64::from(j) / 128.0)));
    let most = candidates.map(|(g, u)| ratio(&p, (g, 0.0), (u, 0.0), (g, u))).fold(0.0, f64::max);
    assert!((0.85..=1.0).contains(&most), "{most}");
}

/// The sigmoid's, too: all four in one direction.
#[test]
fn the_bound_is_reached_by_the_roundings_of_all_steps() {
    let contract = RoundingContract { swiglu: ActivationRound::Sigmoid, ..RoundingContract::EAGER_BF16 };
    let p = Swiglu::under(&contract, Expert::Gated);
    let candidates = (0..2048).flat_map(|i| (0..64).map(move |j| (f64::from(i) / 256.0, 1.0 + f64::from(j) / 128.0)));
    let most = candidates.map(|(g, u)| ratio(&p, (g, 0.0), (u, 0.0), (g, u))).fold(0.0, f64::max);
    assert!((0.75..=1.0).contains(&most), "{most}");
}

/// Steep gate, flat gate, and an error that is far from linear.
#[test]
fn the_bound_is_reached_by_input_errors() {
    let p = ideal(Expert::Gated);
    for (g, ge, ue, least) in
        [(2.0, 0.01, 0.5, 0.98), (0.0, 0.01, 0.5, 0.98), (-1.2785, 0.5, 0.0, 0.4), (1.0, 4.0, 0.5, 0.7)]
    {
        let ratio = ratio(&p, (g, ge), (3.0, ue), (g + ge, 3.0 + ue));
        assert!((least..=1.0).contains(&ratio), "{g} ± {ge}: {ratio}");
    }
}

/// The exponential's own error: two ulps, and the rounding of a scaled argument.
#[test]
fn the_bound_is_reached_by_the_exponential() {
    let p = Swiglu::under(&RoundingContract::EAGER_F32, Expert::Gated);
    let most = (0..200_u32).map(|i| {
        let (g, u) = (Array2::from_elem((1, 64), -8.0 - f64::from(i) / 64.0), Array2::ones((1, 64)));
        let want = oracle(&ideal(Expert::Gated), &g, &u);
        let got = kernel(&p, &g.mapv(f32::of), &u.mapv(f32::of), i.into());
        reached(&got, &want, &p.bound(&Tracked::exact(g), &Tracked::exact(u), &want))
    });
    let most = most.fold(0.0, f64::max);
    assert!((0.4..=1.0).contains(&most), "{most}");
}

#[test]
fn the_depth_of_the_deeper_input_is_kept() {
    let p = ideal(Expert::Gated);
    let with = |carried| {
        let mut tracked = Tracked::exact(array![[1.0]]);
        tracked.error.as_mut().expect("exact is tracked").carried = carried;
        tracked
    };
    assert_eq!(p.bound(&with(1), &with(2), &array![[1.0]]).carried, 2);
    assert_eq!(p.bound(&with(3), &with(2), &array![[1.0]]).carried, 3);
}

#[test]
fn c1_shapes_differ() {
    let err = swiglu(&ideal(Expert::Gated), array![[1.0, 2.0]].view(), array![[1.0]].view())
        .expect_err("against the contract");
    assert_eq!(err.to_string(), "swiglu C1: shape of u = (1, 1), expected (1, 2)");
}
