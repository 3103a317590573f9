//! `reference/src/ops/router_jitter.rs`.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::ops::router_jitter::{RouterJitter, router_jitter};
use reference::{RoundingContract, Storage};
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
