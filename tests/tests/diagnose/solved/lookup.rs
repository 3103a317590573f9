//! Rows of the embedding that are those of other tokens, or that are missing, seen behind the first layer's norm.

use ndarray::{Array2, Axis};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};
use tests::mistaken::Setting;
use tools::diagnose::diagnosis::solved;

use super::{M2, M2_BF16, Shown, Subject, narrowed};

/// What is said where the first norm reads the embeddings of what `of` makes of each row's token, or 0, and the embedding is hidden.
fn read(
    subject: &Subject,
    of: impl Fn(usize, u32) -> Option<u32>,
    store: fn(Array2<f32>) -> Array2<f32>,
) -> Vec<String> {
    let tokens = tokens(subject);
    let port = |model: &Decoder<'_>, _: &Shown| {
        let dense = |of| model.weights().get(of).expect("it is there").dense::<f32>();
        let (table, w) = (dense(Weight::Embedding), dense(Weight::Layer(0, LayerWeight::InputNorm)));
        let mut x = Array2::zeros((tokens.len(), table.ncols()));
        for (row, mut x) in x.rows_mut().into_iter().enumerate() {
            if let Some(id) = of(row, tokens[row]) {
                x.assign(&table.row(id as usize));
            }
        }
        let eps = 1e-6_f32;
        let r = x.map_axis(Axis(1), |x| 1.0 / (x.dot(&x) / x.len() as f32 + eps).sqrt());
        store(store(x * &r.insert_axis(Axis(1))) * w.row(0))
    };
    let is_hidden = |site| matches!(site, Site::Embedding | Site::InputsEmbeds);
    subject.hiding(is_hidden, &[(Site::Layer(0, LayerSite::InputNorm), &port)], None, |comparison| {
        solved(comparison).expect("it can be put next to the reference")
    })
}

fn tokens(subject: &Subject) -> Vec<u32> {
    Setting::of(subject.case, subject.contract).case.tokens
}

#[test]
fn one_token_is_another() {
    let said = read(&M2, |row, id| Some(if row == 13 { 7 } else { id }), |y| y);
    let given = tokens(&M2)[13];
    super::has(&said, &format!("token 13 has the embedding of id 7, and not that of {given}"));
}

#[test]
fn ids_are_one_less_from_one_on() {
    for (subject, store) in [(M2, (|y| y) as fn(Array2<f32>) -> Array2<f32>), (M2_BF16, narrowed)] {
        let others: Vec<u32> = tokens(&subject).into_iter().filter(|id| *id >= 160).collect();
        let said = read(&subject, |_, id| Some(if id >= 160 { id - 1 } else { id }), store);
        let (count, least) = (others.len(), others.iter().min().expect("some are"));
        let words = format!("{count} rows are those of the token -1 from theirs, all tokens from {least} on");
        super::has(&said, &words);
    }
}

#[test]
fn some_tokens_are_others() {
    let other = |row: usize, id| match row {
        3 => Some(14),
        8 => Some(19),
        _ => Some(id),
    };
    let said = read(&M2, other, |y| y);
    let of = |row: usize| tokens(&M2)[row];
    let words = format!(
        "2 of 40 tokens have the embeddings of other ids: 3 that of 14 in place of {}, 8 that of 19 in place of {}",
        of(3),
        of(8)
    );
    super::has(&said, &words);
}

/// Rows of the prompt that are late are rows, and no ids.
#[test]
fn rows_that_are_late_are_told_as_rows() {
    let all = tokens(&M2);
    let said = read(&M2, |row, id| Some(if row < 30 { id } else { all[row - 1] }), |y| y);
    super::has(&said, "10 of 40 rows, 30, 31, 32, 33, …, have the values of the one 1 before it");
}

#[test]
fn a_shard_of_the_vocabulary_is_missing() {
    let least = tokens(&M2).into_iter().filter(|id| *id >= 160).min().expect("some are");
    let below = tokens(&M2).into_iter().filter(|id| *id < 160).max().expect("some are");
    let said = read(&M2, |_, id| (id < 160).then_some(id), |y| y);
    super::has(&said, &format!("the embeddings of all ids from {least} on are 0, and of none up to {below}"));
}

/// Rows that are 0 here and there have no ids in common.
#[test]
fn rows_that_are_0_by_turns_are_told_as_rows() {
    let said = read(&M2, |row, id| (row % 3 != 0).then_some(id), |y| y);
    super::has(&said, "rows 0, 3, 6, 9, … of 40 are 0");
}
