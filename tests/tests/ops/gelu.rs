//! `reference/src/ops/gelu.rs`.

use ndarray::{Array2, array};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::ops::gelu::{Gelu, Share, gelu, steps};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::{likely, reached, within};
use tests::strategy::{Contract, Fill, Matrix, Noise, contract, filled, finite, noise, random};

const SHARES: [Share; 3] = [Share::Erf, Share::Tanh, Share::Sigmoid];

/// x \[n, d\], under a contract, with its errors.
#[derive(Debug, Clone)]
struct Case {
    contract: Contract,
    share: Share,
    x: Matrix,
    noise: Noise,
}

impl Case {
    fn params(&self) -> Gelu {
        Gelu::under(&self.contract, self.share)
    }

    fn want(&self) -> Array2<f64> {
        gelu(&ideal(self.share), self.x.view())
    }
}

fn ideal(share: Share) -> Gelu {
    Gelu::under(&RoundingContract::IDEAL, share)
}

fn case_of(fill: impl Strategy<Value = Fill> + Clone) -> impl Strategy<Value = Case> {
    let drawn = (contract(), proptest::sample::select(&SHARES[..]), noise(), (1..4_usize, 1..40_usize));
    drawn.prop_flat_map(move |(contract, share, noise, dim)| {
        filled(dim, fill.clone(), contract.activations).prop_map(move |x| Case { contract, share, x, noise })
    })
}

fn case() -> impl Strategy<Value = Case> {
    case_of(finite())
}

/// A kernel in f32, with functions that are off by up to two ulps; far below 0 it makes 1 − 1.
fn kernel(p: &Gelu, x: &Array2<f32>, seed: u64) -> Array2<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Two ulps are at most 4·u; the rounding to f32 takes one of these.
    let mut off = |f: f64| f32::of(f * (1.0 + 3.0 * f32::UNIT_ROUNDOFF * rng.random_range(-1.0..=1.0)));
    x.mapv(|x| {
        let function = match p.share {
            Share::Erf => off(libm_erf((x * std::f32::consts::FRAC_1_SQRT_2).wide())),
            Share::Tanh => {
                let slope = f32::of((2.0 / std::f64::consts::PI).sqrt());
                off((slope * (x + 0.044_715 * x * x * x)).wide().tanh())
            }
            Share::Sigmoid => 2.0 * (1.0 + off((-(1.702 * x)).wide().exp())).recip() - 1.0,
        };
        p.output.round(0.5 * x * (1.0 + function)).wide()
    })
}

/// erf as processors compute it in f32 (Abramowitz & Stegun 7.1.26).
fn in_one_polynomial(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 5] = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let t = (1.0 + 0.327_591_1 * x.abs()).recip();
    let p = COEFFICIENTS.into_iter().fold(0.0, |p, a| (p + a) * t);
    (1.0 - p * (-x * x).exp()).copysign(x)
}

/// erf by its series, or its continued fraction for the complement (Abramowitz & Stegun 7.1.5 and 7.1.14).
fn libm_erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let tail = (1..=60).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (x.abs() + below));
        return (1.0 - (-x * x).exp() / std::f64::consts::PI.sqrt() / (x.abs() + tail)).copysign(x);
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

proptest! {
    /// x·Φ(x) by another formula for Φ.
    #[test]
    fn is_the_definition(x in -12.0..12.0_f64) {
        let a = gelu(&ideal(Share::Erf), array![[x]].view())[[0, 0]];
        let share = 0.5 * (1.0 + libm_erf(x / 2.0_f64.sqrt()));
        prop_assert!((a - x * share).abs() <= 1e-13 * (1.0 + x.abs()), "{} {}", a, x * share);
    }

    /// Φ(x) + Φ(−x) = 1: x·Φ(x) − (−x)·Φ(−x)… is x.
    #[test]
    fn both_sides_of_zero_add_up(case in case()) {
        let (above, below) = (case.want(), gelu(&ideal(case.share), (-&*case.x).view()));
        for ((&x, above), below) in case.x.iter().zip(&above).zip(&below) {
            prop_assert!((above - below - x).abs() <= 4.0 * f64::UNIT_ROUNDOFF * x.abs() + f64::MIN_POSITIVE);
        }
    }

    /// D50: the approximation is within 4.74·10⁻⁴ of the exact one.
    #[test]
    fn d50_kinds_are_close(x in -20.0..20.0_f64) {
        let [erf, tanh, quick] = SHARES.map(|share| gelu(&ideal(share), array![[x]].view())[[0, 0]]);
        prop_assert!((erf - tanh).abs() <= 4.74e-4);
        prop_assert!((erf - quick).abs() <= 0.0204);
    }

    #[test]
    fn elements_do_not_see_each_other(case in case()) {
        let p = case.params();
        let turned = gelu(&p, case.x.t());
        prop_assert_eq!(turned.t(), gelu(&p, case.x.view()));
    }

    #[test]
    fn a_device_stays_within_the_bound(case in case()) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        let bound = p.bound(&x.tracked, &want);
        within(&gelu(&p, x.f32().view()).mapv(f64::from), &want, &bound)?;
        within(&kernel(&p, &x.f32(), 1), &want, &bound)?;
        if case.share == Share::Erf {
            let share = |x: f32| 0.5 * (1.0 + in_one_polynomial(x * std::f32::consts::FRAC_1_SQRT_2));
            within(&x.f32().mapv(|x| p.output.round(x * share(x)).wide()), &want, &bound)?;
        }
    }

    #[test]
    fn random_errors_stay_within_the_likely_bound(case in case_of(random())) {
        let (p, x, want) = (case.params(), case.noise.on(&case.x, 0), case.want());
        likely(&kernel(&p, &x.f32(), 2), &want, &p.bound(&x.tracked, &want))?;
    }

    /// Larger errors than a rounding's, anywhere on the curve.
    #[test]
    fn any_error_stays_within_the_bound(x in -6.0..6.0_f64, delta in 0.0..8.0_f64, moved in -1.0..=1.0_f64) {
        for share in SHARES {
            let (p, mut tracked) = (ideal(share), Tracked::exact(array![[x]]));
            tracked.error.as_mut().expect("exact is tracked").certain.fill(delta);
            let want = gelu(&p, tracked.view());
            within(&gelu(&p, array![[x + moved * delta]].view()), &want, &p.bound(&tracked, &want))?;
        }
    }
}

/// D50: somewhere it is as far from it as that, and a model that takes the other can be told.
#[test]
fn d50_kinds_are_apart() {
    let apart = |x: f64| {
        let [erf, tanh, _] = SHARES.map(|share| gelu(&ideal(share), array![[x]].view())[[0, 0]]);
        (erf - tanh).abs()
    };
    let most = (0..=6000).map(|i| apart(f64::from(i) / 1000.0)).fold(0.0, f64::max);
    assert!((4.7e-4..=4.74e-4).contains(&most), "{most}");
}

/// Of tables of the normal distribution: Φ(1) = 0.841344746068543, Φ(−2) = 0.0227501319481792, Φ(−6) = 9.8658764503770·10⁻¹⁰.
#[test]
fn by_hand() {
    let a = gelu(&ideal(Share::Erf), array![[0.0, 1.0, -2.0, -6.0, f64::INFINITY]].view());
    let want: [f64; 5] =
        [0.0, 0.841_344_746_068_542_9, -0.045_500_263_896_358_4, -5.919_525_870_226_2e-9, f64::INFINITY];
    for (a, want) in a.iter().zip(want) {
        assert!(*a == want || (*a - want).abs() <= 1e-13 * want.abs(), "{a} {want}");
    }
    let tanh: f64 = gelu(&ideal(Share::Tanh), array![[1.0]].view())[[0, 0]];
    assert!((tanh - 0.841_191_990_608_276_8).abs() < 1e-14, "{tanh}");
    assert!(gelu(&ideal(Share::Erf), array![[f64::NAN]].view())[[0, 0]].is_nan());
}

/// Φ(1) is 0.8413…, between the bf16 0.83984375 and 0.84375.
#[test]
fn r1_rounds_the_product() {
    let p = Gelu::under(&RoundingContract::EAGER_BF16, Share::Erf);
    assert_eq!(gelu(&p, array![[1.0]].view()), array![[0.839_843_75]]);
}

fn ratio(p: &Gelu, x: f64, e: f64, moved: f64) -> f64 {
    let mut tracked = Tracked::exact(array![[x]]);
    tracked.error.as_mut().expect("exact is tracked").certain.fill(e);
    let want = gelu(&ideal(p.share), array![[x]].view());
    reached(&gelu(p, array![[moved]].view()), &want, &p.bound(&tracked, &want))
}

#[test]
fn the_bound_is_reached_by_the_rounding() {
    for share in SHARES {
        let p = Gelu::under(&RoundingContract::EAGER_BF16, share);
        let most = (1..2000).map(|i| Storage::Bf16.nearest(f64::from(i) / 256.0)).map(|x| ratio(&p, x, 0.0, x));
        let most = most.fold(0.0, f64::max);
        assert!((0.98..=1.0).contains(&most), "{most}");
    }
}

/// On the slope, where it is steepest on either side, and over the least value.
#[test]
fn the_bound_is_reached_by_input_errors() {
    for share in SHARES {
        for (x, e, least) in [(0.5, 0.01, 0.99), (1.418, 0.01, 0.999), (-1.418, 0.01, 0.999), (3.0, 0.01, 0.99)] {
            let most = [x - e, x + e].map(|moved| ratio(&ideal(share), x, e, moved)).into_iter().fold(0.0, f64::max);
            assert!((least..=1.0).contains(&most), "{x} ± {e}: {most}");
        }
    }
}

/// 1.702 is 218/128 in bf16, whose sigmoid, 0.8459…, is 217/256.
#[test]
fn a_port_may_round_each_step() {
    let contract = RoundingContract::IDEAL;
    let a = steps::quick(&Tracked::plain(array![[1.0]]), &Run::<f64>::new(contract, &mut NoProbe));
    assert_eq!(a.value, array![[217.0 / 256.0]]);
}

proptest! {
    /// In f32, with an exponential that is off by up to two ulps.
    #[test]
    fn a_port_that_rounds_each_step_stays_within_the_bound(case in case(), seed: u64) {
        let x = case.noise.on(&case.x, 0);
        let ideal = steps::quick(&x.tracked, &Run::<f64>::bounding(*case.contract, &mut NoProbe));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut off = |f: f64| f * (1.0 + 3.0 * f32::UNIT_ROUNDOFF * rng.random_range(-1.0..=1.0));
        let bf16 = |x: f32| f32::of(Storage::Bf16.nearest(x.wide()));
        let got = x.f32().mapv(|x| {
            let s = bf16((1.0 + f32::of(off((-bf16(1.702 * x)).wide().exp()))).recip());
            case.contract.stored().round(x * s).wide()
        });
        within(&got, &ideal.value, &ideal.error.expect("it is kept"))?;
    }
}
