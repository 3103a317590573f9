//! Keys that tokens do not see, that are zeros, or that count otherwise.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use reference::models::decoder::Decoder;
use reference::ops::rope::inverse_frequencies;
use reference::{LayerSite, Storage};
use tests::values::second_and_third_exchanged;

use super::{M2, M2_BF16, Shown, Subject, has, narrowed};

/// A head of attention in layer 1.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) number: usize,
    pub(super) group: usize,
    pub(super) q: ArrayView2<'a, f32>,
    pub(super) k: ArrayView2<'a, f32>,
    pub(super) v: ArrayView2<'a, f32>,
}

impl Head<'_> {
    /// A token's scores.
    pub(super) fn scores(&self, token: usize) -> Array1<f32> {
        self.k.dot(&self.q.row(token)) / (self.q.ncols() as f32).sqrt()
    }
}

/// Attention by what `of` makes of each head and token.
pub(super) fn attention(
    model: &Decoder<'_>,
    shown: &Shown,
    of: impl Fn(&Head<'_>, usize) -> Array1<f32>,
) -> Array2<f32> {
    let config = model.config();
    let [q, k, v] = [LayerSite::QRope, LayerSite::KRope, LayerSite::VProj].map(|site| shown.of(1, site));
    let (heads, groups, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let columns = |head: usize| s![.., head * d..(head + 1) * d];
    let mut o = Array2::zeros(q.dim());
    for number in 0..heads {
        let group = number * groups / heads;
        let [q, k, v] = [(q, number), (k, group), (v, group)].map(|(of, head)| of.slice(columns(head)));
        let head = Head { number, group, q, k, v };
        for token in 0..q.nrows() {
            o.slice_mut(s![token, number * d..(number + 1) * d]).assign(&of(&head, token));
        }
    }
    o
}

/// The mean of values by the exponentials of their scores, where `count` says with what score and times what a value counts.
pub(super) fn mean(head: &Head<'_>, token: usize, count: impl Fn(usize, f32) -> Option<(f32, f32)>) -> Array1<f32> {
    let counted: Vec<Option<(f32, f32)>> =
        head.scores(token).indexed_iter().map(|(key, score)| count(key, *score)).collect();
    let weights: Array1<f32> = counted.iter().map(|of| of.map_or(0.0, |(score, _)| score.exp())).collect();
    let times: Array1<f32> = counted.iter().map(|of| of.map_or(0.0, |(_, times)| times)).collect();
    (&weights * &times).dot(&head.v) / weights.sum()
}

/// What is said where every token's keys count so: by token, head and key.
fn said(count: impl Fn((usize, usize, usize), f32) -> Option<(f32, f32)>) -> Vec<String> {
    said_of(&M2, count)
}

fn said_of(subject: &Subject, count: impl Fn((usize, usize, usize), f32) -> Option<(f32, f32)>) -> Vec<String> {
    let is_narrow = subject.contract.activations == Storage::Bf16;
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let context = attention(model, shown, |head, token| {
            mean(head, token, |key, score| if key <= token { count((token, head.number, key), score) } else { None })
        });
        if is_narrow { narrowed(context) } else { context }
    };
    subject.said_of(LayerSite::Context, &port)
}

#[test]
fn a_key_that_is_not_seen() {
    let said = said(|(token, _, key), score| (key != 2 || token == 2).then_some((score, 1.0)));
    has(&said, "attention does not see key 2: all tokens that are off");
}

#[test]
fn several_keys_that_are_not_seen() {
    let said = said(|(token, _, key), score| (![2, 5].contains(&key) || token == key).then_some((score, 1.0)));
    for key in [2, 5] {
        has(&said, &format!("attention does not see key {key}: "));
    }
}

#[test]
fn a_key_and_a_value_of_zeros() {
    let said = said(|(_, _, key), score| Some(if key == 3 { (0.0, 0.0) } else { (score, 1.0) }));
    has(&said, "attention has zeros for key 3 and its value: all tokens that are off");
}

/// A page of a cache that nothing was written to.
#[test]
fn a_run_of_keys_and_values_of_zeros() {
    let said = said(|(_, _, key), score| Some(if (8..12).contains(&key) { (0.0, 0.0) } else { (score, 1.0) }));
    has(&said, "attention has zeros for keys 8 to 11 and their values: all tokens that are off");
}

#[test]
fn a_run_of_keys_that_is_not_seen() {
    let said = said(|(token, _, key), score| (!(8..12).contains(&key) || token < 12).then_some((score, 1.0)));
    has(&said, "attention does not see keys 8 to 11: all tokens that are off");
}

#[test]
fn a_key_that_is_not_seen_in_bf16() {
    let said = said_of(&M2_BF16, |(token, _, key), score| (key != 2 || token == 2).then_some((score, 1.0)));
    has(&said, "attention does not see key 2: ");
}

/// As of `ALiBi`.
#[test]
fn scores_that_fall_with_distance() {
    let slope = |head: usize| 0.3 - 0.04 * head as f32;
    let said = said(|(token, head, key), score| Some((score - slope(head) * (token - key) as f32, 1.0)));
    let slopes: Vec<String> = (0..6).map(|head| format!("{:.4}", slope(head))).collect();
    has(&said, &format!("scores fall with each token of distance, in its heads by {}", slopes.join(", ")));
}

#[test]
fn values_of_the_token_before() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let rows: Vec<usize> = (0..head.v.nrows()).map(|row| row.saturating_sub(1)).collect();
            let late = head.v.select(Axis(0), &rows);
            let head = Head { v: if head.group == 1 { late.view() } else { head.v }, ..*head };
            mean(&head, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    has(&M2.said_of(LayerSite::Context, &port), "attention reads for key head 1 the token before's values");
}

#[test]
fn values_of_another_key_head() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let values = shown.of(1, LayerSite::VProj);
        let first = values.slice(s![.., ..model.config().head_dim]);
        attention(model, shown, |head, token| {
            let head = Head { v: if head.group == 1 { first } else { head.v }, ..*head };
            mean(&head, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    has(&M2.said_of(LayerSite::Context, &port), "attention reads for key head 1 key head 0's values");
}

/// The first query head's probabilities are of the second key head.
#[test]
fn probabilities_of_another_key_head() {
    let m2 = Subject { shows: &[LayerSite::QNorm, LayerSite::Probabilities], ..M2 };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut p = shown.of(1, LayerSite::Probabilities).clone();
        let (d, n) = (model.config().head_dim, p.ncols());
        let q = shown.of(1, LayerSite::QRope).slice(s![.., ..d]).to_owned();
        let k = shown.of(1, LayerSite::KRope).slice(s![.., d..2 * d]).to_owned();
        let scores = q.dot(&k.t()) / (d as f32).sqrt();
        for token in 0..n {
            let own: Array1<f32> =
                (0..n).map(|key| if key <= token { scores[[token, key]].exp() } else { 0.0 }).collect();
            p.row_mut(token).assign(&(&own / own.sum()));
        }
        p
    };
    has(&m2.said_of(LayerSite::Probabilities, &port), "head 0 reads the keys of key head 1 in place of 0");
}

/// Tiles that overlap by a key.
#[test]
fn keys_that_are_counted_twice() {
    let m2 = Subject { shows: &[LayerSite::QNorm, LayerSite::Probabilities], ..M2 };
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut p = shown.of(1, LayerSite::Probabilities).clone();
        for mut row in p.rows_mut() {
            row.iter_mut().skip(8).step_by(8).for_each(|p| *p *= 2.0);
            let sum = row.sum();
            row /= sum;
        }
        p
    };
    has(&m2.said_of(LayerSite::Probabilities, &port), "keys 8, 16, 24, 32 are counted 2.0000 times");
}

/// Values are repeated as a whole, keys head by head.
#[test]
fn values_of_the_key_heads_in_turn() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (d, groups) = (model.config().head_dim, model.config().num_key_value_heads);
        let v = shown.of(1, LayerSite::VProj);
        attention(model, shown, |head, token| {
            let group = head.number % groups;
            mean(&Head { v: v.slice(s![.., group * d..(group + 1) * d]), ..*head }, token, |key, score| {
                (key <= token).then_some((score, 1.0))
            })
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    has(&said, "query heads read the values of the key heads in turn, one after the other");
}

/// A head's query has another scale, where no probability is shown.
#[test]
fn scores_of_one_head_are_scaled() {
    let said = said(|(_, head, _), score| Some((if head == 2 { 1.15 * score } else { score }, 1.0)));
    has(&said, "scores are multiplied by a factor of each head: 1.1500 in head 2");
}

/// The first keys have a bias.
#[test]
fn scores_of_some_keys_have_more() {
    let said = said(|(_, _, key), score| Some((if key < 2 { score + 0.2 * (key + 1) as f32 } else { score }, 1.0)));
    let sentence =
        "the scores of 2 keys have a number of each key more, whatever the query: key 0 +0.2000, key 1 +0.4000";
    has(&said, sentence);
}

/// From the 12th on, keys are those of the token two before.
#[test]
fn keys_of_another_token_from_one_on() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let rows: Vec<usize> = (0..head.k.nrows()).map(|row| if row < 12 { row } else { row - 2 }).collect();
            let late = head.k.select(Axis(0), &rows);
            mean(&Head { k: late.view(), ..*head }, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    has(&said, "attention reads for every key head, of tokens 12 to 39, the keys of the token 2 before each");
}

/// A decode kernel turns the keys of the prompt by one position too many.
#[test]
fn keys_of_other_positions_from_one_on() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let config = model.config();
        let frequencies = inverse_frequencies(config.rope_theta, config.rotary_dim, config.rotary_dim);
        let half = frequencies.len();
        attention(model, shown, |head, token| {
            let mut keys = head.k.to_owned();
            for mut key in keys.rows_mut().into_iter().skip(12) {
                for (i, f) in frequencies.iter().enumerate() {
                    let ((sin, cos), (a, b)) = ((3.0 * f).sin_cos(), (key[i], key[i + half]));
                    (key[i], key[i + half]) = (a * cos - b * sin, b * cos + a * sin);
                }
            }
            mean(&Head { k: keys.view(), ..*head }, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    let sentence =
        "attention reads for every key head, of tokens 12 to 39, keys that are rotated by the position 3 behind";
    has(&said, sentence);
}

/// Two pages of a table of blocks, of keys alone, from the token on that reads both from it: whose weights change places, as if
/// values did.
#[test]
fn keys_of_two_pages_exchanged() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let exchanged = head.k.select(Axis(0), &second_and_third_exchanged(8, head.k.nrows()));
            let head = Head { k: if token < 30 { head.k } else { exchanged.view() }, ..*head };
            mean(&head, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    has(&said, "attention reads the keys, or the values, of tokens 8 to 15 and of 16 to 23 in each other's place");
}

/// M2, of whose attention the context is shown, too.
const WITH_CONTEXT: Subject = Subject { shows: &[LayerSite::QNorm, LayerSite::Context], ..M2 };

/// A mask of no plain rule: every eleventh pair is left out, but a token and its own key.
#[test]
fn a_mask_with_holes() {
    let is_seen = |token: usize, key: usize| token == key || !(7 * token + 3 * key).is_multiple_of(11);
    let said = said_of(&WITH_CONTEXT, |(token, _, key), score| is_seen(token, key).then_some((score, 1.0)));
    has(&said, "attention has another mask, which all heads share: token ");
}

/// The length of another request, behind which a token sees itself alone.
#[test]
fn a_mask_of_another_length() {
    let said = said(|(token, _, key), score| (key < 20 || token == key).then_some((score, 1.0)));
    has(&said, "attention does not see the keys from key 20 to the key 1 before the token");
}

#[test]
fn a_query_head_that_is_not_rotated() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let unrotated = shown.of(1, LayerSite::QNorm);
        attention(model, shown, |head, token| {
            let d = head.q.ncols();
            let q = unrotated.slice(s![.., head.number * d..(head.number + 1) * d]);
            let head = Head { q: if head.number == 2 { q } else { head.q }, ..*head };
            mean(&head, token, |key, score| (key <= token).then_some((score, 1.0)))
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    has(&said, "attention reads for query head 2 keys as if queries were not rotated");
}

/// A context of \[n, heads, d\] that is written as \[heads, n, d\].
#[test]
fn heads_before_tokens() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let y = shown.of(1, LayerSite::Context);
        let (n, m) = y.dim();
        let heads = model.config().num_attention_heads;
        let values = (0..n * m).map(|at| {
            let (head, rest) = (at / (n * m / heads), at % (n * m / heads));
            y[[rest / (m / heads), head * (m / heads) + rest % (m / heads)]]
        });
        Array2::from_shape_vec((n, m), values.collect()).expect("as many")
    };
    let said = WITH_CONTEXT.said_of(LayerSite::Context, &port);
    has(&said, "values are written as [6, 40, 16], and read as if they stood as [40, 6, 16]");
}

/// What is written to the cache last is not there yet, and the row before it stands in its place.
#[test]
fn a_tokens_own_key_and_value_are_those_of_the_one_before() {
    let said = said(|(token, _, key), score| match token - key {
        0 if token > 0 => None,
        1 => Some((score + 2.0_f32.ln(), 1.0)),
        _ => Some((score, 1.0)),
    });
    has(
        &said,
        "attention reads for every key head for a token's own place the keys and values of the token 1 before it",
    );
}

#[test]
fn one_value_that_is_another() {
    let said = said(|(_, _, key), score| Some((score, if key == 5 { 1.3 } else { 1.0 })));
    has(&said, "of the values, that of token 5 alone is another, 1.3000 times as large: ");
}

#[test]
fn one_key_that_is_another() {
    let said = said(|(token, head, key), score| {
        let more = if key == 5 { (1.7 * token as f32 + head as f32).sin() } else { 0.0 };
        Some((score + more, 1.0))
    });
    has(&said, "of the keys, that of token 5 alone is another: ");
}
