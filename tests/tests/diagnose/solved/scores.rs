//! Attention's probabilities, of scores to which something was done.

use std::f32::consts::LOG2_E;

use ndarray::{Array1, Array2, s};
use reference::models::decoder::Decoder;
use reference::{LayerSite, Storage};

use super::{M2, M2_BF16, Shown, Subject, has, narrowed, number};

const SHOWN: &[LayerSite] = &[LayerSite::QNorm, LayerSite::Probabilities];

/// A score of layer 1.
#[derive(Clone, Copy)]
struct Score {
    head: usize,
    token: usize,
    key: usize,
    is: f32,
}

/// What is said where `weight` makes of each score that is seen what it counts, and of the largest of its row.
fn said_of(subject: &Subject, weight: impl Fn(Score, f32) -> f32) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let config = model.config();
        let (heads, groups, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        let [q, k] = [LayerSite::QRope, LayerSite::KRope].map(|site| shown.of(1, site));
        let n = q.nrows();
        let mut p = Array2::zeros((heads * n, n));
        for (head, token) in (0..heads).flat_map(|head| (0..n).map(move |token| (head, token))) {
            let group = head * groups / heads;
            let query = q.slice(s![token, head * d..(head + 1) * d]).to_owned();
            let key = |key: usize| k.slice(s![key, group * d..(group + 1) * d]);
            let scores: Vec<f32> = (0..=token).map(|j| key(j).dot(&query) / (d as f32).sqrt()).collect();
            let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let of = |(key, is): (usize, &f32)| weight(Score { head, token, key, is: *is }, largest);
            let weights: Array1<f32> = scores.iter().enumerate().map(of).collect();
            p.slice_mut(s![head * n + token, ..=token]).assign(&(&weights / weights.sum()));
        }
        if subject.contract.activations == Storage::Bf16 { narrowed(p) } else { p }
    };
    Subject { shows: SHOWN, ..*subject }.said_of(LayerSite::Probabilities, &port)
}

fn said(weight: impl Fn(Score, f32) -> f32) -> Vec<String> {
    said_of(&M2, weight)
}

/// As of `ALiBi`, in f32 and in bf16.
#[test]
fn scores_that_fall_with_distance() {
    let slope = |head: usize| 0.3 - 0.04 * head as f32;
    let weight = |score: Score, _: f32| (score.is - slope(score.head) * (score.token - score.key) as f32).exp();
    let slopes: Vec<String> = (0..6).map(|head| format!("{:.4}", slope(head))).collect();
    has(&said(weight), &format!("scores fall with each token of distance, in its heads by {}", slopes.join(", ")));
    let narrow = said_of(&M2_BF16, weight);
    let words = "scores fall with each token of distance, in its heads by ";
    has(&narrow, words);
    assert!((number(&narrow, words) - 0.3).abs() < 0.01, "{narrow:#?}");
}

/// Queries grow from position 16 on.
#[test]
fn a_temperature_of_queries() {
    let factor = |token: usize| 1.0 + 0.1 * (token as f32 / 16.0).max(1.0).ln();
    let said = said(|score, _| (score.is * factor(score.token)).exp());
    has(&said, "scores are multiplied by a factor of each query: 1.0061 at token 17, 1.0891 at token 39");
    assert!(said[0].contains("1 + 0.1000·ln(t/16.00) at position t"), "{said:#?}");
}

#[test]
fn a_head_has_another_scale() {
    let said = said(|score, _| (score.is * if score.head == 2 { 1.15 } else { 1.0 }).exp());
    has(&said, "scores are multiplied by a factor of each head: 1.1500 in head 2");
}

#[test]
fn the_first_keys_have_more() {
    let said = said(|score, _| (score.is + if score.key < 3 { 0.2 * (score.key + 1) as f32 } else { 0.0 }).exp());
    let sentence = "the scores of 3 keys have a number of each key more, whatever the query: key 0 +0.2000, key 1 +0.4000, key 2 +0.6000";
    has(&said, sentence);
}

/// As of T5, whose bias is of the distance's logarithm.
#[test]
fn a_bias_of_distances() {
    let said = said(|score, _| (score.is - 0.2 * ((score.token - score.key) as f32).ln_1p()).exp());
    has(&said, "scores have a number of each distance more, in all heads: -0.1386 at 1, -0.2197 at 2");
}

#[test]
fn keys_outside_a_window() {
    let said = said(|score, _| if score.token - score.key < 9 { score.is.exp() } else { 0.0 });
    has(&said, "attention sees no key before the key 8 before the token: all tokens that are off");
}

/// A score of no key, which every row counts.
#[test]
fn a_key_beside_all() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut p = shown.of(1, LayerSite::Probabilities).clone();
        p.rows_mut().into_iter().enumerate().for_each(|(i, mut row)| row *= 0.5 + 0.4 * (i as f32).sin());
        p
    };
    let said = Subject { shows: SHOWN, ..M2 }.said_of(LayerSite::Probabilities, &port);
    has(&said, "probabilities are right beside one another, and sum to 0.1");
}

/// (1 + x/256)²⁵⁶, and one that is put together of bits with a polynomial for the fraction.
#[test]
fn another_exponential() {
    has(
        &said(|score, largest| (1.0 + (score.is - largest).max(-200.0) / 256.0).powi(256)),
        "the softmax's exponential is another function of its argument: off over a range of ",
    );
    let of_bits = |score: Score, largest: f32| {
        let power = (score.is - largest) * LOG2_E;
        let fraction = power - power.floor();
        power.floor().exp2() * (1.0 + fraction * (0.6565 + 0.3435 * fraction))
    };
    let said = said(of_bits);
    has(&said, "the softmax's exponential is put together of bits: ");
    assert!((number(&said, "off over a range of ") - 0.53).abs() < 0.15, "{said:#?}");
}

/// Roundings of another kind, in f32 and bf16, are nothing that was done to scores.
#[test]
fn probabilities_that_are_right_but_for_roundings() {
    let noise = |score: Score| 1.0 + 3e-7 * ((7 * score.key + 3 * score.token + score.head) as f32).sin();
    for subject in [&M2, &M2_BF16] {
        let said = said_of(subject, |score, largest| (score.is - largest).exp() * noise(score));
        assert!(said.is_empty(), "{said:#?}");
    }
}

/// What is random in every score is told by none of the rules.
#[test]
fn scores_with_noise_of_their_own() {
    let noise = |score: Score| 0.05 * ((127 * score.key + 311 * score.token + 71 * score.head) as f32).sin();
    let said = said(|score, _| (score.is + noise(score)).exp());
    assert!(said.is_empty(), "{said:#?}");
}

/// The keys of a page, which is a shared prefix, are rotated by positions four further on.
#[test]
fn keys_with_the_rotation_of_other_positions() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let config = model.config();
        let (heads, groups, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        let [q, k, normed] = [LayerSite::QRope, LayerSite::KRope, LayerSite::KNorm].map(|site| shown.of(1, site));
        let (cos, sin) = (&shown.values[&reference::Site::RopeCos], &shown.values[&reference::Site::RopeSin]);
        let (n, half) = (q.nrows(), config.rotary_dim / 2);
        let mut keys = k.clone();
        for (key, group) in (4..8).flat_map(|key| (0..groups).map(move |group| (key, group))) {
            for i in 0..half {
                let (a, b) = (normed[[key, group * d + i]], normed[[key, group * d + half + i]]);
                let (c, s) = (cos[[key + 4, i]], sin[[key + 4, i]]);
                keys[[key, group * d + i]] = a * c - b * s;
                keys[[key, group * d + half + i]] = b * c + a * s;
            }
        }
        let mut p = Array2::zeros((heads * n, n));
        for (head, token) in (0..heads).flat_map(|head| (0..n).map(move |token| (head, token))) {
            let group = head * groups / heads;
            let query = q.slice(s![token, head * d..(head + 1) * d]);
            // The call that made these keys had them right.
            let of = if token < 12 { k } else { &keys };
            let scores = of.slice(s![..=token, group * d..(group + 1) * d]).dot(&query) / (d as f32).sqrt();
            let weights = scores.mapv(f32::exp);
            p.slice_mut(s![head * n + token, ..=token]).assign(&(&weights / weights.sum()));
        }
        p
    };
    let said = Subject { shows: SHOWN, ..M2 }.said_of(LayerSite::Probabilities, &port);
    has(&said, "keys 4 to 7: each is rotated by the position 4 behind its own");
}

/// A head whose keys the rotation leaves out.
#[test]
fn keys_that_are_not_rotated_for_one_head() {
    let rotated = |score: Score, d: usize, q: &Array2<f32>, k: &Array2<f32>| {
        let of = |x: &Array2<f32>, row: usize, head: usize| x.slice(s![row, head * d..(head + 1) * d]).to_owned();
        of(q, score.token, score.head).dot(&of(k, score.key, score.head * 2 / 6)) / (d as f32).sqrt()
    };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (n, d) = (shown.of(1, LayerSite::QRope).nrows(), model.config().head_dim);
        let [q, k, plain] = [LayerSite::QRope, LayerSite::KRope, LayerSite::KNorm].map(|site| shown.of(1, site));
        let mut p = Array2::zeros((6 * n, n));
        for (head, token) in (0..6).flat_map(|head| (0..n).map(move |token| (head, token))) {
            let keys = if head == 4 { plain } else { k };
            let weights: Array1<f32> =
                (0..=token).map(|key| rotated(Score { head, token, key, is: 0.0 }, d, q, keys).exp()).collect();
            p.slice_mut(s![head * n + token, ..=token]).assign(&(&weights / weights.sum()));
        }
        p
    };
    let said = Subject { shows: SHOWN, ..M2 }.said_of(LayerSite::Probabilities, &port);
    has(&said, "head 4: scores are as if keys were not rotated");
}

/// One probability in eight is lost, as if it were drawn.
#[test]
fn probabilities_that_are_dropped() {
    let subject = Subject { shows: SHOWN, ..M2 };
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let p = shown.of(1, LayerSite::Probabilities);
        let is_lost =
            |(row, key): (usize, usize)| (row * 7919 + key * 104_729).wrapping_mul(2_654_435_761) % 8191 < 1024;
        Array2::from_shape_fn(p.dim(), |at| if is_lost(at) { 0.0 } else { p[at] / 0.875 })
    };
    let said = subject.said_of(LayerSite::Probabilities, &port);
    assert!(said[0].contains("all others 1.1429 times as large: dropout of 0.1250, as in training"), "{said:#?}");
}
