//! Splits of keys that are put together otherwise than by their sums.

use ndarray::{Array1, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;

use super::keys::attention;
use super::{M2, Shown, has};

/// What is said of attention to splits of eight keys that are put together so: of the largest scores of one and of all that
/// came before, and of its sums of weights and of values by the former.
fn said_of_splits(together: impl Fn(&[Split]) -> Array1<f32>) -> Vec<String> {
    const SIZE: usize = 8;
    let port = |model: &Decoder<'_>, shown: &Shown| {
        attention(model, shown, |head, token| {
            let scores = head.scores(token);
            let mut splits: Vec<Split> = Vec::new();
            for first in (0..=token).step_by(SIZE) {
                let keys = first..(first + SIZE).min(token + 1);
                let largest = scores.slice(s![keys.clone()]).fold(f32::NEG_INFINITY, |most, score| most.max(*score));
                let weights = scores.slice(s![keys.clone()]).mapv(|score| (score - largest).exp());
                let so_far = splits.last().map_or(largest, |before| before.so_far.max(largest));
                splits.push(Split {
                    largest,
                    so_far,
                    weights: weights.sum(),
                    values: weights.dot(&head.v.slice(s![keys, ..])),
                });
            }
            together(&splits)
        })
    };
    M2.said_of(LayerSite::Context, &port)
}

struct Split {
    largest: f32,
    so_far: f32,
    weights: f32,
    values: Array1<f32>,
}

/// Of all splits, by what each counts.
fn weighed(splits: &[Split], count: impl Fn(&Split) -> [f32; 2]) -> Array1<f32> {
    let weights: f32 = splits.iter().map(|split| count(split)[0]).sum();
    let zero = Array1::zeros(splits[0].values.len());
    splits.iter().fold(zero, |total, split| total + &split.values * count(split)[1]) / weights
}

/// Means that are put together by their largest scores alone.
#[test]
fn splits_without_their_sums() {
    let said =
        said_of_splits(|splits| weighed(splits, |split| [split.largest.exp(), split.largest.exp() / split.weights]));
    has(&said, "attention's splits of 8 keys are put together by their largest scores, without their sums");
}

#[test]
fn splits_that_are_averaged() {
    let said = said_of_splits(|splits| weighed(splits, |split| [1.0, split.weights.recip()]));
    has(&said, "attention's splits of 8 keys are averaged, each for as much as every other, without their sums");
}

/// Where a larger score comes, what was added before must be scaled again; the weights' sum is.
#[test]
fn splits_whose_values_are_not_scaled_again() {
    let said = said_of_splits(|splits| {
        let last = splits[splits.len() - 1].so_far;
        let scaled =
            |split: &Split| [(split.largest - last).exp() * split.weights, (split.largest - split.so_far).exp()];
        weighed(splits, scaled)
    });
    let sentence =
        "attention's splits of 8 keys are added without scaling the sum of values again where a larger score comes";
    has(&said, sentence);
}
