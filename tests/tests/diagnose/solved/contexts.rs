//! Contexts of attention that stand in others' places, or that a softmax made which counts, or rounds, otherwise.

use half::bf16;
use ndarray::{Array2, s};
use reference::models::decoder::Decoder;
use reference::{LayerSite, Site};

use super::keys::{attention, mean};
use super::{M2, Shown, Subject, has};

/// Channels of a head.
const D: usize = 16;

/// M2 that shows what attention weighs keys by.
const WITH_PROBABILITIES: Subject = Subject { shows: &[LayerSite::QNorm, LayerSite::Probabilities], ..M2 };

/// What is said of a context that `moved` makes of the right one.
fn said(moved: impl Fn(&mut Array2<f32>)) -> Vec<String> {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut context = shown.of(1, LayerSite::Context).clone();
        moved(&mut context);
        context
    };
    M2.said_of(LayerSite::Context, &port)
}

fn head(number: usize) -> std::ops::Range<usize> {
    number * D..(number + 1) * D
}

#[test]
fn two_heads_are_exchanged_at_one_token() {
    let said = said(|context| {
        let [a, b] = [0, 1].map(|number| context.slice(s![24, head(number)]).to_owned());
        context.slice_mut(s![24, head(0)]).assign(&b);
        context.slice_mut(s![24, head(1)]).assign(&a);
    });
    has(&said, "in 1 of 40 rows, 24: heads 0 and 1 of attention's context are in each other's place");
}

#[test]
fn a_head_has_the_token_before() {
    let said = said(|context| {
        let before = context.slice(s![19..39, head(2)]).to_owned();
        context.slice_mut(s![20.., head(2)]).assign(&before);
    });
    has(&said, "in 20 of 40 rows, 20, 21, 22, 23, …: head 2 of attention's context is that of the row 1 before it");
}

/// A lane of a warp.
#[test]
fn a_channel_of_every_head_is_another() {
    let said = said(|context| {
        for number in 0..6 {
            let other = context.column(number * D + 6).to_owned();
            context.column_mut(number * D + 7).assign(&other);
        }
    });
    has(&said, "in all rows: channels of attention's context have the values of others, in heads 0 to 5: 7 that of 6");
}

#[test]
fn heads_are_not_transposed_back() {
    let said = said(|context| {
        let (n, width) = context.dim();
        let of_heads = context.to_shape((n, width / D, D)).expect("whole heads").permuted_axes([1, 0, 2]);
        let written: Vec<f32> = of_heads.iter().copied().collect();
        *context = Array2::from_shape_vec((n, width), written).expect("as many");
    });
    has(&said, "in all rows: attention's context is written as [heads, tokens, channels], and read as");
}

/// What is said of attention by what each key counts of one that a token must not see, and a sink counts in one head.
fn counted(subject: &Subject, sees_behind: bool, sink: Option<(usize, f32)>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let count = |key: usize, score: f32| {
                if key <= token { Some((score, 1.0)) } else { sees_behind.then_some((score - 10.0, 1.0)) }
            };
            let sum: f32 = head.scores(token).iter().take(token + 1).map(|score| score.exp()).sum();
            let share = sink.filter(|(own, _)| *own == head.number).map_or(1.0, |(_, b)| sum / (sum + b.exp()));
            mean(head, token, count) * share
        })
    };
    subject.said(&[(Site::Layer(1, LayerSite::Context), &port)])
}

#[test]
fn a_mask_of_a_finite_number() {
    let sentence =
        "keys that a token must not see are seen, with scores that are 10.0000 less: a mask of a finite number";
    has(&counted(&M2, true, None), sentence);
}

/// The same where probabilities are shown, which have it.
#[test]
fn probabilities_of_a_finite_mask() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let [q, k] = [LayerSite::QRope, LayerSite::KRope].map(|site| shown.of(1, site));
        let n = q.nrows();
        Array2::from_shape_fn((6 * n, n), |(row, key)| {
            let (number, token) = (row / n, row % n);
            let weight = |key: usize| {
                let own = q.slice(s![token, head(number)]).dot(&k.slice(s![key, head(number / 3)])) / 4.0;
                (if key > token { own - 10.0 } else { own }).exp()
            };
            weight(key) / (0..n).map(weight).sum::<f32>()
        })
    };
    let said = WITH_PROBABILITIES.said_of(LayerSite::Probabilities, &port);
    has(&said, "keys that a token must not see are seen, with scores that are 10.0000 less: a mask of a finite number");
}

/// As where the last tile of a sum over ranks is lost.
#[test]
fn heads_are_not_added_for_some_tokens() {
    let said = said(|context| context.slice_mut(s![32.., head(2).start..head(5).end]).fill(0.0));
    has(&said, "of heads 2 to 5 nothing is added for tokens 32 to 39");
}

#[test]
fn one_head_sees_the_next_key() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let end = token + usize::from(head.number == 4);
            mean(head, token, |key, score| (key <= end).then_some((score, 1.0)))
        })
    };
    let said = M2.said_of(LayerSite::Context, &port);
    has(&said, "in head 4 alone attention sees the key 1 behind the token");
}

#[test]
fn queries_and_keys_of_fewer_bits() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let narrow = |x: &f32| bf16::from_f32(*x).to_f32();
        attention(model, shown, |head, token| {
            let scores = head.k.map(narrow).dot(&head.q.row(token).map(narrow)) / 4.0;
            let weights = scores.slice_move(s![..=token]).mapv(f32::exp);
            weights.dot(&head.v.slice(s![..=token, ..])) / weights.sum()
        })
    };
    has(&M2.said_of(LayerSite::Context, &port), "attention's queries and keys are rounded to bf16");
}

#[test]
fn a_sink_of_one_head() {
    let sentence = "the softmax's denominator counts a score beside those of keys: a sink of 1.5000 in head 2";
    let said = counted(&M2, false, Some((2, 1.5)));
    assert!(said.iter().any(|own| own.contains(sentence)), "{said:#?}");
}

/// As a kernel does that multiplies them with values of that type.
#[test]
fn probabilities_of_fewer_bits() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let scores = head.scores(token).slice_move(s![..=token]).mapv(f32::exp);
            let rounded = (&scores / scores.sum()).mapv(|p| bf16::from_f32(p).to_f32());
            rounded.dot(&head.v.slice(s![..=token, ..]))
        })
    };
    has(&M2.said_of(LayerSite::Context, &port), "attention's probabilities are rounded to bf16");
}
