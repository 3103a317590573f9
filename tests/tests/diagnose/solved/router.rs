//! A router's weights, which are divided by another sum.

use ndarray::{Array2, Axis};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site};
use tools::diagnose::diagnosis::{diagnose, solved};
use tools::judge::comparison::Comparison;

use super::{Shown, Subject, has};

/// M2, whose router's weights are shown.
const M2: Subject = Subject {
    case: "m2-gqa3-f32",
    contract: RoundingContract::EAGER_F32,
    shows: &[LayerSite::QNorm, LayerSite::GateWeights],
};

/// Weights that `of` makes of the scores of each token's experts.
fn weights(of: impl Fn(Array2<f32>) -> Array2<f32>) -> impl Fn(&Decoder<'_>, &Shown) -> Array2<f32> {
    move |_, shown| {
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        let scores = shown.of(1, LayerSite::GateScores);
        of(Array2::from_shape_fn(chosen.dim(), |(token, slot)| scores[[token, chosen[[token, slot]]]]))
    }
}

/// What is said where `of` makes these weights.
fn said(of: impl Fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    M2.said_of(LayerSite::GateWeights, &weights(of))
}

fn sums(r: &Array2<f32>) -> Array2<f32> {
    r.sum_axis(Axis(1)).insert_axis(Axis(1))
}

/// Nothing known explains it, and a diagnosis says the same.
#[test]
fn weights_divided_by_their_sum_and_one() {
    let port = weights(|r| &r / &(sums(&r) + 1.0));
    let both = |comparison: &Comparison<'_>| (diagnose(comparison, |_| ()), solved(comparison));
    let (diagnosis, said) = M2.with(&[(Site::Layer(1, LayerSite::GateWeights), &port)], both);
    let (diagnosis, said) = (diagnosis.expect("it is compared"), said.expect("it is compared"));
    has(&said, "the weights are the scores divided by their sum and 1.00000 more, times 1.00000");
    assert_eq!((diagnosis.explained.len(), diagnosis.solved), (0, said));
}

#[test]
fn a_steeper_sigmoid() {
    let said = said(|r| {
        let r = r.mapv(|r| 1.0 / (1.0 + (-1.1 * (r / (1.0 - r)).ln()).exp()));
        &r / &sums(&r)
    });
    has(&said, "the scores are the sigmoid of 1.1000 times the router's logits");
}

#[test]
fn scores_divided_in_place() {
    let said = said(|mut r| {
        for mut row in r.rows_mut() {
            for slot in 0..row.len() {
                let sum = row.sum();
                row[slot] /= sum;
            }
        }
        r
    });
    has(&said, "each score is divided by a sum in which those before it are divided already");
}

/// Roundings of another kind than the reference's are no other sum and no other sigmoid.
#[test]
fn weights_that_are_right_but_for_a_rounding() {
    let said = said(|r| {
        let mut w = &r / &sums(&r);
        for (i, w) in w.iter_mut().enumerate() {
            *w = f32::from_bits(w.to_bits() + u32::from(i % 3 == 0));
        }
        w
    });
    assert!(said.is_empty(), "{said:#?}");
}

/// Scores by a function that is a sigmoid at 0 and far from it.
#[test]
fn another_sigmoid() {
    let said = said(|r| {
        let r = r.mapv(|r| {
            let x = (r / (1.0 - r)).ln() / 2.0;
            0.5 + 0.5 * x / (1.0 + x.abs().powf(2.2)).powf(2.2_f32.recip())
        });
        &r / &sums(&r)
    });
    has(&said, "the router's sigmoid is another function of its argument: ");
}

#[test]
fn scores_divided_by_a_sum_of_biased_ones() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let bias = model.weights().get(Weight::Layer(1, LayerWeight::CorrectionBias)).expect("it is there");
        let bias: Vec<f32> = bias.dense::<f32>().into_iter().collect();
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        let scores = shown.of(1, LayerSite::GateScores);
        let r = Array2::from_shape_fn(chosen.dim(), |(token, slot)| scores[[token, chosen[[token, slot]]]]);
        &r / &sums(&(&r + &chosen.mapv(|expert| bias[expert])))
    };
    let said = M2.said_of(LayerSite::GateWeights, &port);
    has(&said, "the scores are divided by the sum of those with their bias");
}

#[test]
fn the_least_weight_is_left_out() {
    let said = said(|r| {
        let mut w = &r / &sums(&r);
        for mut row in w.rows_mut() {
            let least = row.fold(f32::INFINITY, |least, w| least.min(*w));
            row.mapv_inplace(|w| if w > least { w } else { 0.0 });
        }
        w
    });
    has(&said, "of 40 of 40 tokens, the least of their weights is 0, and the others are right");
}
