//! Logits with a sampler's penalties.

use ndarray::s;
use reference::models::decoder::Decoder;
use reference::{RoundingContract, Site};
use tests::mistaken::Setting;
use tools::diagnose::diagnosis::diagnose;

use super::{M2, Shown, has, number};

/// What is said of logits of which `penalized` makes others, where a token came before so many times.
fn said(penalized: impl Fn(f32, usize) -> f32) -> Vec<String> {
    let tokens = Setting::of(M2.case, RoundingContract::EAGER_F32).case.tokens;
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut logits = shown.values[&Site::Logits].clone();
        for ((row, token), z) in logits.indexed_iter_mut() {
            let times = tokens[..=row].iter().filter(|seen| **seen as usize == token).count();
            if times > 0 {
                *z = penalized(*z, times);
            }
        }
        logits
    };
    M2.said(&[(Site::Logits, &port)])
}

#[test]
fn a_repetition_penalty() {
    let said = said(|z, _| if z > 0.0 { z / 1.1 } else { z * 1.1 });
    has(&said, "logits of tokens that came before are divided by 1.1000 where they are positive, and multiplied else");
}

#[test]
fn penalties_on_presence_and_frequency() {
    let said = said(|z, times| z - 0.5 - 0.25 * times as f32);
    has(&said, "logits of tokens that came before are less by 0.5000, and by 0.2500 each time");
}

/// A penalty that is made for decoding, of all tokens of the prompt at once.
#[test]
fn a_repetition_penalty_of_all_of_the_prompt() {
    let tokens = Setting::of(M2.case, RoundingContract::EAGER_F32).case.tokens;
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut logits = shown.values[&Site::Logits].clone();
        let all = logits.indexed_iter_mut().filter(|((_, token), _)| tokens.iter().any(|own| *own as usize == *token));
        all.for_each(|(_, z)| *z = if *z > 0.0 { *z / 1.1 } else { *z * 1.1 });
        logits
    };
    let said = M2.said(&[(Site::Logits, &port)]);
    has(&said, "logits of all tokens of the prompt, before and behind, are divided by 1.1000 where they are positive");
}

#[test]
fn a_bias_of_one_logit() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut logits = shown.values[&Site::LmHead].clone();
        logits.column_mut(17).mapv_inplace(|z| z + 0.1);
        logits
    };
    has(&M2.said(&[(Site::LmHead, &port)]), "0.1000 is added to the logits of token 17: a bias of logits");
}

#[test]
fn suppressed_tokens() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut logits = shown.values[&Site::LmHead].clone();
        logits.slice_mut(s![.., ..10]).fill(f32::NEG_INFINITY);
        logits
    };
    let found =
        M2.with(&[(Site::LmHead, &port)], |comparison| diagnose(comparison, |_| ()).expect("it can be compared"));
    has(&found.pattern, "vocabulary entries 0 to 9 of 320 are off");
    has(&found.pattern, "every value that is off is −∞: as of tokens that a sampler suppresses");
}

#[test]
fn logits_that_are_capped() {
    let port = |_: &Decoder<'_>, shown: &Shown| shown.values[&Site::LmHead].mapv(|z| 30.0 * (z / 30.0).tanh());
    let cap = number(&M2.said(&[(Site::LmHead, &port)]), "each value is capped softly, c·tanh(z/c) with c = ");
    assert!((cap - 30.0).abs() < 0.01, "{cap}");
}

#[test]
fn logits_at_a_temperature() {
    let port = |_: &Decoder<'_>, shown: &Shown| shown.values[&Site::LmHead].mapv(|z| z / 0.7);
    let said = M2.said(&[(Site::Logits, &port)]);
    has(&said, "each value is 1.4286 times the logit, as at a temperature of 0.7000");
}
