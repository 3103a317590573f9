//! `reference/src/weights.rs`.

use ndarray::Array2;
use reference::Storage;
use reference::semantics::MtpTopology::{Doc000, HfGeneric, VllmM3};
use reference::weights::{LayerWeight, Projection, Weight, Weights, inventory, mtp_inventory};
use tests::memory::{Memory, tiny, tiny_m3};
use tests::strategy::{Fill, Matrix};

/// Every weight once, under the hub's name and in the shape that the operators ask for.
#[test]
fn the_inventory_by_hand() {
    let config = tiny();
    let all = inventory(&config);
    assert_eq!(all.len(), 3 + 2 * (10 + 8 * 3));
    let of = |weight| all.iter().find(|(w, _)| *w == weight).map(|(w, dim)| (w.to_string(), *dim));
    let layer = |weight| of(Weight::Layer(1, weight)).expect("in the inventory");
    assert_eq!(of(Weight::Embedding), Some(("model.embed_tokens.weight".into(), (40, 48))));
    assert_eq!(of(Weight::FinalNorm), Some(("model.norm.weight".into(), (1, 48))));
    assert_eq!(of(Weight::LmHead), Some(("lm_head.weight".into(), (40, 48))));
    for (weight, name, dim) in [
        (LayerWeight::InputNorm, "input_layernorm.weight", (1, 48)),
        (LayerWeight::QProj, "self_attn.q_proj.weight", (48, 48)),
        (LayerWeight::KProj, "self_attn.k_proj.weight", (16, 48)),
        (LayerWeight::VProj, "self_attn.v_proj.weight", (16, 48)),
        (LayerWeight::QNorm, "self_attn.q_norm.weight", (1, 48)),
        (LayerWeight::KNorm, "self_attn.k_norm.weight", (1, 16)),
        (LayerWeight::OProj, "self_attn.o_proj.weight", (48, 48)),
        (LayerWeight::PostAttentionNorm, "post_attention_layernorm.weight", (1, 48)),
        (LayerWeight::Gate, "block_sparse_moe.gate.weight", (8, 48)),
        (LayerWeight::CorrectionBias, "block_sparse_moe.e_score_correction_bias", (1, 8)),
        (LayerWeight::Expert(7, Projection::Gate), "block_sparse_moe.experts.7.w1.weight", (24, 48)),
        (LayerWeight::Expert(7, Projection::Up), "block_sparse_moe.experts.7.w3.weight", (24, 48)),
        (LayerWeight::Expert(7, Projection::Down), "block_sparse_moe.experts.7.w2.weight", (48, 24)),
    ] {
        assert_eq!(layer(weight), (format!("model.layers.1.{name}"), dim));
    }
    let memory = Memory::random(&config, 0);
    assert!(all.iter().all(|(weight, dim)| memory.get(*weight).is_ok_and(|w| w.dim() == *dim)));
}

/// A dense layer, and one that has everything else.
#[test]
fn the_inventory_of_m3_by_hand() {
    let all = inventory(&tiny_m3());
    let of = |layer| -> Vec<(String, (usize, usize))> {
        let mine = all.iter().filter(|(weight, _)| matches!(weight, Weight::Layer(l, _) if *l == layer));
        mine.map(|(weight, dim)| (weight.to_string().replace(&format!("model.layers.{layer}."), ""), *dim)).collect()
    };
    let attention = [
        ("input_layernorm.weight", (1, 48)),
        ("self_attn.q_proj.weight", (48, 48)),
        ("self_attn.k_proj.weight", (16, 48)),
        ("self_attn.v_proj.weight", (16, 48)),
        ("self_attn.q_norm.weight", (1, 8)),
        ("self_attn.k_norm.weight", (1, 8)),
        ("self_attn.o_proj.weight", (48, 48)),
        ("post_attention_layernorm.weight", (1, 48)),
    ];
    let index = [
        ("self_attn.index_q_proj.weight", (12, 48)),
        ("self_attn.index_k_proj.weight", (6, 48)),
        ("self_attn.index_q_norm.weight", (1, 6)),
        ("self_attn.index_k_norm.weight", (1, 6)),
    ];
    let dense =
        [("mlp.gate_proj.weight", (30, 48)), ("mlp.up_proj.weight", (30, 48)), ("mlp.down_proj.weight", (48, 30))];
    let shared = [
        ("block_sparse_moe.gate.weight", (8, 48)),
        ("block_sparse_moe.e_score_correction_bias", (1, 8)),
        ("block_sparse_moe.shared_experts.gate_proj.weight", (20, 48)),
        ("block_sparse_moe.shared_experts.up_proj.weight", (20, 48)),
        ("block_sparse_moe.shared_experts.down_proj.weight", (48, 20)),
    ];
    let sorted = |parts: &[&[(&str, (usize, usize))]]| {
        let mut names: Vec<(String, (usize, usize))> =
            parts.concat().into_iter().map(|(name, dim)| (name.to_owned(), dim)).collect();
        names.sort();
        names
    };
    let found = |layer| {
        let mut names = of(layer);
        names.retain(|(name, _)| !name.contains(".experts."));
        names.sort();
        names
    };
    assert_eq!(found(0), sorted(&[&attention, &dense]));
    assert_eq!(found(1), sorted(&[&attention, &shared]));
    assert_eq!(found(2), sorted(&[&attention, &index, &dense]));
    assert_eq!(found(3), sorted(&[&attention, &index, &shared]));
    assert_eq!(of(3).len() - found(3).len(), 8 * 3);
}

/// What a module has around its layer, and that the layer has what the model's own of its kind has.
#[test]
fn the_modules_of_multi_token_prediction_by_hand() {
    let of = |config, topology, of: usize| -> Vec<(String, (usize, usize))> {
        let all = mtp_inventory(config, topology, of + 1).into_iter();
        let names = all.map(|(weight, dim)| (weight.to_string(), dim));
        let before = format!("model.mtp.layers.{of}.");
        names.filter_map(|(name, dim)| Some((name.strip_prefix(&before)?.to_owned(), dim))).collect()
    };
    let around = |all: &[(String, (usize, usize))]| -> Vec<(String, (usize, usize))> {
        all.iter().filter(|(name, _)| !name.starts_with("transformer_layer.")).cloned().collect()
    };
    let layer = |config, layer: usize| -> Vec<(String, (usize, usize))> {
        let mine = inventory(config).into_iter().filter_map(move |(weight, dim)| match weight {
            Weight::Layer(l, inner) if l == layer => Some((format!("transformer_layer.{inner}"), dim)),
            _ => None,
        });
        mine.collect()
    };
    let named = |parts: &[(&str, (usize, usize))]| -> Vec<(String, (usize, usize))> {
        parts.iter().map(|(name, dim)| ((*name).to_owned(), *dim)).collect()
    };
    let concatenated = named(&[
        ("enorm.weight", (1, 48)),
        ("hnorm.weight", (1, 48)),
        ("eh_proj.weight", (48, 96)),
        ("final_layernorm.weight", (1, 48)),
    ]);
    let m3 = tiny_m3();
    for (topology, kind) in [(VllmM3, 3), (HfGeneric, 1)] {
        let all = of(&m3, topology, 2);
        assert_eq!(around(&all), concatenated);
        assert_eq!(all[4..], layer(&m3, kind));
    }
    let m2 = tiny();
    let all = of(&m2, Doc000, 0);
    let summed = [("mtp_proj.weight", (48, 48)), ("final_layernorm.weight", (1, 48)), ("mtp_head.weight", (40, 48))];
    assert_eq!(around(&all), named(&summed));
    assert_eq!(all[3..], layer(&m2, 1));
    assert_eq!(mtp_inventory(&m3, VllmM3, 0), []);
    assert_eq!(of(&m3, VllmM3, 1).len(), of(&m3, VllmM3, 0).len());
}

#[test]
fn a_weight_that_is_not_there() {
    let mut memory = Memory::random(&tiny(), 0);
    memory.remove(Weight::LmHead);
    assert_eq!(memory.get(Weight::LmHead).expect_err("removed").to_string(), "lm_head.weight: not in memory");
    let square: Array2<f64> = Matrix::new((1, 48), Fill::Whole, Storage::Bf16, 1).values();
    memory.set(Weight::FinalNorm, &square);
    assert_eq!(memory.dense(Weight::FinalNorm), square);
}
