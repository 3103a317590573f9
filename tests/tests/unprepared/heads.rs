//! What is made of logits, and what stands beside them.

use reference::Storage;

use super::{Named, Values, holds, of_names, precision, try_judged};

const HEAD: [&str; 1] = ["logits"];

fn written(name: &'static str, change: impl Fn(&Values) -> Values) -> impl Fn(Named) -> Named {
    move |values| Named::from([(name.to_owned(), change(&values["logits"]))])
}

/// ln of what a softmax gives.
fn log_softmax(_: usize, logits: &[f64]) -> Vec<f64> {
    let sum = logits.iter().map(|z| z.exp()).sum::<f64>().ln();
    logits.iter().map(|z| z - sum).collect()
}

#[test]
fn log_probabilities_are_those_of_logits() {
    for name in ["logits", "lm_head", "logprobs", "log_probs"] {
        holds(&HEAD, written(name, |logits| logits.rows(320, log_softmax)), "logits", 3);
    }
    holds(&HEAD, written("logprobs", |logits| logits.rows(320, log_softmax).last()), "logits", 3);
}

/// Their numbers are larger than those of logits, and so are the steps of a type in which they are saved.
#[test]
fn log_probabilities_may_be_saved_in_fewer_bits() {
    for storage in [Storage::F16, Storage::Bf16] {
        let saved = |row: usize, logits: &[f64]| {
            log_softmax(row, logits).into_iter().map(|log| storage.nearest(log)).collect::<Vec<f64>>()
        };
        holds(&HEAD, written("logprobs", |logits| logits.rows(320, saved)), "logits", 3);
    }
}

#[test]
fn probabilities_are_those_of_logits() {
    let softmax = |row, logits: &[f64]| log_softmax(row, logits).into_iter().map(f64::exp).collect();
    for name in ["logits", "lm_head", "probs"] {
        holds(&HEAD, written(name, |logits| logits.rows(320, softmax)), "logits", 3);
    }
}

/// To 384, a multiple of 128.
#[test]
fn a_vocabulary_may_be_filled_up() {
    for fill in [0.0, f64::NEG_INFINITY, f64::from(f32::MIN)] {
        let filled = |_: usize, logits: &[f64]| [logits, &[fill; 64]].concat();
        holds(&HEAD, written("logits", |logits| logits.rows(384, filled)), "logits", 3);
    }
}

/// Values that are no filling are no logits of this model.
#[test]
fn a_vocabulary_of_more_tokens_is_another() {
    let more = |_: usize, logits: &[f64]| [logits, &logits[..64]].concat();
    let values = written("logits", |logits| logits.rows(384, more))(of_names(&HEAD));
    let refused = try_judged(&values).expect_err("refused");
    assert!(refused.contains("expected [40, 320]"), "{refused}");
}

/// Of a loss all tokens but the last have logits; of what is scored behind a context, those from one before it on.
#[test]
fn logits_may_be_those_of_some_tokens() {
    for tokens in [0..39, 31..39, 20..28] {
        holds(&HEAD, written("logits", |logits| logits.tokens(tokens.clone())), "logits", 3);
        let logs = |logits: &Values| logits.tokens(tokens.clone()).rows(320, log_softmax);
        holds(&HEAD, written("log_probs", logs), "logits", 3);
    }
}

/// Log-probabilities are f32 where logits are not.
#[test]
fn log_probabilities_tell_what_logits_were_stored_in() {
    for storage in [Storage::Bf16, Storage::F16] {
        let narrow = |_: usize, logits: &[f64]| logits.iter().map(|z| storage.nearest(*z)).collect();
        let found = |name: &'static str, change: fn(usize, &[f64]) -> Vec<f64>| {
            let logs = written(name, |logits| logits.rows(320, narrow).rows(320, change));
            precision(&logs(of_names(&HEAD)))
        };
        assert_eq!(found("logprobs", log_softmax).shown(), storage);
        let softmax = |row: usize, logits: &[f64]| log_softmax(row, logits).into_iter().map(f64::exp).collect();
        assert_eq!(found("probs", softmax).shown(), storage);
    }
    let logs = written("logprobs", |logits| logits.rows(320, log_softmax));
    assert_eq!(precision(&logs(of_names(&HEAD))).shown(), Storage::F32);
}
