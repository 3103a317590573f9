//! Experts that other experts compute for, or that a sum leaves out.

use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::{M2, M2_BF16, Shown, has, narrowed};

/// The sum over a token's experts of their weights' products with what `computes` says for each: of an expert and how many tokens
/// were sent there before.
fn mixture(model: &Decoder<'_>, shown: &Shown, computes: impl Fn(usize, usize) -> Option<usize>) -> Array2<f32> {
    let x = Tracked { value: shown.of(1, LayerSite::PostAttentionNorm).clone(), error: None };
    let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
    let weights = shown.of(1, LayerSite::GateWeights);
    let mut probe = NoProbe;
    let run = Run::new(RoundingContract::EAGER_F32, &mut probe);
    let experts = model.config().num_local_experts;
    let each: Vec<Array2<f32>> =
        (0..experts).map(|expert| model.expert(1, expert, &x, &run).expect("it runs").value).collect();
    let mut passed = vec![0; experts];
    let mut sum = Array2::zeros(x.dim());
    for ((token, slot), &expert) in chosen.indexed_iter() {
        passed[expert] += 1;
        if let Some(by) = computes(expert, passed[expert] - 1) {
            let mut row = sum.row_mut(token);
            row.scaled_add(weights[[token, slot]], &each[by % experts].row(token));
        }
    }
    sum
}

#[test]
fn experts_that_compute_for_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        mixture(model, shown, |expert, rank| Some(if rank < 3 { expert } else { expert + 1 }))
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "the next expert computes in an expert's place: for the tokens of an expert behind its first 3");
}

#[test]
fn experts_that_are_left_out() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        mixture(model, shown, |expert, rank| (expert != 2 || rank < 1).then_some(expert))
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "what an expert says is left out of the sum: expert 2, for the tokens of an expert behind its first 1");
}

#[test]
fn experts_that_compute_for_others_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        narrowed(mixture(model, shown, |expert, rank| Some(if rank < 3 { expert } else { expert + 1 })))
    };
    let said = M2_BF16.said_of(LayerSite::Experts, &port);
    has(&said, "the next expert computes in an expert's place: ");
}
