//! A model of two channels, one layer and two tokens, whose every value has a closed form.

use super::*;
use ndarray::{Array2, array};
use reference::{LayerSite, Site};
use tests::judge::within;

/// One head of two channels that both rotate; two of three experts. ε is too small to be seen.
fn two_channels() -> Config {
    Config {
        vocab_size: 3,
        hidden_size: 2,
        intermediate_size: 1,
        num_hidden_layers: 1,
        num_attention_heads: 1,
        num_key_value_heads: 1,
        head_dim: 2,
        rotary_dim: 2,
        rms_norm_eps: 1e-300,
        num_local_experts: 3,
        num_experts_per_tok: 2,
        ..tiny()
    }
}

fn weights() -> Memory {
    let mut memory = Memory::blank(&two_channels());
    let mut layer = |weight, values: Array2<f64>| memory.set(Weight::Layer(0, weight), &values);
    layer(LayerWeight::QProj, array![[1.0, 0.0], [0.0, 1.0]]);
    layer(LayerWeight::KProj, array![[1.0, 0.0], [0.0, 1.0]]);
    layer(LayerWeight::VProj, array![[0.0, 1.0], [0.0, 0.0]]);
    layer(LayerWeight::OProj, array![[1.0, 0.0], [-1.0, 0.0]]);
    layer(LayerWeight::Gate, array![[0.5, 0.5], [0.5, -0.5], [4.0, 0.0]]);
    layer(LayerWeight::CorrectionBias, array![[0.0, 0.0, -1.0]]);
    let mut expert = |expert, gate, up, down| {
        layer(LayerWeight::Expert(expert, Projection::Gate), gate);
        layer(LayerWeight::Expert(expert, Projection::Up), up);
        layer(LayerWeight::Expert(expert, Projection::Down), down);
    };
    expert(0, array![[-1.0, 0.0]], array![[1.0, 0.0]], array![[2.0], [0.0]]);
    expert(1, array![[2.0, 0.0]], array![[0.0, -1.0]], array![[1.0], [1.0]]);
    memory.set(Weight::Embedding, &array![[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0]]);
    memory.set(Weight::FinalNorm, &array![[1.0, 2.0]]);
    memory.set(Weight::LmHead, &array![[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]);
    memory
}

/// Last rows, in the order in which the second token meets them. Its norms are of two numbers of one size: plus or
/// minus 1. It turns by 1 rad, so that its score with the first is √2·sin 1, and with itself √2.
fn closed_forms() -> Vec<(Site, Vec<f64>)> {
    let at = |site| Site::Layer(0, site);
    let (sin, cos) = 1.0_f64.sin_cos();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let root = 2.0_f64.sqrt();
    let p = 1.0 / (1.0 + (root - root * sin).exp());
    let seen = 2.0 * p - 1.0;
    let stream = 2.0 + seen;
    let w = sigmoid(1.0) / (sigmoid(1.0) + 0.5);
    let (one, zero) = (2.0 * sigmoid(2.0), -2.0 * sigmoid(-1.0));
    let sum = [w * one + (1.0 - w) * zero, w * one];
    let out = [stream + sum[0], sum[1] - stream];
    let r = 1.0 / f64::midpoint(out[0] * out[0], out[1] * out[1]).sqrt();
    let normed = [out[0] * r, 2.0 * out[1] * r];
    vec![
        (Site::Embedding, vec![2.0, -2.0]),
        (Site::RopeCos, vec![cos, cos]),
        (Site::RopeSin, vec![sin, sin]),
        (at(LayerSite::InputNorm), vec![1.0, -1.0]),
        (at(LayerSite::QProj), vec![1.0, -1.0]),
        (at(LayerSite::VProj), vec![-1.0, 0.0]),
        (at(LayerSite::KNorm), vec![1.0, -1.0]),
        (at(LayerSite::QRope), vec![cos + sin, sin - cos]),
        (at(LayerSite::KRope), vec![cos + sin, sin - cos]),
        (at(LayerSite::Scores), vec![root * sin, root]),
        (at(LayerSite::Probabilities), vec![p, 1.0 - p]),
        (at(LayerSite::Context), vec![seen, 0.0]),
        (at(LayerSite::OProj), vec![seen, -seen]),
        (at(LayerSite::Residual), vec![stream, -stream]),
        (at(LayerSite::PostAttentionNorm), vec![1.0, -1.0]),
        (at(LayerSite::GateLogits), vec![0.0, 1.0, 4.0]),
        (at(LayerSite::GateScores), vec![0.5, sigmoid(1.0), sigmoid(4.0)]),
        (at(LayerSite::GateChoice), vec![0.5, sigmoid(1.0), sigmoid(4.0) - 1.0]),
        (at(LayerSite::GateWeights), vec![w, 1.0 - w]),
        // The row of the second choice, expert 0: silu(−1)·1, and that twice.
        (at(LayerSite::ExpertHidden), vec![zero / 2.0]),
        (at(LayerSite::ExpertOutput), vec![zero, 0.0]),
        (at(LayerSite::Expert(1)), vec![w * one, w * one]),
        (at(LayerSite::Mlp), sum.to_vec()),
        (at(LayerSite::Output), out.to_vec()),
        (Site::FinalNorm, normed.to_vec()),
        (Site::Logits, vec![normed[0], normed[1], normed[0] - normed[1]]),
    ]
}

/// The closed forms round, too: twice f64's own bound.
#[test]
fn every_value_has_its_closed_form() {
    let (memory, mut seen) = (weights(), Recorder::<f64>::new(true));
    let mut run = Run::bounding(RoundingContract::IDEAL, &mut seen);
    model(&two_channels(), &memory).forward(&[0, 1], &mut KvCache::new(1), &mut run).expect("a good text");
    assert_eq!(seen.experts(0).row(1).to_vec(), [1, 0]);
    for (site, want) in closed_forms() {
        let shown = seen.value(site);
        let last = shown.select(&[shown.dim().0 - 1]);
        let mut bound = last.error_or_exact();
        bound.certain *= 2.0;
        let want = Array2::from_shape_vec((1, want.len()), want).expect("one row");
        within(&want, &last.value, &bound).unwrap_or_else(|error| panic!("{site}: {error}"));
    }
}

/// The first token sees itself alone: its context is its value, and it stands at angle 0.
#[test]
fn the_first_token_by_hand() {
    let (memory, mut seen) = (weights(), Recorder::<f64>::new(false));
    let mut run = Run::new(RoundingContract::IDEAL, &mut seen);
    model(&two_channels(), &memory).forward(&[0, 1], &mut KvCache::new(1), &mut run).expect("a good text");
    let first = |site| seen.value(Site::Layer(0, site)).value.row(0).to_vec();
    assert_eq!(first(LayerSite::QRope), [1.0, 1.0]);
    assert_eq!(first(LayerSite::Context), [1.0, 0.0]);
    assert_eq!(first(LayerSite::Residual), [3.0, 1.0]);
}

/// Without a layer's weights a model is the head of its normalised embedding.
#[test]
fn a_blank_model_is_its_head() {
    let mut memory = Memory::blank(&two_channels());
    memory.set(Weight::Embedding, &array![[4.0, 4.0], [8.0, -8.0], [0.0, 0.0]]);
    memory.set(Weight::LmHead, &array![[1.0, 2.0], [4.0, 8.0], [16.0, 0.0]]);
    let (mut cache, mut probe) = (KvCache::<f64>::new(1), NoProbe);
    let mut run = Run::new(RoundingContract::IDEAL, &mut probe);
    let logits = model(&two_channels(), &memory).forward(&[0, 1, 2], &mut cache, &mut run).expect("a good text");
    assert_eq!(logits.value, array![[3.0, 12.0, 16.0], [-1.0, -4.0, 16.0], [0.0, 0.0, 0.0]]);
}
