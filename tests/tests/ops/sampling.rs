//! `reference/src/ops/sampling.rs`.

use ndarray::{Array1, array};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::ops::sampling::{Choice, Random, Sampling, argmax, sample};
use reference::{Real, Storage};
use tests::strategy::{Fill, Matrix, matrix};

const DRAWS: u32 = 20_000;

fn logits() -> impl Strategy<Value = Matrix> {
    (1..20_usize).prop_flat_map(|v| matrix((1, v), Storage::Bf16))
}

/// How often each token is drawn.
fn counts(p: Random, z: &Array1<f64>) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut counts = vec![0.0; z.len()];
    for _ in 0..DRAWS {
        let choice = sample(&Sampling::Random(p), z.view(), &mut rng).expect("good");
        counts[choice.token as usize] += 1.0;
    }
    counts
}

/// χ² against probabilities; a token of probability 0 may not be drawn. For k categories its mean is k − 1 and its
/// variance 2·(k − 1): six standard deviations above the mean is never seen, and the seed is fixed.
fn fits(counts: &[f64], probabilities: &[f64]) {
    let (mut statistic, mut categories) = (0.0, 0.0_f64);
    for (&count, &p) in counts.iter().zip(probabilities) {
        if p == 0.0 {
            assert_eq!(count, 0.0);
        } else {
            let expected = p * f64::from(DRAWS);
            statistic += (count - expected).powi(2) / expected;
            categories += 1.0;
        }
    }
    let limit = (categories - 1.0) + 6.0 * (2.0 * (categories - 1.0)).sqrt();
    assert!(statistic <= limit, "χ² = {statistic}, limit {limit}: {counts:?}");
}

const ALL: Random = Random { temperature: 1.0, top_k: None, top_p: 1.0 };

/// Logits whose probabilities at τ = 1 are 8, 1, 4, 2 and 1 sixteenths.
fn sixteenths() -> Array1<f64> {
    array![8.0, 1.0, 4.0, 2.0, 1.0].mapv(f64::ln) + 3.0
}

proptest! {
    /// The definition, and how far it is from another answer.
    #[test]
    fn greedy_is_the_first_of_the_largest(z in logits()) {
        let z = z.vector();
        let Choice { token, margin } = argmax(z.view()).expect("good");
        let token = token as usize;
        prop_assert!(z.iter().enumerate().all(|(i, &x)| x < z[token] || x == z[token] && i >= token));
        let second = z.iter().enumerate().filter(|(i, _)| *i != token).map(|(_, &x)| x).fold(f64::NEG_INFINITY, f64::max);
        prop_assert_eq!(margin, z[token] - second);
        prop_assert_eq!(argmax(z.mapv(f32::of).view()), Ok(Choice { token: u32::try_from(token).expect("small"), margin }));
    }

    /// But among equals at a temperature near 0.
    #[test]
    fn one_candidate_is_the_greedy_one(z in logits(), seed in any::<u64>()) {
        let greedy = argmax(z.vector().view());
        let tie = greedy.as_ref().is_ok_and(|choice| choice.margin == 0.0);
        for p in [Random { top_k: Some(1), ..ALL }, Random { top_p: 1e-9, ..ALL }, Random { temperature: 1e-300, ..ALL }] {
            if tie && p.temperature < 1.0 {
                continue;
            }
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            prop_assert_eq!(sample(&Sampling::Random(p), z.vector().view(), &mut rng), greedy.clone());
        }
    }

    #[test]
    fn a_draw_follows_from_the_seed_and_is_among_the_k_largest(z in logits(), seed in any::<u64>(), k in 1..6_usize) {
        let z = z.vector();
        let p = Sampling::Random(Random { top_k: Some(k), temperature: 4.0, ..ALL });
        let draw = || sample(&p, z.view(), &mut ChaCha8Rng::seed_from_u64(seed)).expect("good").token as usize;
        let token = draw();
        prop_assert_eq!(token, draw());
        let ahead = z.iter().enumerate().filter(|&(i, &x)| x > z[token] || x == z[token] && i < token).count();
        prop_assert!(ahead < k);
    }

    #[test]
    fn a_constant_changes_no_draw(seed in any::<u64>(), whole in -8..8) {
        let z = array![1.0, 3.0, 2.0, 0.5];
        let draw = |z: Array1<f64>| sample(&Sampling::Random(ALL), z.view(), &mut ChaCha8Rng::seed_from_u64(seed));
        prop_assert_eq!(draw(&z + f64::from(whole)), draw(z));
    }
}

#[test]
fn draws_are_distributed_as_the_softmax() {
    fits(&counts(ALL, &sixteenths()), &[8.0 / 16.0, 1.0 / 16.0, 4.0 / 16.0, 2.0 / 16.0, 1.0 / 16.0]);
}

/// At τ = 1/2 the weights are squared, at τ = 2 their roots are taken.
#[test]
fn temperature_divides_the_logits() {
    let p: Vec<f64> = [64.0, 1.0, 16.0, 4.0, 1.0].map(|w| w / 86.0).to_vec();
    fits(&counts(Random { temperature: 0.5, ..ALL }, &sixteenths()), &p);
    let total: f64 = [8.0, 1.0, 4.0, 2.0, 1.0].map(f64::sqrt).iter().sum();
    let p: Vec<f64> = [8.0, 1.0, 4.0, 2.0, 1.0].map(|w: f64| w.sqrt() / total).to_vec();
    fits(&counts(Random { temperature: 2.0, ..ALL }, &sixteenths()), &p);
}

/// Of two tokens of 1/16 the lower one stays.
#[test]
fn top_k_keeps_the_k_largest() {
    fits(&counts(Random { top_k: Some(2), ..ALL }, &sixteenths()), &[2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, 0.0]);
    fits(&counts(Random { top_k: Some(4), ..ALL }, &sixteenths()), &[8.0, 1.0, 4.0, 2.0, 0.0].map(|w| w / 15.0));
    fits(&counts(Random { top_k: Some(99), ..ALL }, &sixteenths()), &[8.0, 1.0, 4.0, 2.0, 1.0].map(|w| w / 16.0));
}

/// The fewest whose mass is at least p: 8 of 16 are half, 12 of 16 more than 0.6.
#[test]
fn top_p_keeps_the_fewest_of_that_mass() {
    fits(&counts(Random { top_p: 0.4, ..ALL }, &sixteenths()), &[1.0, 0.0, 0.0, 0.0, 0.0]);
    fits(&counts(Random { top_p: 0.6, ..ALL }, &sixteenths()), &[2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, 0.0]);
    // Of the three largest, 14 sixteenths, the first two have 12/14 = 0.857.
    let both = Random { top_k: Some(3), top_p: 0.8, ..ALL };
    fits(&counts(both, &sixteenths()), &[2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0, 0.0]);
}

/// Exact powers of two: exactly half is reached by the first.
#[test]
fn top_p_stops_where_the_mass_is_reached() {
    let z = Array1::zeros(4);
    fits(&counts(Random { top_p: 0.5, ..ALL }, &z), &[0.5, 0.5, 0.0, 0.0]);
    fits(&counts(Random { top_p: 0.500_001, ..ALL }, &z), &[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
}

#[test]
fn greedy_ties_go_to_the_lowest_token() {
    let tie = argmax(array![1.0, 3.0, 3.0, 2.0].view());
    assert_eq!(tie, Ok(Choice { token: 1, margin: 0.0 }));
    assert_eq!(argmax(array![-0.0, 0.0].view()), Ok(Choice { token: 0, margin: 0.0 }));
    assert_eq!(argmax(array![7.0].view()), Ok(Choice { token: 0, margin: f64::INFINITY }));
    assert_eq!(argmax(array![2.0, 5.0, 1.0].view()), Ok(Choice { token: 1, margin: 3.0 }));
}

/// Infinities that tie have no margin either; a margin of NaN would pass every comparison.
#[test]
fn infinite_logits_tie_like_others() {
    let inf = f64::INFINITY;
    assert_eq!(argmax(array![1.0, inf, inf].view()), Ok(Choice { token: 1, margin: 0.0 }));
    assert_eq!(argmax(array![-inf, -inf].view()), Ok(Choice { token: 0, margin: 0.0 }));
    assert_eq!(argmax(array![0.0, inf].view()), Ok(Choice { token: 1, margin: inf }));
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let drawn = sample(&Sampling::Random(ALL), array![0.0, inf, 1.0].view(), &mut rng).expect("good");
    assert_eq!(drawn.token, 1);
}

#[test]
fn a_draw_reports_the_greedy_margin() {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let hot = Random { temperature: 1e6, ..ALL };
    let choice = sample(&Sampling::Random(hot), array![0.0, 2.0].view(), &mut rng).expect("good");
    assert_eq!(choice.margin, 2.0);
}

#[test]
fn c1_no_logits() {
    let err = argmax(Array1::<f64>::zeros(0).view()).expect_err("against the contract");
    assert_eq!(err.to_string(), "sampling C1: v = 0, expected at least 1");
}

#[test]
fn c2_nan() {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let err = sample(&Sampling::Greedy, array![1.0, f64::NAN].view(), &mut rng).expect_err("against the contract");
    assert_eq!(err.to_string(), "sampling C2: logit 1 = NaN, expected a number");
}

#[test]
fn c3_parameters_that_draw_nothing() {
    for (p, want) in [
        (Random { temperature: 0.0, ..ALL }, "temperature = 0, expected above 0"),
        (Random { temperature: f64::NAN, ..ALL }, "temperature = NaN, expected above 0"),
        (Random { top_k: Some(0), ..ALL }, "top-k = 0, expected at least 1"),
        (Random { top_p: 0.0, ..ALL }, "top-p = 0, expected above 0, at most 1"),
        (Random { top_p: 1.5, ..ALL }, "top-p = 1.5, expected above 0, at most 1"),
    ] {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let err = sample(&Sampling::Random(p), array![1.0].view(), &mut rng).expect_err("against the contract");
        assert_eq!(err.to_string(), format!("sampling C3: {want}"));
    }
}

/// All elements of a fill count the same: the draw is uniform, whatever the value.
#[test]
fn equal_logits_are_drawn_alike() {
    let z = Matrix::new((1, 8), Fill::Equal, Storage::F32, 3).vector();
    fits(&counts(ALL, &z), &[0.125; 8]);
}
