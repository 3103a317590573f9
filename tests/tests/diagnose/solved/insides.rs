//! Experts that read other tokens, or that do otherwise than they should inside.

use half::bf16;
use ndarray::{Array1, Array2, ArrayView1, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Projection, Weight};

use super::{M2, M2_BF16, Shown, Subject, has, narrowed, number};

/// The expert that differs.
const EXPERT: usize = 2;

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// What an expert of layer 1 makes of a row; `hidden` of its gate and up projection.
fn output(
    (model, expert): (&Decoder<'_>, usize),
    x: ArrayView1<'_, f32>,
    hidden: impl Fn(usize, f32, f32) -> f32,
) -> Array1<f32> {
    let weight = |of| model.weights().get(Weight::Layer(1, LayerWeight::Expert(expert, of))).expect("it is there");
    let [gate, up] = [Projection::Gate, Projection::Up].map(|of| weight(of).dense::<f32>().dot(&x));
    let hidden = gate.iter().zip(&up).enumerate().map(|(row, (g, u))| hidden(row, *g, *u));
    weight(Projection::Down).dense::<f32>().dot(&hidden.collect::<Array1<f32>>())
}

/// The experts' sum, of what is made of each output by its token and slot.
fn summed(model: &Decoder<'_>, shown: &Shown, part: impl Fn([usize; 2], Array1<f32>) -> Array1<f32>) -> Array2<f32> {
    let x = shown.of(1, LayerSite::PostAttentionNorm);
    let mut sum = Array2::zeros(x.dim());
    for ((token, slot), &expert) in shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)].indexed_iter() {
        let own = output((model, expert), x.row(token), |_, g, u| silu(g) * u);
        sum.row_mut(token).scaled_add(1.0, &part([token, slot], own));
    }
    sum
}

/// The experts' sum where one has another activation.
fn with_inside(model: &Decoder<'_>, shown: &Shown, hidden: impl Fn(usize, f32, f32) -> f32) -> Array2<f32> {
    with_activation((model, shown), |expert| expert == EXPERT, hidden)
}

/// The experts' sum where each token has the routing of one, and experts read the input of another.
fn with_tokens(model: &Decoder<'_>, shown: &Shown, [routed, read]: [&dyn Fn(usize) -> usize; 2]) -> Array2<f32> {
    let (x, weights) = (shown.of(1, LayerSite::PostAttentionNorm), shown.of(1, LayerSite::GateWeights));
    let chosen = &shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)];
    let mut sum = Array2::zeros(x.dim());
    for token in 0..x.nrows() {
        let (by, from) = (routed(token), read(token));
        for (expert, weight) in chosen.row(by).iter().zip(weights.slice(s![by, ..])) {
            let own = output((model, *expert), x.row(from), |_, g, u| silu(g) * u);
            sum.row_mut(token).scaled_add(*weight, &own);
        }
    }
    sum
}

#[test]
fn one_expert_without_its_activation() {
    for (subject, of) in [(&M2, (|y| y) as fn(Array2<f32>) -> Array2<f32>), (&M2_BF16, narrowed)] {
        let port = |model: &Decoder<'_>, shown: &Shown| of(with_inside(model, shown, |_, g, u| g * u));
        let said = subject.said_of(LayerSite::Experts, &port);
        has(&said, "expert 2 takes the gate without its activation, times the up projection, for its activation");
    }
}

/// What is said of all experts with another activation.
fn said_of_all(hidden: impl Fn(f32, f32) -> f32) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| with_activation((model, shown), |_| true, |_, g, u| hidden(g, u));
    M2.said_of(LayerSite::Experts, &port)
}

#[test]
fn the_activation_of_another_model() {
    let said = said_of_all(|g, u| (u.clamp(-7.0, 7.0) + 1.0) * g.min(7.0) / (1.0 + (-1.702 * g.min(7.0)).exp()));
    has(&said, "every expert takes M3's SwiGLU-OAI, (u + 1)·g·σ(1.702·g) of clamped projections, for its activation");
}

#[test]
fn one_is_added_to_the_gates_function() {
    let said = said_of_all(|g, u| (silu(g) + 1.0) * u);
    has(&said, "every expert takes SiLU(g)·u + u of its gate g and up projection u, for its activation");
}

#[test]
fn the_product_is_clamped() {
    let said = said_of_all(|g, u| (silu(g) * u).clamp(-0.5, 0.5));
    has(&said, "every expert clamps its activation to both sides, to 0.5000, and not what goes in");
}

/// As of a kernel that gives each expert's part in a narrow type, and another that adds them up.
#[test]
fn outputs_are_rounded_before_they_are_added() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let weights = shown.of(1, LayerSite::GateWeights);
        let rounded = |at, own: Array1<f32>| (own * weights[at]).mapv(|y| bf16::from_f32(y).to_f32());
        summed(model, shown, rounded)
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "every expert rounds its output to bf16, once it is multiplied by the expert's weight");
}

/// A block of the gate has the scale of another.
#[test]
fn some_rows_of_one_experts_gate() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        with_inside(model, shown, |row, g, u| silu(if row < 8 { 1.06 * g } else { g }) * u)
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "rows 0 to 7 of the gate of expert 2 are 1.0600 times what they should be");
}

/// An index of rows that counts to 32.
#[test]
fn experts_read_other_tokens() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        with_tokens(model, shown, [&|token| token, &|token| if token < 32 { token } else { token - 32 }])
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "in 8 of 40 rows, 32, 33, 34, 35, …: experts read the input of the row 32 before it");
}

/// Choices that are a row late.
#[test]
fn tokens_have_the_routing_of_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        with_tokens(model, shown, [&|token| if token < 30 { token } else { token - 1 }, &|token| token])
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "in 10 of 40 rows, 30, 31, 32, 33, …: tokens have the experts and weights of the row 1 before it");
}

/// The experts' sum where all of some experts have another activation: of a hidden channel, gate and up projection.
fn with_activation(
    (model, shown): (&Decoder<'_>, &Shown),
    is_off: impl Fn(usize) -> bool,
    hidden: impl Fn(usize, f32, f32) -> f32,
) -> Array2<f32> {
    let mut sum = shown.of(1, LayerSite::Experts).clone();
    let (x, weights) = (shown.of(1, LayerSite::PostAttentionNorm), shown.of(1, LayerSite::GateWeights));
    let chosen = &shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)];
    for ((token, slot), &expert) in chosen.indexed_iter().filter(|(_, expert)| is_off(**expert)) {
        let of = |hidden: &dyn Fn(usize, f32, f32) -> f32| output((model, expert), x.row(token), hidden);
        sum.row_mut(token).scaled_add(weights[[token, slot]], &(of(&hidden) - of(&|_, g, u| silu(g) * u)));
    }
    sum
}

/// The experts' sum where hidden values have `more`, of gate and up projection and what is read.
fn with_more(
    (model, shown): (&Decoder<'_>, &Shown),
    more: impl Fn([&Array2<f32>; 2], ArrayView1<'_, f32>) -> Array1<f32>,
) -> Array2<f32> {
    let mut sum = shown.of(1, LayerSite::Experts).clone();
    let (x, weights) = (shown.of(1, LayerSite::PostAttentionNorm), shown.of(1, LayerSite::GateWeights));
    let chosen = &shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)];
    for ((token, slot), &expert) in chosen.indexed_iter() {
        let weight =
            |of| model.weights().get(Weight::Layer(1, LayerWeight::Expert(expert, of))).expect("it is there").dense();
        let [gate, up, down]: [Array2<f32>; 3] = [Projection::Gate, Projection::Up, Projection::Down].map(weight);
        sum.row_mut(token).scaled_add(weights[[token, slot]], &down.dot(&more([&gate, &up], x.row(token))));
    }
    sum
}

/// The tokens of an expert, with its weight in each.
fn tokens_of(shown: &Shown, expert: usize) -> Vec<(usize, f32)> {
    let (chosen, weights) =
        (&shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)], shown.of(1, LayerSite::GateWeights));
    chosen.indexed_iter().filter(|(_, own)| **own == expert).map(|(at, _)| (at.0, weights[at])).collect()
}

fn hard_swish(x: f32) -> f32 {
    x * ((x + 3.0) / 6.0).clamp(0.0, 1.0)
}

#[test]
fn experts_with_another_gate() {
    type Hidden = fn(usize, f32, f32) -> f32;
    let cases: [(Hidden, &str); 5] = [
        (|_, g, u| hard_swish(g) * u, "takes the gate's hard swish times the up projection, for its activation"),
        (|_, g, u| g.max(0.0).powi(2) * u, "takes the gate's squared ReLU times the up projection, for its activation"),
        (|_, g, u| g / (1.0 + (-1.3 * g).exp()) * u, "takes g·σ(a·g)·u with a = 1.3000, for its activation"),
        (
            |channel, g, u| if channel < 12 { silu(u) * g } else { silu(g) * u },
            "takes the gate and the up projection in each other's place, for its activation, in hidden channels 0 to 11 of 32",
        ),
        (|channel, g, u| if channel < 28 { silu(g) * u } else { 0.0 }, "leaves out hidden channels 28 to 31 of 32"),
    ];
    for (hidden, what) in cases {
        let port = |model: &Decoder<'_>, shown: &Shown| with_activation((model, shown), |_| true, hidden);
        has(&M2.said_of(LayerSite::Experts, &port), &format!("every expert {what}"));
    }
}

#[test]
fn some_experts_with_another_gate() {
    for (subject, of) in [(&M2, (|y| y) as fn(Array2<f32>) -> Array2<f32>), (&M2_BF16, narrowed)] {
        let port = |model: &Decoder<'_>, shown: &Shown| {
            of(with_activation((model, shown), |expert| expert == 2 || expert == 5, |_, g, u| g.max(0.0) * u))
        };
        let said = subject.said_of(LayerSite::Experts, &port);
        assert!(
            said[0].contains("experts 2 and 5 take the gate's ReLU times the up projection, for its activation"),
            "{said:#?}"
        );
    }
}

/// A split sum of which the last part is not added, for the gate alone.
#[test]
fn a_gate_without_its_last_input_channels() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        with_more((model, shown), |[gate, up], x| {
            let summed = gate.slice(s![.., ..88]).dot(&x.slice(s![..88]));
            (summed.mapv(silu) - gate.dot(&x).mapv(silu)) * up.dot(&x)
        })
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "every expert leaves input channels 88 to 95 of 96 out of the gate");
}

/// Both dense layers of M3, which is said once.
#[test]
fn dense_networks_with_another_gate() {
    let m3 = Subject { case: "m3-gqa4-f32", contract: reference::RoundingContract::EAGER_F32, shows: &[] };
    let of = |layer: usize| {
        move |model: &Decoder<'_>, shown: &Shown| {
            let both = shown.of(layer, LayerSite::DenseGateUp);
            let half = both.ncols() / 2;
            let oai = model.config().swiglu_oai.expect("M3 has them");
            #[expect(clippy::cast_possible_truncation, reason = "7 and 1")]
            let (limit, beta) = (oai.limit as f32, oai.beta as f32);
            let gate = both.slice(s![.., ..half]).mapv(|g| hard_swish(g.min(limit)));
            let up = both.slice(s![.., half..]).mapv(|u| u.clamp(-limit, limit) + beta);
            let down = Weight::Layer(layer, LayerWeight::Dense(Projection::Down));
            (gate * up).dot(&model.weights().get(down).expect("it is there").dense::<f32>().t())
        }
    };
    let ports = [of(0), of(1)];
    let site = |layer| reference::Site::Layer(layer, LayerSite::DenseDown);
    let said = m3.said(&[(site(0), &ports[0]), (site(1), &ports[1])]);
    has(
        &said,
        "the dense network takes the clamped gate's hard swish times the clamped up projection plus β, for its activation",
    );
    has(&said, "the same is so of model.layers.1.mlp");
}

/// Weights that are a row late, of experts that are not.
#[test]
fn tokens_have_the_weights_of_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let weights = shown.of(1, LayerSite::GateWeights);
        summed(model, shown, |[token, slot], own| own * weights[[token.saturating_sub(1), slot]])
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    assert!(
        said[0].contains(": tokens have the routing weights, with their own experts, of the row 1 before it"),
        "{said:#?}"
    );
}

/// Two weights of a temperature are some other token's, within what bf16 leaves, and that says nothing.
#[test]
fn weights_that_are_nearer_one_another_are_no_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let roots = shown.of(1, LayerSite::GateWeights).mapv(f32::sqrt);
        narrowed(summed(model, shown, |at, own| own * (roots[at] / roots.row(at[0]).sum())))
    };
    let said = M2_BF16.said_of(LayerSite::Experts, &port);
    let power = number(&said, "the weights are the scores to the power ");
    assert!((power - 0.5).abs() < 0.01, "{said:#?}");
    assert!(!said.iter().any(|said| said.contains("with their own")), "{said:#?}");
}

/// Outputs that are put back in the wrong order within each expert.
#[test]
fn tokens_have_the_outputs_of_an_experts_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let x = shown.of(1, LayerSite::PostAttentionNorm);
        let mut sum = Array2::zeros(x.dim());
        for expert in 0..model.config().num_local_experts {
            let tokens = tokens_of(shown, expert);
            for (rank, (token, weight)) in tokens.iter().enumerate() {
                let (other, _) = tokens[(rank + tokens.len() - 1) % tokens.len()];
                let own = output((model, expert), x.row(other), |_, g, u| silu(g) * u);
                sum.row_mut(*token).scaled_add(*weight, &own);
            }
        }
        sum
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "of each expert, a token has the output of the one before it among the expert's tokens");
}

/// Gate and up projections of two ranks, one rank's behind the other's, that are read as halves.
#[test]
fn gate_and_up_of_ranks_read_as_halves() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        with_more((model, shown), |[gate, up], x| {
            let (g, u) = (gate.dot(&x), up.dot(&x));
            let of_ranks = |c: usize| match c / 16 {
                0 => g[c],
                1 => u[c - 16],
                2 => g[c - 16],
                _ => u[c - 32],
            };
            (0..32).map(|c| silu(of_ranks(c)) * of_ranks(c + 32) - silu(g[c]) * u[c]).collect()
        })
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "every expert reads as halves gate and up projections that are stacked in turns of 16 of 32 rows");
}

/// The last rows of an expert are written in reverse.
#[test]
fn one_experts_outputs_in_reverse() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let x = shown.of(1, LayerSite::PostAttentionNorm);
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        let tokens = tokens_of(shown, EXPERT);
        let last = &tokens[tokens.len() - 4..];
        for ((token, weight), (other, _)) in last.iter().zip(last.iter().rev()) {
            let of = |row: usize| output((model, EXPERT), x.row(row), |_, g, u| silu(g) * u);
            sum.row_mut(*token).scaled_add(*weight, &(of(*other) - of(*token)));
        }
        sum
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(&said, "in 4 of 40 rows, ");
    assert!(said[0].contains("what expert 2 gives is that of row "), "{said:#?}");
}

#[test]
fn rows_of_an_expert_have_the_scales_of_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (weights, chosen) =
            (shown.of(1, LayerSite::GateWeights), &shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)]);
        summed(model, shown, |at, own| {
            let times = |row: usize| if chosen[at] == EXPERT { 0.8 + 0.1 * (7 * row % 5) as f32 } else { 1.0 };
            own.indexed_iter().map(|(row, y)| times(row) * weights[at] * y).collect()
        })
    };
    let said = M2.said_of(LayerSite::Experts, &port);
    has(
        &said,
        "rows of the down projection of expert 2 count by factors of their own, 0.8000 to 1.2000: as where a row has",
    );
}
