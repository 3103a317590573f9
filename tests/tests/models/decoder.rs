//! `reference/src/models`.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::{NoProbe, Probe};
use reference::run::Run;
use reference::site::Extent;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{Error, LayerSite, Real, RoundingContract, Semantics, Site, Storage, Tracked};
use tests::memory::{Memory, tiny, tiny_m3};
use tests::mistaken::computed;
use tests::probes::Recorder;
use tools::judge::candidate::Candidate;

mod block_sparse;
mod by_hand;
mod chunks;
mod constraints;
mod judged;
mod sites;

/// Twelve tokens, some of them twice.
const TEXT: [u32; 12] = [7, 1, 39, 7, 0, 22, 13, 13, 5, 30, 1, 18];

/// The documents' model.
fn model<'w>(config: &Config, weights: &'w dyn Weights) -> Decoder<'w> {
    Decoder::new(config, Semantics::DOCUMENTS, weights).expect("the configuration keeps the contract")
}

/// Logits of a text in one pass.
fn pass<T: Real>(
    model: &Decoder<'_>,
    contract: RoundingContract,
    probe: &mut dyn Probe<T>,
) -> Result<Tracked<T>, Error> {
    let mut cache = KvCache::new(model.config().num_hidden_layers);
    model.forward(&TEXT, &mut cache, &mut Run::new(contract, probe))
}

/// The same, unseen.
fn logits<T: Real>(model: &Decoder<'_>, contract: RoundingContract) -> Tracked<T> {
    pass(model, contract, &mut NoProbe).expect("the text keeps the contract")
}

/// Every override of a reading but ε in the router's sum, which no f64 shows.
#[test]
fn every_point_of_the_documents_is_heard() {
    let memory = Memory::random(&tiny(), 1);
    let usual: Tracked<f64> = logits(&model(&tiny(), &memory), RoundingContract::IDEAL);
    for field in [
        "rope_part=last",
        "rope_pair=interleaved",
        "rotary_dim=8",
        "rotary_dim=0",
        "rope_theta=100",
        "qk_norm=per_head",
        "qk_norm=none",
        "eps_place=outside",
        "norm_eps=0.01",
        "qk_norm_eps=0.01",
        "score_scale=1",
        "top_k=2",
        "expert=nongated",
        "routing_weights=biased",
        "router_score=softmax_topk",
        "rope_scale=1.5",
        "rope_linear=2",
        "rope_scaling=yarn:4/16",
        "rope_scaling=yarn_plain:4/16",
        "rope_scaling=llama3:8/16",
        "rope_inv_freq=bf16",
        "rope_angle=bf16",
        "rope_on=query_key_value",
        "key_shift=1",
        "query_norm=per_head",
        "key_norm=none",
        "soft_cap=0.5",
        "attention_sink=0",
        "window=2",
        "prefix=3",
        "query_temperature=0.5/1",
        "cache_type=e4m3",
        "cache_type=e4m3_values",
        "causal_tile=2",
        "tiled_heads=values",
        "tiled_heads=keys",
        "query_type=e4m3",
        "probability_type=e4m3",
        "query_channels=1",
        "unseen=keys:0..1",
        "unfilled=count:2",
        "merged=averaged/1",
        "rope_queries=back",
        "rope_keys=twice",
        "cache_ring=2",
        "shared_head=1=0",
        "heads_viewed=values",
        "heads_viewed=context",
        "q_shards=2",
        "k_shards=2",
        "q_norm_width=2",
        "k_norm_width=0.5",
        "router_scores=bf16",
        "unwritten=context:1..2",
        "unwritten=o_proj:1..",
        "unwritten=experts:1..",
        "attention_residual=normed",
        "attention_alpha=2",
        "attention_beta=2",
        "mlp_residual=normed",
        "mlp_alpha=2",
        "mlp_beta=2",
        "layer_scale=2",
        "post_norm_input=layer",
        "post_norm_input=attention",
        "logits_shift=1",
    ] {
        let semantics = format!("documents,{field}").parse().expect("a reading");
        let model = Decoder::new(&tiny(), semantics, &memory).expect("the configuration keeps the contract");
        assert_ne!(logits::<f64>(&model, RoundingContract::IDEAL), usual, "{field}");
    }
}

/// The same of M3, and of the slips of its ports.
#[test]
fn every_point_of_m3_is_heard() {
    let memory = Memory::random(&tiny_m3(), 1);
    let of = |reading: &str| {
        let semantics = reading.parse().expect("a reading");
        let model = Decoder::new(&tiny_m3(), semantics, &memory).expect("the configuration keeps the contract");
        logits::<f64>(&model, RoundingContract::IDEAL)
    };
    let usual = of("released");
    for field in [
        "norm_weight=plain",
        "qk_norm=full_projection",
        "msa_select=head_max",
        "msa_local=first_block",
        "msa_local=none",
        "msa_init_block=1",
        "msa_pool=mean",
        "msa_pool=absolute",
        "msa_pool=min",
        "msa_block=1",
        "msa_local_block=2",
        "index_heads=first",
        "index_heads=token_sum",
        "rope_pair=half_head",
        "cache_form=both:int4/head",
        "msa_top_k=2",
        "gate_clamp=none",
        "activation=swiglu",
        "up_beta=0",
        "swiglu_limit=0.01",
        "gate_alpha=1",
        "routed_scale=1",
        "shared_scale=routed",
        "shared_scale=reciprocal",
        "msa_mask=block",
        "msa_mask=all",
        "msa_group=tiled",
        "index_rope=query",
        "index_rope=none",
        "index_norm=swapped",
        "index_norm=none",
        "attention_softmax=bf16",
        "msa_own=twice",
        "msa_layout=head_major",
        "msa_layout=transposed",
        "unwritten=shared:1..",
        "unwritten=dense:1..2",
        "expert_choice=best",
        "index_input=stream",
        "index_rotated=last",
        "index_rotated=interleaved",
        "attention_rope_part=last",
        "shared_page=1:0=1",
        "msa_tile=choice/2",
        "index_heads=sum",
        "index_heads=next",
        "msa_local=next_block",
        "msa_shift=1",
        "index_shift=1",
        "index_cache_type=e4m3",
    ] {
        assert_ne!(of(&format!("released,{field}")), usual, "{field}");
    }
    // Blocks of two are all full.
    assert_ne!(of("released,msa_block=5,msa_pad=dropped"), of("released,msa_block=5"));
    assert_eq!(of("released,msa_score_scale=1/sqrt(d)"), usual);
    // The own block is forced in any case.
    assert_eq!(of("released,index_mask=block"), usual);
}

/// Every override of a contract that changes where a value is rounded.
#[test]
fn every_rounding_point_is_heard() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    for (preset, fields) in [
        ("eager_bf16", &["rms=one", "qk_norm=once", "rope=once", "attention=flash", "swiglu=once"][..]),
        ("eager_bf16", &["gate=activations", "routing=activations", "experts=once", "norm_input=sum"]),
        ("fused", &["activations=f32", "rms=two", "qk_norm=each", "rope=each", "attention=eager", "swiglu=each"]),
        ("fused", &["gate=activations", "routing=activations", "experts=each", "norm_input=sum"]),
    ] {
        let usual: Tracked<f64> = logits(&model, preset.parse().expect("a preset"));
        for field in fields {
            let contract = format!("{preset},{field}").parse().expect("a contract");
            assert_ne!(logits::<f64>(&model, contract), usual, "{preset},{field}");
        }
    }
}

/// What stands between two products goes on as it is, whatever was stored of it: a layer's output is rounded once, of three
/// summands.
#[test]
fn fused_additions_round_once() {
    let memory = Memory::random(&tiny(), 1);
    let contract = "fused,norm_input=fused".parse().expect("a contract");
    let live = computed(&model(&tiny(), &memory), &TEXT, contract);
    let of = |site| live.matrix(At { step: 0, site }, Extent::new(TEXT.len(), TEXT.len())).expect("it is kept");
    let in_layer = |site| of(Site::Layer(0, site));
    let (x, a, f) = (of(Site::Embedding), in_layer(LayerSite::Attention), in_layer(LayerSite::Mlp));
    let rounded = |sum: Array2<f64>| sum.mapv(|x| Storage::Bf16.nearest(x));
    assert_eq!(in_layer(LayerSite::Residual), rounded(&x + &a));
    assert_eq!(in_layer(LayerSite::Output), rounded(&x + &a + &f));
    assert_ne!(in_layer(LayerSite::Output), rounded(rounded(&x + &a) + &f));
}

#[test]
fn a_noise_follows_from_its_seed() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    for (name, contract) in RoundingContract::PRESETS {
        let run = |seed| logits::<f64>(&model, contract.stochastic(seed));
        assert_eq!(run(1), run(1), "{name}");
        assert_eq!(run(1) == run(2), name == "ideal", "{name}");
    }
}

/// What a probe asks for is made beside what is computed.
#[test]
fn looking_changes_nothing() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    for (name, contract) in RoundingContract::PRESETS {
        for asking in [false, true] {
            let seen = pass::<f64>(&model, contract, &mut Recorder::new(asking)).expect("a good text");
            assert_eq!(seen, logits(&model, contract), "{name}, asking: {asking}");
        }
    }
}

#[test]
fn a_tied_head_is_the_embedding() {
    let mut memory = Memory::random(&tiny(), 1);
    memory.set(Weight::LmHead, &memory.dense(Weight::Embedding));
    let apart: Tracked<f64> = logits(&model(&tiny(), &memory), RoundingContract::IDEAL);
    memory.remove(Weight::LmHead);
    let tied = Config { tie_word_embeddings: true, ..tiny() };
    assert_eq!(logits(&model(&tied, &memory), RoundingContract::IDEAL), apart);
}

/// A bias keeps every token from two experts; their weights may be missing. Those of another are missed.
#[test]
fn only_experts_that_are_chosen_are_read() {
    let mut memory = Memory::random(&tiny(), 1);
    let bias = Weight::Layer(1, LayerWeight::CorrectionBias);
    let mut values = memory.dense(bias);
    (values[[0, 2]], values[[0, 5]]) = (-9.0, -9.0);
    memory.set(bias, &values);
    let all: Tracked<f64> = logits(&model(&tiny(), &memory), RoundingContract::IDEAL);
    for expert in [2, 5] {
        for projection in [Projection::Gate, Projection::Up, Projection::Down] {
            memory.remove(Weight::Layer(1, LayerWeight::Expert(expert, projection)));
        }
    }
    assert_eq!(logits(&model(&tiny(), &memory), RoundingContract::IDEAL), all);
    let mut seen = Recorder::<f64>::new(false);
    pass(&model(&tiny(), &memory), RoundingContract::IDEAL, &mut seen).expect("a good text");
    let chosen = seen.experts(1)[[0, 0]];
    memory.remove(Weight::Layer(1, LayerWeight::Expert(chosen, Projection::Down)));
    let err = pass::<f64>(&model(&tiny(), &memory), RoundingContract::IDEAL, &mut NoProbe).expect_err("it is chosen");
    let name = format!("model.layers.1.block_sparse_moe.experts.{chosen}.w2.weight");
    assert_eq!(err.to_string(), format!("{name}: not in memory"));
}
