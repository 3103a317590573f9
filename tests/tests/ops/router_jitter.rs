//! `reference/src/ops/router_jitter.rs`.

use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::ops::router_jitter::{RouterJitter, jittered, router_jitter};
use reference::profiles::PROFILES;
use reference::{Real, RoundingContract, Storage, Tracked};
use tests::judge::within;
use tests::strategy::{Fill, Matrix};

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

/// In bf16, of noise that is known within a few roundings, and of any noise within ε; 1 % more is outside.
#[test]
fn a_device_stays_within_the_bounds() {
    let bf16 = PROFILES.iter().find(|profile| profile.contract.activations == Storage::Bf16).expect("some").contract;
    let x =
        Matrix::new((20, 30), Fill::Activation, Storage::Bf16, 1).mapv(|x| Storage::Bf16.nearest(x.clamp(-9.0, 9.0)));
    let noise = Matrix::new((20, 30), Fill::Activation, Storage::Bf16, 2).mapv(|x| 1.0 + 0.1 * x.clamp(-1.0, 1.0));
    let [ideal, p] = [&RoundingContract::IDEAL, &bf16].map(|contract| RouterJitter::under(contract, 0.1));
    let want = jittered(&ideal, x.view(), noise.view()).expect("good");
    let got = jittered(&p, x.mapv(f32::of).view(), noise.mapv(f32::of).view()).expect("good").mapv(Real::wide);
    let judged = |bound, want: &Array2<f64>, got: &Array2<f64>| within(got, want, &bound).is_ok();
    assert!(judged(p.bound(&want), &want, &got) && judged(p.bound_drawn(&x), &x, &got));
    assert!(!judged(p.bound(&want), &want, &got.mapv(|y| y * 1.02)) && !judged(p.bound_drawn(&x), &x, &(&x * 1.12)));
    let short = jittered(&p, x.view(), Tracked::exact(x.clone()).rows(0..3).view()).expect_err("of other rows");
    assert_eq!(short.to_string(), "router_jitter C2: shape of U = (3, 30), expected (20, 30), that of x");
}
