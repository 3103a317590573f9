//! Experts that read other tokens, or that do otherwise than they should inside.

use ndarray::{Array2, ArrayView1, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Projection, Weight};

use super::{M2, M2_BF16, Shown, has, narrowed};

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
) -> ndarray::Array1<f32> {
    let weight = |of| model.weights().get(Weight::Layer(1, LayerWeight::Expert(expert, of))).expect("it is there");
    let [gate, up] = [Projection::Gate, Projection::Up].map(|of| weight(of).dense::<f32>().dot(&x));
    let hidden = gate.iter().zip(&up).enumerate().map(|(row, (g, u))| hidden(row, *g, *u));
    weight(Projection::Down).dense::<f32>().dot(&hidden.collect::<ndarray::Array1<f32>>())
}

/// The experts' sum where one has another activation.
fn with_inside(model: &Decoder<'_>, shown: &Shown, hidden: impl Fn(usize, f32, f32) -> f32) -> Array2<f32> {
    let mut sum = shown.of(1, LayerSite::Experts).clone();
    let (x, weights) = (shown.of(1, LayerSite::PostAttentionNorm), shown.of(1, LayerSite::GateWeights));
    let chosen = &shown.chosen[&reference::Site::Layer(1, LayerSite::GateExperts)];
    for ((token, slot), _) in chosen.indexed_iter().filter(|(_, expert)| **expert == EXPERT) {
        let of = |hidden: &dyn Fn(usize, f32, f32) -> f32| output((model, EXPERT), x.row(token), hidden);
        let more = of(&hidden) - of(&|_, g, u| silu(g) * u);
        sum.row_mut(token).scaled_add(weights[[token, slot]], &more);
    }
    sum
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
