//! What the model refuses, and that nothing has happened then.

use super::*;
use ndarray::Array2;

/// The error of a model under a reading.
fn refused(semantics: &str) -> String {
    let memory = Memory::random(&tiny(), 0);
    let made = Decoder::new(&tiny(), semantics.parse().expect("a reading"), &memory);
    made.err().expect("against the contract").to_string()
}

#[test]
fn c1_rotated_channels_that_are_none() {
    let want = |r| format!("decoder C1: rotary_dim = {r}, expected an even number up to 8");
    assert_eq!(refused("documents,rotary_dim=3"), want(3));
    assert_eq!(refused("documents,rotary_dim=10"), want(10));
}

#[test]
fn c2_more_experts_than_there_are_or_none() {
    assert_eq!(refused("documents,top_k=0"), "decoder C2: top_k = 0, expected 1 to 8");
    assert_eq!(refused("documents,top_k=9"), "decoder C2: top_k = 9, expected 1 to 8");
}

/// Tokens after three that are in the cache; the cache is as before if they are refused.
fn after_three(tokens: &[u32], config: &Config) -> Result<Tracked<f64>, Error> {
    let memory = Memory::random(config, 0);
    let (model, mut cache, mut probe) = (model(config, &memory), KvCache::new(2), NoProbe);
    let mut run = Run::new(RoundingContract::IDEAL, &mut probe);
    model.forward(&TEXT[..3], &mut cache, &mut run).expect("three good tokens");
    let before = cache.layer(1).cloned();
    let logits = model.forward(tokens, &mut cache, &mut run);
    assert_eq!(cache.layer(1).cloned() == before, logits.is_err());
    logits
}

#[test]
fn c3_positions_past_the_last() {
    let config = Config { max_position_embeddings: 5, ..tiny() };
    assert!(after_three(&TEXT[3..5], &config).is_ok());
    let err = after_three(&TEXT[3..6], &config).expect_err("against the contract");
    assert_eq!(err.to_string(), "decoder C3: positions = 6, expected at most max_position_embeddings = 5");
}

#[test]
fn tokens_that_are_none() {
    let error = |tokens: &[u32]| after_three(tokens, &tiny()).expect_err("against the contract").to_string();
    assert_eq!(error(&[]), "embedding C1: number of tokens = 0, expected at least 1");
    assert_eq!(error(&[39, 40]), "embedding C2: token 1 = 40, expected below v = 40");
    assert_eq!(error(&[u32::MAX]), format!("embedding C2: token 0 = {}, expected below v = 40", u32::MAX));
}

#[test]
fn weights_that_are_missing_or_of_another_shape() {
    let error = |memory: &Memory| {
        let refused = pass::<f64>(&model(&tiny(), memory), RoundingContract::IDEAL, &mut NoProbe);
        refused.expect_err("against the contract").to_string()
    };
    let mut memory = Memory::random(&tiny(), 0);
    let norm = Weight::Layer(1, LayerWeight::KNorm);
    memory.set(norm, &Array2::ones((1, 9)));
    assert_eq!(error(&memory), "qk_norm C2: len(w) = 9, expected columns of x = 16, or d = 8");
    memory.remove(norm);
    assert_eq!(error(&memory), "model.layers.1.self_attn.k_norm.weight: not in memory");
    memory.set(Weight::Layer(0, LayerWeight::OProj), &Array2::ones((48, 47)));
    assert_eq!(error(&memory), "linear C2: columns of w = 47, expected k = 48");
}

/// A pass that stops in a later layer leaves no earlier layer ahead of it.
#[test]
fn a_weight_that_is_missing_leaves_the_cache_as_it_was() {
    let mut memory = Memory::random(&tiny(), 0);
    memory.remove(Weight::Layer(1, LayerWeight::QProj));
    let (mut cache, mut probe) = (KvCache::<f64>::new(2), NoProbe);
    let mut run = Run::new(RoundingContract::IDEAL, &mut probe);
    let refused = model(&tiny(), &memory).forward(&TEXT, &mut cache, &mut run);
    assert!(refused.is_err() && cache.is_empty());
}
