//! `reference/src/ops/policy_gradient.rs`.

use ndarray::array;
use reference::ops::policy_gradient::{self, Objective, PolicyGradient, advantages, policy_gradient};
use reference::{Real, Storage};
use tests::strategy::{Fill, Matrix};

/// r = 2 and ½ beside the clip at 0.8 and 1.2: CISPO clips the weight; PPO drops what has moved far enough, not what moved back.
#[test]
fn a_token_that_moved_far_keeps_its_gradient_under_cispo_alone() {
    let (new, old) =
        (array![2.0_f64.ln(), 0.5_f64.ln(), 2.0_f64.ln(), 0.5_f64.ln(), 0.0], array![0.0, 0.0, 0.0, 0.0, 0.0]);
    let a = array![1.0, 1.0, -1.0, -1.0, 3.0];
    let of = |objective| {
        let p = PolicyGradient { objective, clip: [0.2, 0.2] };
        policy_gradient(&p, new.view(), old.view(), a.view()).expect("good")
    };
    let near = |c: ndarray::Array1<f64>, want: [f64; 5]| c.iter().zip(want).all(|(c, want)| (c - want).abs() < 1e-12);
    assert!(near(of(Objective::Cispo), [1.2, 0.8, -1.2, -0.8, 3.0]));
    assert!(near(of(Objective::Ppo), [0.0, 0.5, -2.0, 0.0, 3.0]));
}

#[test]
fn f32_stays_within_the_bound_of_each_coefficient() {
    let draw = |seed| Matrix::new((1, 64), Fill::Activation, Storage::F32, seed).row(0).mapv(|x| x.clamp(-4.0, 4.0));
    for seed in 0..20 {
        let (new, old, a) = (draw(seed), draw(seed + 100), draw(seed + 200));
        for objective in [Objective::Cispo, Objective::Ppo] {
            let p = PolicyGradient { objective, clip: [0.2, 0.3] };
            let want = policy_gradient(&p, new.view(), old.view(), a.view()).expect("good");
            let narrow = |x: &ndarray::Array1<f64>| x.mapv(f32::of);
            let got = policy_gradient(&p, narrow(&new).view(), narrow(&old).view(), narrow(&a).view()).expect("good");
            let bound = policy_gradient::bound(&p, new.view(), old.view(), a.view(), f32::UNIT_ROUNDOFF);
            for ((got, want), bound) in got.iter().zip(&want).zip(&bound) {
                assert!((got.wide() - want).abs() <= *bound, "{got} {want} {bound}");
            }
        }
    }
}

#[test]
fn nan_is_kept_and_what_does_not_fit_is_refused() {
    for objective in [Objective::Cispo, Objective::Ppo] {
        let p = PolicyGradient { objective, clip: [0.2, 0.2] };
        let c = policy_gradient(&p, array![f64::NAN].view(), array![0.0].view(), array![1.0].view()).expect("good");
        let of = |new: f64, a: f64| {
            policy_gradient::bound(&p, array![new].view(), array![0.0].view(), array![a].view(), 1e-7)[0]
        };
        assert!(c[0].is_nan() && of(f64::NAN, 1.0).is_nan() && of(0.0, f64::NAN).is_nan());
        let short = policy_gradient(&p, array![0.0].view(), array![0.0, 1.0].view(), array![1.0].view());
        assert!(short.expect_err("of two").to_string().starts_with("policy_gradient C1: len(log π₀) = 2"));
        let wide = PolicyGradient { clip: [1.5, 0.2], ..p };
        assert!(policy_gradient(&wide, array![0.0].view(), array![0.0].view(), array![1.0].view()).is_err());
    }
}

/// Rewards 1, 2 and 3: the mean is 2, the deviation √(2/3).
#[test]
fn advantages_are_rewards_in_deviations() {
    let a = advantages(array![1.0, 2.0, 3.0].view()).expect("good");
    assert!((a[2] - 1.5_f64.sqrt()).abs() < 1e-12 && a[1] == 0.0);
    assert_eq!(advantages(array![2.0, 2.0].view()).expect("good"), array![0.0, 0.0]);
    let none = advantages(ndarray::Array1::<f64>::zeros(0).view()).expect_err("of nobody");
    assert_eq!(none.to_string(), "policy_gradient C3: G = 0, expected at least 1");
}

/// A weight that the clip holds is its end, however large the ratio is; of PPO, what is dropped for certain is exactly
/// 0.
#[test]
fn a_clipped_weight_is_nearly_exact() {
    let of = |objective, new: f64, a: f64| {
        let p = PolicyGradient { objective, clip: [0.2, 0.2] };
        policy_gradient::bound(&p, array![new].view(), array![0.0].view(), array![a].view(), f32::UNIT_ROUNDOFF)[0]
    };
    assert!(of(Objective::Cispo, 1000.0, 1.0) < 1e-6 && of(Objective::Cispo, -1000.0, 1.0) < 1e-6);
    assert!(of(Objective::Ppo, 5.0, 1.0) < 1e-30 && of(Objective::Ppo, 1.2_f64.ln(), 1.0) > 1.0);
}

#[test]
fn f32_stays_within_the_bound_of_advantages() {
    for (seed, n) in (0..60).zip((2..11).cycle()) {
        let any = Matrix::new((1, n), Fill::Activation, Storage::F32, seed).row(0).to_owned();
        let rewards = if seed % 3 == 0 { any.mapv(|_| f32::of(0.1).wide()) } else { any.mapv(|x| x.clamp(-4.0, 4.0)) };
        let want = advantages(rewards.view()).expect("good");
        let got = advantages(rewards.mapv(f32::of).view()).expect("good");
        let bound = policy_gradient::bound_advantages(rewards.view(), f32::UNIT_ROUNDOFF);
        for ((got, want), bound) in got.iter().zip(&want).zip(&bound) {
            assert!((got.wide() - want).abs() <= *bound, "{seed}: {got} {want} {bound}");
        }
    }
    let apart = policy_gradient::bound_advantages(array![1.0, 0.0, 1.0, 0.0].view(), f32::UNIT_ROUNDOFF);
    assert!(apart.iter().all(|bound| *bound < 1e-5), "{apart}");
}
