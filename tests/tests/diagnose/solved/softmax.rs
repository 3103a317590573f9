//! Attention whose keys and values are scaled, or whose exponential is another function.

use std::f32::consts::LOG2_E;

use ndarray::Array1;
use reference::models::decoder::Decoder;
use reference::{LayerSite, RoundingContract};

use super::keys::{attention, mean};
use super::{M2, Shown, Subject, has, number};

/// A cache in a narrow type, whose scales of keys, 0.8 and 2, are taken for those of values, 1 and 1, and the other way round.
#[test]
fn a_caches_scales_exchanged() {
    const TIMES: [f32; 2] = [1.25, 0.5];
    let m2 = Subject {
        case: "m2-gqa3-f32",
        contract: RoundingContract::EAGER_F32,
        shows: &[LayerSite::QNorm, LayerSite::KNorm, LayerSite::Context],
    };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let of_keys = TIMES[head.group];
            mean(head, token, |key, score| (key <= token).then_some((score * of_keys, of_keys.recip())))
        })
    };
    let said = m2.said_of(LayerSite::Context, &port);
    let sentence = "attention reads the keys of its key heads 1.2500, 0.5000 times as large, and their values 0.8000, 2.0000 \
                    times, each the other's reciprocal";
    has(&said, sentence);
}

/// What is said of attention with another exponential, of arguments that are less by the largest.
fn said(exponential: impl Fn(f32) -> f32) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let scores = head.scores(token);
            let largest = scores.iter().take(token + 1).fold(f32::NEG_INFINITY, |most, score| most.max(*score));
            let weight = |(key, score): (usize, &f32)| if key <= token { exponential(score - largest) } else { 0.0 };
            let weights: Array1<f32> = scores.indexed_iter().map(weight).collect();
            weights.dot(&head.v) / weights.sum()
        })
    };
    M2.said_of(LayerSite::Context, &port)
}

/// (1 + x/64)⁶⁴.
#[test]
fn an_exponential_by_its_limit() {
    let said = said(|x| (1.0 + x / 64.0).powi(64));
    let words = "the softmax's exponential is another function: off by ";
    has(&said, words);
    let (percent, at) = (number(&said, words), number(&said, " % at an argument of "));
    let expected = 100.0 * ((1.0 + at / 64.0).powi(64) / at.exp() - 1.0);
    // A straight line runs there from one place to the next, by the few keys between them.
    assert!((percent - expected).abs() < 0.2 * expected.abs(), "{percent} for {expected}: {said:#?}");
}

/// The bits of 2ⁱ·(1 + f) for 2ⁱ⁺ᶠ (Schraudolph 1999), which is up to 6.1 % too large.
#[test]
fn an_exponential_of_bits() {
    let said = said(|x| {
        let power = x * LOG2_E;
        power.floor().exp2() * (1.0 + (power - power.floor()))
    });
    let words = "the softmax's exponential is put together of bits: ";
    has(&said, words);
    let range = number(&said, "off over a range of ");
    assert!((range - 6.1).abs() < 0.5, "{said:#?}");
}
