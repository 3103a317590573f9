//! What only training computes: `load_balancing.rs`, `router_jitter.rs` and `policy_gradient.rs` in `reference/src/ops`.

use ndarray::{Array2, array};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::Storage;
use reference::ops::load_balancing::{self, AuxiliaryLoss, auxiliary_loss, updated_bias};
use reference::ops::policy_gradient::{self, Objective, PolicyGradient, advantages, policy_gradient};
use reference::ops::router_jitter::{RouterJitter, router_jitter};
use reference::{Real, RoundingContract};
use tests::strategy::{Fill, Matrix};

const SWITCH: AuxiliaryLoss = AuxiliaryLoss::HfSwitch { top_k: 2 };

fn loss(kind: AuxiliaryLoss, z: &Array2<f64>) -> f64 {
    auxiliary_loss(kind, z.view(), &[]).expect("the case keeps the contract")
}

/// Experts that are alike have P = 1/E: the loss is Σ fₑ = k, or 1.
#[test]
fn alike_experts_cost_k_or_1() {
    let z = Array2::zeros((6, 4));
    assert!((loss(SWITCH, &z) - 2.0).abs() < 1e-15 && (loss(AuxiliaryLoss::Doc003, &z) - 1.0).abs() < 1e-15);
}

/// All tokens at one expert: f and P̄ are 1 there, and the loss is E, or with the second of k, whose P̄ is 0, the same.
#[test]
fn one_expert_for_all_costs_the_number_of_experts() {
    let z = Array2::from_shape_fn((5, 4), |(_, expert)| if expert == 2 { 800.0 } else { 0.0 });
    assert_eq!([loss(SWITCH, &z), loss(AuxiliaryLoss::Doc003, &z)], [4.0, 4.0]);
}

#[test]
fn masked_rows_do_not_count() {
    let z = array![[1.0, 0.5, -1.0], [9.0, 2.0, 8.0], [0.0, 0.25, 3.0]];
    let kept = array![[1.0, 0.5, -1.0], [0.0, 0.25, 3.0]];
    let masked = auxiliary_loss(SWITCH, z.view(), &[true, false, true]).expect("good");
    assert_eq!(masked, loss(SWITCH, &kept));
    let none = auxiliary_loss(SWITCH, z.view(), &[false; 3]).expect_err("no row counts");
    assert!(none.to_string().starts_with("load_balancing C1"), "{none}");
    let more = auxiliary_loss(AuxiliaryLoss::HfSwitch { top_k: 4 }, z.view(), &[]).expect_err("of three experts");
    assert!(more.to_string().starts_with("load_balancing C2: k = 4"), "{more}");
}

#[test]
fn f32_stays_within_the_bound_of_the_loss() {
    for seed in 0..40 {
        let any = Matrix::new((9, 7), Fill::Activation, Storage::F32, seed);
        // Where no probability vanishes, and no choice is open, the bound is narrow.
        let z = if seed % 2 == 0 { any.mapv(|z| z.clamp(-9.0, 9.0)) } else { (*any).clone() };
        for kind in [SWITCH, AuxiliaryLoss::Doc003] {
            let want = loss(kind, &z);
            let got = auxiliary_loss(kind, z.mapv(f32::of).view(), &[]).expect("good").wide();
            let bound = load_balancing::bound(kind, z.view(), want, f32::UNIT_ROUNDOFF);
            let is_narrow = seed % 2 == 1 || bound < 1e-4 * want;
            assert!((got - want).abs() <= bound && is_narrow, "{seed}: {got} {want} {bound}");
        }
    }
}

/// Of loads 5, 1 and 3 the mean is 3.
#[test]
fn a_bias_moves_towards_the_mean_load() {
    let b = updated_bias(0.25, array![1.0, 1.0, 1.0].view(), &[5, 1, 3]).expect("good");
    assert_eq!(b, array![0.75, 1.25, 1.0]);
    assert!(updated_bias(0.25, array![1.0].view(), &[5, 1]).is_err());
}

#[test]
fn jitter_is_nothing_in_inference_and_within_its_width_in_training() {
    let x = Matrix::new((20, 30), Fill::Activation, Storage::F32, 1);
    let jittered = |noise, seed| {
        let p = RouterJitter::under(&RoundingContract::IDEAL, noise);
        router_jitter(&p, x.view(), &mut ChaCha8Rng::seed_from_u64(seed))
    };
    assert_eq!(jittered(0.0, 1).expect("good"), *x);
    let y = jittered(0.1, 1).expect("good");
    let factors = &y / &*x;
    assert!(factors.iter().all(|factor| (0.9 - 1e-12..1.1 + 1e-12).contains(factor)));
    let spread = factors.iter().map(|factor| (factor - 1.0).powi(2)).sum::<f64>() / factors.len() as f64;
    // Of 600 uniform draws, the variance is 0.01/3, known to 4 % or so.
    assert!((spread / (0.01 / 3.0) - 1.0).abs() < 0.2, "{spread}");
    assert_ne!(y, jittered(0.1, 2).expect("good"));
    assert!(jittered(1.0, 1).expect_err("too wide").to_string().starts_with("router_jitter C1: ε = 1"));
}

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
        assert!(c[0].is_nan());
        let short = policy_gradient(&p, array![0.0].view(), array![0.0, 1.0].view(), array![1.0].view());
        assert!(short.expect_err("of two").to_string().starts_with("policy_gradient C1: len(log π₀) = 2"));
        let wide = PolicyGradient { clip: [1.5, 0.2], ..p };
        assert!(policy_gradient(&wide, array![0.0].view(), array![0.0].view(), array![1.0].view()).is_err());
    }
}

/// Rewards 1, 2 and 3: the mean is 2, the deviation √(2/3).
#[test]
fn advantages_are_rewards_in_deviations() {
    let a = advantages(array![1.0, 2.0, 3.0].view());
    assert!((a[2] - 1.5_f64.sqrt()).abs() < 1e-12 && a[1] == 0.0);
    assert_eq!(advantages(array![2.0, 2.0].view()), array![0.0, 0.0]);
}
