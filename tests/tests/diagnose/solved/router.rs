//! A router's weights, which are divided by another sum.

use std::cell::RefCell;

use ndarray::{Array2, Axis};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tools::diagnose::diagnosis::{diagnose, solved};
use tools::judge::comparison::Comparison;

use super::{Port, Shown, Subject, has, number};

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

/// The same where nothing shows the router, and some tokens have other experts by it.
#[test]
fn a_flatter_sigmoid_by_which_other_experts_are_chosen() {
    let port =
        |_: &Decoder<'_>, shown: &Shown| shown.of(1, LayerSite::GateLogits).mapv(|z| 1.0 / (1.0 + (-0.6 * z).exp()));
    let is_hidden = |site: Site| {
        use LayerSite::{GateExperts, GateLogits, GateScores, GateWeights};
        matches!(site, Site::Layer(1, GateExperts | GateLogits | GateScores | GateWeights))
    };
    let ports: [(Site, &Port<'_>); 1] = [(Site::Layer(1, LayerSite::GateScores), &port)];
    let said = M2.hiding(is_hidden, &ports, None, |comparison| solved(comparison).expect("it is compared"));
    has(&said, "the scores are the sigmoid of 0.6000 times the router's logits");
    assert!(said.iter().any(|own| own.contains("tokens have other experts than they should")), "{said:#?}");
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

/// Weights are as good as their scores there, but for what a softmax or the largest of them makes of these.
#[test]
fn weights_that_are_divided_otherwise() {
    let softmax = |x: &Array2<f32>| {
        let weights = x.mapv(f32::exp);
        &weights / &sums(&weights)
    };
    has(&said(|r| softmax(&(&r / &sums(&r)))), "the weights go through a softmax once more");
    has(&said(|r| softmax(&r)), "the weights are the softmax of the scores");
    let largest = |r: &Array2<f32>| r.map_axis(Axis(1), |row| row.fold(0.0_f32, |a, b| a.max(*b))).insert_axis(Axis(1));
    has(&said(|r| &r / &largest(&r)), "the scores are divided by the largest of them");
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
    has(&said, "weights are as if the router's sigmoid were another function of its argument: ");
}

/// Shown, and behind the sum of experts alone, whose weights are solved for.
#[test]
fn weights_are_told_behind_their_sum_too() {
    let hidden = |site| matches!(site, Site::Layer(_, LayerSite::GateWeights | LayerSite::Experts));
    let both = |port: &Port<'_>, sentence: &str| {
        let ports = [(Site::Layer(1, LayerSite::GateWeights), port)];
        has(&M2.said(&ports), sentence);
        let of = |comparison: &Comparison<'_>| solved(comparison).expect("it is compared");
        has(&M2.hiding(hidden, &ports, None, of), sentence);
    };
    let root = |r: &Array2<f32>| sums(&(r * r)).mapv(f32::sqrt);
    both(&weights(|r| &r / &root(&r)), "the scores are divided by the root of the sum of their squares");
    both(&weights(|r| (&r / &sums(&r)).mapv(|w| w * w)), "the weights count twice: each is its square");
    both(&weights(|r| &r / &(sums(&r) + 0.01)), "the weights are the scores divided by their sum and 0.01000 more");
    let of_all = |_: &Decoder<'_>, shown: &Shown| {
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        let scores = shown.of(1, LayerSite::GateScores);
        let r = Array2::from_shape_fn(chosen.dim(), |(token, slot)| scores[[token, chosen[[token, slot]]]]);
        &r / &sums(scores)
    };
    both(&of_all, "the scores are divided by the sum of all experts'");
    let of_one_more = |model: &Decoder<'_>, shown: &Shown| {
        let bias = model.weights().get(Weight::Layer(1, LayerWeight::CorrectionBias)).expect("it is there");
        let bias: Vec<f32> = bias.dense::<f32>().into_iter().collect();
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        let scores = shown.of(1, LayerSite::GateScores);
        let k = chosen.ncols();
        let first = |token: usize| {
            let mut ranked: Vec<usize> = (0..bias.len()).collect();
            ranked.sort_by(|a, b| (scores[[token, *b]] + bias[*b]).total_cmp(&(scores[[token, *a]] + bias[*a])));
            ranked[..=k].iter().map(|e| scores[[token, *e]]).sum::<f32>()
        };
        Array2::from_shape_fn(chosen.dim(), |(token, slot)| scores[[token, chosen[[token, slot]]]] / first(token))
    };
    both(&of_one_more, "the scores are divided by the sum of 4 that are chosen first, and 3 are used");
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

#[test]
fn weights_of_the_token_before() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let w = shown.of(1, LayerSite::GateWeights);
        w.select(Axis(0), &(0..w.nrows()).map(|token| token.saturating_sub(1)).collect::<Vec<_>>())
    };
    let said = M2.said_of(LayerSite::GateWeights, &port);
    has(&said, "39 of 40 rows, 1, 2, 3, 4, …, have the values of the one 1 before it");
}

#[test]
fn weights_by_squares_of_scores() {
    let said = said(|r| {
        let r = r.mapv(|r| r * r);
        &r / &sums(&r)
    });
    has(&said, "the weights are the scores to the power 2.0000, divided by their sum");
}

#[test]
fn scores_of_logits_in_f16() {
    let said = said(|r| {
        let r = r.mapv(|r| 1.0 / (1.0 + (-half::f16::from_f32((r / (1.0 - r)).ln()).to_f32()).exp()));
        &r / &sums(&r)
    });
    has(&said, "the logits are rounded to f16");
}

/// What is said of experts that are chosen by a number that `score` makes of logit and bias.
fn said_of_chosen_by(score: impl Fn(f32, f32) -> f32) -> Vec<String> {
    let setting = Setting::of(M2.case, M2.contract);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let of = Weight::Layer(1, LayerWeight::CorrectionBias);
    let bias: Vec<f32> = checkpoint.get(of).expect("it is there").dense::<f32>().into_iter().collect();
    let logits = RefCell::new(Array2::zeros((0, 0)));
    let keeps = |_: &Decoder<'_>, shown: &Shown| {
        logits.replace(shown.of(1, LayerSite::GateLogits).clone());
        shown.of(1, LayerSite::GateLogits).clone()
    };
    let chooses = |right: &Array2<usize>| {
        let mut chosen = right.clone();
        for (z, mut chosen) in logits.borrow().rows().into_iter().zip(chosen.rows_mut()) {
            let mut experts: Vec<usize> = (0..z.len()).collect();
            experts.sort_by(|a, b| score(z[*b], bias[*b]).total_cmp(&score(z[*a], bias[*a])));
            chosen.iter_mut().zip(experts).for_each(|(slot, expert)| *slot = expert);
        }
        chosen
    };
    let ports: [(Site, &Port<'_>); 1] = [(Site::Layer(1, LayerSite::GateLogits), &keeps)];
    M2.choosing(&ports, Some((Site::Layer(1, LayerSite::GateExperts), &chooses)), |comparison| {
        solved(comparison).expect("it can be put next to the reference")
    })
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

#[test]
fn experts_are_chosen_by_logits() {
    let said = said_of_chosen_by(|z, bias| z + bias);
    assert!(said[0].contains("the logits with their bias"), "{said:#?}");
}

#[test]
fn the_bias_counts_twice() {
    let said = said_of_chosen_by(|z, bias| sigmoid(z) + 2.0 * bias);
    has(&said, "experts are chosen by the scores with a multiple of their bias, by a number between 1.");
    let most = number(&said, " and ");
    assert!((2.0..3.0).contains(&most), "{said:#?}");
}

#[test]
fn experts_are_numbered_from_one() {
    let chooses = |right: &Array2<usize>| right.mapv(|expert| (expert + 1) % 8);
    let said = M2.said_of_choice(Site::Layer(1, LayerSite::GateExperts), &chooses);
    has(&said, "each token has expert (e + 1) mod 8 in the place of expert e: 40 of 40 choices that are off");
}

#[test]
fn weights_of_one_another() {
    let said = said(|r| {
        let w = &r / &sums(&r);
        w.select(Axis(1), &[1, 0, 2])
    });
    has(&said, "a token's experts have each other's weights: of its choices, 1 that of 2, 2 that of 1");
}
