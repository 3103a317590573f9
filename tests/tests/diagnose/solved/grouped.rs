//! Sums of experts by kernels that go through tokens expert by expert, or rank by rank.

use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::{M2, Shown, has};

/// A token's choice: the token, its expert and its weight.
type Choice = (usize, usize, f32);

/// What each choice of each token is, token by token.
fn choices(shown: &Shown) -> Vec<Choice> {
    let weights = shown.of(1, LayerSite::GateWeights);
    let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
    chosen.indexed_iter().map(|((token, slot), &expert)| (token, expert, weights[[token, slot]])).collect()
}

/// What is said of the sum behind the network of layer 1 that `of` makes of each expert's outputs of all tokens, and of choices.
fn said(of: impl Fn(&[Array2<f32>], &[Choice]) -> Array2<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let x = Tracked { value: shown.of(1, LayerSite::PostAttentionNorm).clone(), error: None };
        let mut probe = NoProbe;
        let run = Run::new(RoundingContract::EAGER_F32, &mut probe);
        let experts = 0..model.config().num_local_experts;
        let each: Vec<_> = experts.map(|expert| model.expert(1, expert, &x, &run).expect("it runs").value).collect();
        of(&each, &choices(shown))
    };
    M2.said_of(LayerSite::Mlp, &port)
}

/// The sum of outputs, each of a token, an expert that computes it and a weight.
fn sum(each: &[Array2<f32>], of: impl Iterator<Item = Choice>) -> Array2<f32> {
    let mut sum = Array2::zeros(each[0].dim());
    for (token, expert, weight) in of {
        sum.row_mut(token).scaled_add(weight, &each[expert].row(token));
    }
    sum
}

/// Of `ranks` ranks each normalizes the weights of its own experts.
fn normalized(ranks: usize) -> Vec<String> {
    said(|each, choices| {
        let rank = |expert: usize| expert * ranks / each.len();
        let own = |token, of| choices.iter().filter(move |(other, e, _)| *other == token && rank(*e) == of);
        sum(
            each,
            choices.iter().map(|&(token, expert, weight)| {
                let total: f32 = own(token, rank(expert)).map(|(_, _, weight)| weight).sum();
                (token, expert, weight / total)
            }),
        )
    })
}

#[test]
fn weights_that_each_rank_normalizes() {
    let words = "weights are divided by the sum over those of a token's experts that are on one rank, and not over all: 2 ranks";
    has(&normalized(2), words);
}

/// An expert that is another's alone is told once, and not by weights, too.
#[test]
fn a_choice_that_another_ones_expert_computes() {
    let said = said(|each, choices| {
        let k = choices.iter().filter(|(token, ..)| *token == 0).count();
        let by = |i: usize| if i % k == 1 { choices[i - 1].1 } else { choices[i].1 };
        sum(each, choices.iter().enumerate().map(|(i, &(token, _, weight))| (token, by(i), weight)))
    });
    has(&said, "a token's choice 2 is computed by the expert of its choice 1, with its own weight: of 40 of 40 tokens");
    assert_eq!(said.len(), 1, "{said:#?}");
}

/// All choices, expert by expert.
fn sorted(choices: &[Choice]) -> Vec<Choice> {
    let mut sorted = choices.to_vec();
    sorted.sort_by_key(|(_, expert, _)| *expert);
    sorted
}

#[test]
fn outputs_that_stay_in_the_order_of_experts() {
    let said = said(|each, choices| {
        let k = choices.len() / each[0].nrows();
        let mut sum = Array2::zeros(each[0].dim());
        for (place, (token, expert, weight)) in sorted(choices).into_iter().enumerate() {
            sum.row_mut(place / k).scaled_add(weight, &each[expert].row(token));
        }
        sum
    });
    has(&said, "experts' outputs stay in the order of experts, with their weights: each token has the next 3");
}

/// What is said where each output has those of so many rows of the same expert before it, too.
fn unzeroed(is_before: impl Fn(usize) -> bool) -> Vec<String> {
    said(|each, choices| {
        let mut sum = sum(each, choices.iter().copied());
        let sorted = sorted(choices);
        for (place, &(token, expert, weight)) in sorted.iter().enumerate() {
            for (rows, (other, ..)) in sorted[..place].iter().rev().take_while(|own| own.1 == expert).enumerate() {
                if is_before(rows + 1) {
                    sum.row_mut(token).scaled_add(weight, &each[expert].row(*other));
                }
            }
        }
        sum
    })
}

#[test]
fn accumulators_that_are_not_made_0() {
    let all = unzeroed(|rows| rows.is_multiple_of(4));
    has(&all, "to a token's output of an expert those of all tiles of 4 rows before it is added, row by row");
    let one = unzeroed(|rows| rows == 4);
    has(&one, "to a token's output of an expert that of the tile of 4 rows before it is added, row by row");
}

/// Rows that are added where they stand three apart are of no tile.
#[test]
fn rows_that_are_added_three_apart() {
    let said = unzeroed(|rows| rows == 3);
    assert!(said.iter().all(|own| !own.contains("an accumulator")), "{said:#?}");
}
