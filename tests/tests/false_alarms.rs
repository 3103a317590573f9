//! No right implementation is blamed: two hundred random configurations, each with weights and a prompt of its own, computed
//! by the CUDA path, and by the reference rounding as eager engines do.

use fixtures::checkpoint::memory::MemoryWeights;
use fixtures::synth::Synthesis;
use optimized::emulated::Form;
use optimized::models::decoder::Decoder as Optimized;
use proptest::prelude::*;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::{RoundingContract, Semantics};
use serde_json::{Value, json};
use tests::device::emulated;
use tests::mistaken::computed;
use tools::judge::candidate::{Candidate, Live};
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;

/// What both families have: sizes that leave remainders in most tiles.
fn shared() -> impl Strategy<Value = Value> {
    let heads = (1_usize..=3, 1_usize..=4, 2_usize..=8, any::<prop::sample::Index>());
    let experts = (2_usize..=10, any::<prop::sample::Index>(), 4_usize..=40);
    (heads, experts, 8_usize..=90, 1_usize..=2, 20_usize..=150).prop_map(
        |((groups, shared, half, rotating), (experts, chosen, width), hidden, layers, vocabulary)| {
            json!({
                "vocab_size": vocabulary, "hidden_size": hidden, "intermediate_size": width,
                "num_hidden_layers": layers, "num_attention_heads": groups * shared, "num_key_value_heads": groups,
                "head_dim": 2 * half, "rotary_dim": 2 * (1 + rotating.index(half)), "rope_theta": 5e6,
                "rms_norm_eps": 1e-6, "num_local_experts": experts, "num_experts_per_tok": 1 + chosen.index(experts.min(8)),
                "max_position_embeddings": 512, "tie_word_embeddings": layers == 2 && vocabulary % 2 == 0
            })
        },
    )
}

fn m2() -> impl Strategy<Value = Value> {
    shared().prop_map(|mut config| {
        config["model_type"] = "minimax_m2".into();
        config
    })
}

/// Of any kinds of layers; blocks are small, so that there are more than are chosen.
fn m3() -> impl Strategy<Value = Value> {
    let kinds = prop::collection::vec((0..=1_usize, 0..=1_usize), 2);
    let index = (2_usize..=12, 1_usize..=4, 1_usize..=5, 1_usize..=2);
    (shared(), kinds, index, 4_usize..=40, 4_usize..=40).prop_map(|(mut config, kinds, index, dense, shared)| {
        let of_layer =
            |kind: fn(&(usize, usize)) -> usize, n: usize| kinds.iter().take(n).map(kind).collect::<Vec<_>>();
        let layers = size_of(&config, "num_hidden_layers");
        let (half, top, size, local) = index;
        let more = json!({
            "model_type": "minimax_m3_vl_text", "partial_rotary_factor": ratio(&config), "hidden_act": "swigluoai",
            "dense_intermediate_size": dense, "shared_intermediate_size": shared, "routed_scaling_factor": 2.0,
            "moe_layer_freq": of_layer(|kind| kind.0, layers),
            "sparse_attention_config": {
                "use_sparse_attention": true, "sparse_index_dim": (2 * half).max(size_of(&config, "rotary_dim")),
                "sparse_num_index_heads": config["num_key_value_heads"], "sparse_topk_blocks": top,
                "sparse_block_size": size, "sparse_local_block": local.min(top),
                "sparse_attention_freq": of_layer(|kind| kind.1, layers)
            }
        });
        config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        config
    })
}

fn size_of(config: &Value, field: &str) -> usize {
    config[field].as_u64().and_then(|size| usize::try_from(size).ok()).expect("a size")
}

/// Which part of a head rotates.
fn ratio(config: &Value) -> f64 {
    size_of(config, "rotary_dim") as f64 / size_of(config, "head_dim") as f64
}

fn judged(
    config: &Config,
    semantics: &Semantics,
    weights: &MemoryWeights,
    tokens: &[u32],
    contract: RoundingContract,
    candidate: &dyn Candidate,
) -> Vec<SiteReport> {
    let model = Decoder::new(config, *semantics, weights).expect("it fits");
    let (steps, layers) = (&[tokens.to_vec()], 0..config.num_hidden_layers);
    let lenses = &[Lens::Local, Lens::Layer, Lens::Global];
    let verification =
        Verification { model: &model, candidate, contract, steps, prompt: tokens.len(), lenses, layers, keep: None };
    verification.run(|| ()).expect("it can be put next to the reference").sites
}

fn by_cuda_path(config: &Config, semantics: &Semantics, weights: &MemoryWeights, tokens: &[u32]) -> Live {
    let model = Optimized::load(emulated(Form::Fast), config, semantics, weights, || {}).expect("it fits");
    let (mut live, mut cache) = (Live::default(), model.cache(tokens.len()).expect("it fits"));
    model.forward(tokens, &[], &mut cache, Some(&mut live)).expect("it runs");
    live
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_right_implementation_is_blamed(config in prop_oneof![m2(), m3()], released: bool, seed: u64, tokens in prop::collection::vec(0..20_u32, 1..24)) {
        let text = config.to_string();
        let config = Config::from_json(&text).expect("the configuration is whole");
        let semantics = if released { Semantics::RELEASED } else { Semantics::DOCUMENTS };
        let weights = Synthesis { seed, ..Synthesis::default() }.weights(&config);
        let cuda = by_cuda_path(&config, &semantics, &weights, &tokens);
        let reference = Decoder::new(&config, semantics, &weights).expect("it fits");
        let eager = computed(&reference, &tokens, RoundingContract::EAGER_BF16);
        for (contract, candidate) in [(RoundingContract::PARITY, cuda), (RoundingContract::EAGER_BF16, eager)] {
            let reports = judged(&config, &semantics, &weights, &tokens, contract, &candidate);
            let blamed = reports.iter().find(|r| matches!(r.verdict, Verdict::Fault | Verdict::Suspicious));
            prop_assert!(blamed.is_none(), "{contract} {semantics} {text} seed {seed} {tokens:?}: {blamed:#?}");
        }
    }
}
