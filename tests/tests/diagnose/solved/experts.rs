//! Experts that other experts compute for, or that a sum leaves out.

use ndarray::{Array2, Axis};
use reference::models::decoder::Decoder;
use reference::ops::moe::{Moe, moe};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::{M2, M2_BF16, Shown, Subject, has, narrowed, number};

/// A layer with experts.
const M3_LAYER: usize = 2;

/// What all experts make of all tokens.
fn outputs(model: &Decoder<'_>, shown: &Shown) -> Vec<Array2<f32>> {
    let x = Tracked { value: shown.of(1, LayerSite::PostAttentionNorm).clone(), error: None };
    let mut probe = NoProbe;
    let run = Run::new(RoundingContract::EAGER_F32, &mut probe);
    let experts = model.config().num_local_experts;
    (0..experts).map(|expert| model.expert(1, expert, &x, &run).expect("it runs").value).collect()
}

/// The sum over a token's experts of their weights' products with what `computes` says for each: of an expert and how many tokens
/// were sent there before.
fn mixture(model: &Decoder<'_>, shown: &Shown, computes: impl Fn(usize, usize) -> Option<usize>) -> Array2<f32> {
    let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
    let weights = shown.of(1, LayerSite::GateWeights);
    let each = outputs(model, shown);
    let mut passed = vec![0; each.len()];
    let mut sum = Array2::zeros(each[0].dim());
    for ((token, slot), &expert) in chosen.indexed_iter() {
        passed[expert] += 1;
        if let Some(by) = computes(expert, passed[expert] - 1) {
            let mut row = sum.row_mut(token);
            row.scaled_add(weights[[token, slot]], &each[by % each.len()].row(token));
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

/// What ranks say to later tokens is lost: as the operator rounds, and nothing else is said.
#[test]
fn experts_that_are_left_out_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        let (mut weights, half) = (shown.of(1, LayerSite::GateWeights).clone(), model.config().num_local_experts / 2);
        for ((token, slot), &expert) in chosen.indexed_iter() {
            if token >= 21 && expert >= half {
                weights[[token, slot]] = 0.0;
            }
        }
        let outputs = shown.of(1, LayerSite::ExpertOutput);
        moe(&Moe::under(&RoundingContract::EAGER_BF16), outputs.view(), weights.view(), chosen.view()).expect("it fits")
    };
    let said = M2_BF16.said_of(LayerSite::Experts, &port);
    has(&said, "what an expert says is left out of the sum: from token 21 on, from expert 3 on ");
    // Of a right run in bf16, its twin has at least 99 % at an operator whose inputs are shown.
    assert!(said.len() == 1 && number(&said, "(reproduces ") > 99.0, "{said:#?}");
}

#[test]
fn experts_that_compute_for_others_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        narrowed(mixture(model, shown, |expert, rank| Some(if rank < 3 { expert } else { expert + 1 })))
    };
    let said = M2_BF16.said_of(LayerSite::Experts, &port);
    has(&said, "the next expert computes in an expert's place: ");
}

/// One expert alone is another: for that there is a shift, too.
#[test]
fn one_expert_that_computes_for_another() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        mixture(model, shown, |expert, rank| Some(if expert == 2 && rank >= 1 { 5 } else { expert }))
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "another expert computes in an expert's place, 5 for 2 at token ");
}

#[test]
fn an_expert_that_was_not_chosen() {
    const OTHER: usize = 5;
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        let other = &outputs(model, shown)[OTHER];
        let chosen = &shown.chosen[&Site::Layer(1, LayerSite::GateExperts)];
        for (token, mut row) in sum.rows_mut().into_iter().enumerate() {
            if chosen.row(token).iter().all(|expert| *expert != OTHER) {
                row.scaled_add(0.25, &other.row(token));
            }
        }
        sum
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "experts are in the sum that were not chosen: expert 5 at token ");
    let weight = number(&said, "(weight ");
    assert!((weight - 0.25).abs() <= 0.001, "{said:#?}");
}

#[test]
fn an_expert_with_half_its_weight_more() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        let (each, weights) = (outputs(model, shown), shown.of(1, LayerSite::GateWeights));
        for ((token, slot), &expert) in shown.chosen[&Site::Layer(1, LayerSite::GateExperts)].indexed_iter() {
            if token >= 8 && slot == 1 {
                sum.row_mut(token).scaled_add(0.5 * weights[[token, slot]], &each[expert].row(token));
            }
        }
        sum
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "an expert's weight is 1.500 times the right one: the choice 2 of each token, from token 8 on");
}

#[test]
fn what_no_expert_says_beside_one() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        for ((token, _), &expert) in shown.chosen[&Site::Layer(1, LayerSite::GateExperts)].indexed_iter() {
            if expert == 2 {
                sum.row_mut(token)
                    .indexed_iter_mut()
                    .for_each(|(j, y)| *y += (0.7 * (j * j + 3 * j * token) as f32).sin());
            }
        }
        sum
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "what is off is no expert's output; it is there where expert 2 was chosen: of every token");
}

/// A gate of another family, by the mean of what the network reads.
#[test]
fn a_shared_expert_that_goes_through_a_gate() {
    let m3 = Subject { case: "m3-gqa4-f32", contract: RoundingContract::EAGER_F32, shows: &[] };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let [x, routed, shared] =
            [LayerSite::PostAttentionNorm, LayerSite::Experts, LayerSite::Shared].map(|site| shown.of(M3_LAYER, site));
        let gate = x.mean_axis(Axis(1)).expect("there are channels").mapv(|mean| 1.0 / (1.0 + (-mean).exp()));
        #[expect(clippy::cast_possible_truncation, reason = "2")]
        let scale = model.config().routed_scaling_factor as f32;
        routed * scale + shared * &gate.insert_axis(Axis(1))
    };
    let said = m3.said(&[(Site::Layer(M3_LAYER, LayerSite::Mlp), &port)]);
    has(&said, "the shared expert's output is multiplied by 0.");
}

/// Rows of an expert that fill no whole tile are not computed, where it has more than one.
#[test]
fn the_rest_of_an_experts_tiles_is_left_out() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut counts = vec![0; model.config().num_local_experts];
        shown.chosen[&Site::Layer(1, LayerSite::GateExperts)].iter().for_each(|expert| counts[*expert] += 1);
        mixture(model, shown, |expert, rank| {
            let count = counts[expert];
            (count <= 4 || rank < count / 4 * 4).then_some(expert)
        })
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    let sentence =
        "what an expert says is left out of the sum: for the tokens of an expert that fill no whole tile of 4, where";
    has(&said, sentence);
}

/// Other experts with other weights, as many as there should be, are no experts that are left out.
#[test]
fn other_experts_with_other_weights() {
    const APART: [usize; 3] = [1, 2, 4];
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let each = outputs(model, shown);
        Array2::from_shape_fn(each[0].dim(), |(token, j)| {
            let of = |(by, weight): (usize, f32)| weight * each[(token + by) % each.len()][[token, j]];
            APART.into_iter().zip([0.5, 0.3, 0.2]).map(of).sum()
        })
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    assert!(
        said[0].contains(" tokens have other experts than they should, and weights that their scores do not give"),
        "{said:#?}"
    );
    assert!(said.iter().all(|own| !own.contains("left out") && !own.contains(" times the right one")), "{said:#?}");
}

/// A sum that is small beside the right one is as near to nothing as to what is left of it, and says nothing of its experts.
#[test]
fn a_small_sum_is_not_one_without_experts() {
    let port = |_: &Decoder<'_>, shown: &Shown| shown.of(1, LayerSite::Experts).mapv(|y| 0.05 * (7.0 * y).sin());
    let said = M2_BF16.said_of(LayerSite::Experts, &|model, shown| narrowed(port(model, shown)));
    assert!(said.iter().all(|own| !own.contains("left out") && !own.contains("weight")), "{said:#?}");
}
