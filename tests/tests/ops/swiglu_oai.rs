//! `reference/src/ops/swiglu_oai.rs`.

use ndarray::{Array2, Zip, array};
use proptest::prelude::*;
use reference::config::Coefficients;
use reference::ops::swiglu_oai::{SwigluOai, swiglu_oai};
use reference::semantics::GateClamp;
use reference::{Real, Rounding, RoundingContract, Tracked};
use tests::judge::{likely, reached, within};
use tests::simulated::Exponential;
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

/// As released.
const M3: Coefficients = Coefficients { alpha: 1.702, limit: 7.0, beta: 1.0 };

/// g and u \[n, d\], under a contract, with errors of both.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    coefficients: Coefficients,
    clamp: GateClamp,
    g: Matrix,
    u: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> SwigluOai {
        SwigluOai::under(&self.contract, self.coefficients, self.clamp)
    }

    fn ideal(&self) -> SwigluOai {
        SwigluOai::under(&RoundingContract::IDEAL, self.coefficients, self.clamp)
    }

    fn want(&self) -> Array2<f64> {
        oracle(&self.ideal(), &self.g, &self.u)
    }
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let clamp = prop::sample::select(vec![GateClamp::Upper, GateClamp::Symmetric, GateClamp::None]);
    let other = Coefficients { alpha: 0.7, limit: 2.3, beta: -0.4 };
    let coefficients = prop_oneof![3 => Just(M3), 1 => Just(other)];
    let dims = (1..4_usize, 1..30_usize);
    let drawn = (contract(), coefficients, clamp, noise(), dims);
    drawn.prop_flat_map(move |(contract, coefficients, clamp, noise, (n, d))| {
        let storage = contract.activations;
        (filled((n, d), fill.clone(), storage), filled((n, d), fill.clone(), storage)).prop_map(move |(g, u)| Case {
            contract,
            coefficients,
            clamp,
            g,
            u,
            noise,
        })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

fn released(contract: &RoundingContract) -> SwigluOai {
    SwigluOai::under(contract, M3, GateClamp::Upper)
}

fn oracle(p: &SwigluOai, g: &Array2<f64>, u: &Array2<f64>) -> Array2<f64> {
    swiglu_oai(p, g.view(), u.view()).expect("the case keeps the contract")
}

/// A kernel: the exponential in base 2 and off by two ulps, α·log₂e one constant.
fn kernel(p: &SwigluOai, g: &Array2<f32>, u: &Array2<f32>, seed: u64) -> Array2<f64> {
    let mut exp = Exponential::new(seed);
    let Coefficients { alpha, limit, beta } = p.coefficients;
    let [alpha, limit, beta] = [alpha, limit, beta].map(f32::of);
    Zip::from(g).and(u).map_collect(|&g, &u| {
        let gate = match p.gate_clamp {
            GateClamp::Upper => g.min(limit),
            GateClamp::Symmetric => g.clamp(-limit, limit),
            GateClamp::None => g,
        };
        let argument = p.between.round(alpha * gate);
        let sigmoid = p.between.round((1.0 + exp.base_2(argument * -std::f32::consts::LOG2_E)).recip());
        let up = p.between.round(u.clamp(-limit, limit) + beta);
        p.output.round(up * p.between.round(gate * sigmoid)).wide()
    })
}

proptest! {
    /// The definition, with the standard library's own clamp.
    #[test]
    fn is_the_released_formula(case in case()) {
        let Coefficients { alpha, limit, beta } = case.coefficients;
        let want = Zip::from(&*case.g).and(&*case.u).map_collect(|&g, &u| {
            let gate = match case.clamp {
                GateClamp::Upper => g.min(limit),
                GateClamp::Symmetric => g.clamp(-limit, limit),
                GateClamp::None => g,
            };
            (u.clamp(-limit, limit) + beta) * gate / (1.0 + (-alpha * gate).exp())
        });
        let bound = case.ideal().bound(&case.g.exact(), &case.u.exact(), &want);
        within(&case.want(), &want, &bound)?;
    }

    /// D32: all clamps agree on a gate within ±ℓ; below −ℓ only the symmetric one differs, above ℓ only the missing one.
    #[test]
    fn d32_clamps_differ_beyond_the_limit_only(case in case()) {
        let of = |clamp| oracle(&SwigluOai::under(&case.contract, case.coefficients, clamp), &case.g, &case.u);
        let (upper, symmetric, none) = (of(GateClamp::Upper), of(GateClamp::Symmetric), of(GateClamp::None));
        for (i, &g) in case.g.indexed_iter() {
            prop_assert!(g < -case.coefficients.limit || symmetric[i] == upper[i]);
            prop_assert!(g > case.coefficients.limit || none[i] == upper[i]);
        }
    }

    /// Beyond ℓ neither gate nor up projection can matter.
    #[test]
    fn what_is_beyond_the_limit_cannot_matter_exactly(case in case(), by in 1.0..100.0_f64) {
        let limit = case.coefficients.limit;
        let p = SwigluOai { gate_clamp: GateClamp::Symmetric, ..case.params() };
        let further = |x: &Array2<f64>| x.mapv(|x| if x.abs() > limit { x + by * x.signum() } else { x });
        prop_assert_eq!(oracle(&p, &further(&case.g), &further(&case.u)), oracle(&p, &case.g, &case.u));
    }

    #[test]
    fn elements_do_not_see_each_other(case in case()) {
        let a = oracle(&case.params(), &case.g, &case.u);
        prop_assert_eq!(oracle(&case.params(), &case.g.t().to_owned(), &case.u.t().to_owned()), a.t());
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, g, u) = (case.params(), case.noise.on(&case.g, 0), case.noise.on(&case.u, 1));
        let want = case.want();
        let bound = p.bound(&g.tracked, &u.tracked, &want);
        within(&swiglu_oai(&p, g.f32().view(), u.f32().view()).expect("good").mapv(f64::from), &want, &bound)?;
        within(&kernel(&p, &g.f32(), &u.f32(), 1), &want, &bound)?;
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, g, u) = (case.params(), case.noise.on(&case.g, 0), case.noise.on(&case.u, 1));
        let want = case.want();
        likely(&kernel(&p, &g.f32(), &u.f32(), 2), &want, &p.bound(&g.tracked, &u.tracked, &want))?;
    }
}

/// At u = −1 the factor u + 1 is 0, exactly, whatever the gate; the gate's own zero is one too.
#[test]
fn zeros_are_exact() {
    for contract in [RoundingContract::IDEAL, RoundingContract::FUSED, RoundingContract::EAGER_BF16] {
        let a = oracle(&released(&contract), &array![[50.0, -50.0, 3.0, 0.0]], &array![[-1.0, -1.0, -1.0, 5.0]]);
        assert_eq!(a, Array2::<f64>::zeros((1, 4)));
    }
}

/// g: 7·σ(11.914) = 6.99995312…; −50·σ(−85.1) = −5.5·10⁻³⁶, or with both sides clamped −7·σ(−11.914) = −4.688·10⁻⁵.
#[test]
fn the_gate_is_clamped_from_above() {
    let of = |clamp| {
        let p = SwigluOai::under(&RoundingContract::IDEAL, M3, clamp);
        oracle(&p, &array![[50.0, 7.1, 7.0, -50.0]], &array![[0.0, 0.0, 0.0, 6.0]])
    };
    let at_limit = 7.0 / (1.0 + (-1.702_f64 * 7.0).exp());
    let upper = of(GateClamp::Upper);
    assert!((at_limit - 6.999_953).abs() < 1e-6);
    assert_eq!([upper[[0, 0]], upper[[0, 1]]], [upper[[0, 2]]; 2]);
    assert!((upper[[0, 2]] - at_limit).abs() < 1e-14);
    assert!((-1e-30..0.0).contains(&upper[[0, 3]]));
    assert!((of(GateClamp::Symmetric)[[0, 3]] + 7.0 * 4.688e-5).abs() < 1e-7);
    assert!((of(GateClamp::None)[[0, 0]] - 50.0).abs() < 1e-14);
}

/// Stored after every step α·g is 1.703125, σ of that 0.84594…, in bf16 0.84765625, and 1.5 times that 1.271484375, in
/// bf16 1.2734375. In one step it is 1.5·σ(1.702) = 1.26869…, in bf16 1.265625.
#[test]
fn r1_rounds_every_step() {
    let (g, u) = (array![[1.0]], array![[0.5]]);
    assert_eq!(oracle(&released(&RoundingContract::EAGER_BF16), &g, &u), array![[1.273_437_5]]);
    assert_eq!(oracle(&released(&RoundingContract::FUSED), &g, &u), array![[1.265_625]]);
    let unrounded = SwigluOai { output: Rounding::NONE, ..released(&RoundingContract::FUSED) };
    assert_eq!(oracle(&unrounded, &g, &u), array![[1.5 * (1.0 + (-1.702_f64).exp()).recip()]]);
}

#[test]
fn nan_and_infinity_stay_visible() {
    let of = |g: f64, u: f64| oracle(&released(&RoundingContract::EAGER_BF16), &array![[g]], &array![[u]])[[0, 0]];
    assert!(of(f64::NAN, 1.0).is_nan() && of(1.0, f64::NAN).is_nan());
    assert!(of(f64::NEG_INFINITY, 1.0).is_nan());
    // Clamped as any large number is.
    assert_eq!(of(f64::INFINITY, 1.0), of(8.0, 1.0));
    assert_eq!(of(1.0, f64::NEG_INFINITY), of(1.0, -8.0));
}

fn ratio(p: &SwigluOai, (g, ge): (f64, f64), (u, ue): (f64, f64), moved: (f64, f64)) -> f64 {
    let with = |x: f64, e: f64| {
        let mut tracked = Tracked::exact(array![[x]]);
        tracked.error.as_mut().expect("exact is tracked").certain.fill(e);
        tracked
    };
    let want = oracle(&released(&RoundingContract::IDEAL), &array![[g]], &array![[u]]);
    let got = oracle(p, &array![[moved.0]], &array![[moved.1]]);
    reached(&got, &want, &p.bound(&with(g, ge), &with(u, ue), &want))
}

#[test]
fn the_bound_is_reached_by_the_roundings() {
    let most = |contract: &RoundingContract| {
        let p = released(contract);
        let candidates =
            (0..512).flat_map(|i| (0..64).map(move |j| (0.5 + f64::from(i) / 128.0, f64::from(j) / 128.0)));
        candidates.map(|(g, u)| ratio(&p, (g, 0.0), (u, 0.0), (g, u))).fold(0.0, f64::max)
    };
    let (each, once) = (most(&RoundingContract::EAGER_BF16), most(&RoundingContract::FUSED));
    assert!((0.5..=1.0).contains(&each), "{each}");
    assert!((0.95..=1.0).contains(&once), "{once}");
}

/// Steep gate, flat gate, one that is clamped, and one that may or may not be.
#[test]
fn the_bound_is_reached_by_input_errors() {
    let p = released(&RoundingContract::IDEAL);
    for (g, ge, ue, least) in
        [(2.0, 0.01, 0.5, 0.98), (0.0, 0.01, 0.5, 0.98), (9.0, 1.0, 0.5, 0.98), (6.5, 0.5, 0.5, 0.98)]
    {
        let ratio = ratio(&p, (g, ge), (3.0, ue), (g + ge, 3.0 + ue));
        assert!((least..=1.0).contains(&ratio), "{g} ± {ge}: {ratio}");
    }
}

#[test]
fn the_depth_of_the_deeper_input_is_kept() {
    let p = released(&RoundingContract::IDEAL);
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
    let err = swiglu_oai(&released(&RoundingContract::IDEAL), array![[1.0, 2.0]].view(), array![[1.0]].view())
        .expect_err("against the contract");
    assert_eq!(err.to_string(), "swiglu_oai C1: shape of u = (1, 1), expected (1, 2)");
}

#[test]
fn c2_limit_of_zero() {
    let p = SwigluOai::under(&RoundingContract::IDEAL, Coefficients { limit: 0.0, ..M3 }, GateClamp::Upper);
    let err = swiglu_oai(&p, array![[1.0]].view(), array![[1.0]].view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "swiglu_oai C2: ℓ = 0, expected above 0");
}
