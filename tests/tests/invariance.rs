//! The CUDA path as a whole is a function of the tokens before: the same bits again, however the prompt is cut into passes,
//! and whatever follows. `emulator/model.rs` adds: in every order of threads and blocks.

use fixtures::checkpoint::memory::MemoryWeights;
use fixtures::synth::Synthesis;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::error::Error;
use optimized::kernel::Sources;
use optimized::kernel::table::ATTENTION;
use optimized::models::cache::Cache;
use optimized::models::decoder::Decoder;
use optimized::ops::linear::Tiling;
use proptest::prelude::*;
use reference::Semantics;
use reference::config::Config;
use serde_json::json;
use tests::device::devices;

/// A model of two layers that leaves a remainder in every tile.
pub(crate) fn config(vocabulary: usize) -> Config {
    let json = json!({
        "model_type": "minimax_m2", "vocab_size": vocabulary, "hidden_size": 100, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "rotary_dim": 8,
        "rope_theta": 5e6, "rms_norm_eps": 1e-6, "num_local_experts": 8, "num_experts_per_tok": 3,
        "max_position_embeddings": 512, "tie_word_embeddings": false
    });
    Config::from_json(&json.to_string()).expect("the configuration is whole")
}

/// A model of M3's kinds of layers, whose queries see more blocks of keys than they choose.
fn m3() -> Config {
    let kinds = |first: &str, second: &str| json!([first, second, first, second]);
    let json = json!({
        "model_type": "minimax_m3_vl_text", "vocab_size": 300, "hidden_size": 100, "intermediate_size": 40,
        "dense_intermediate_size": 70, "shared_intermediate_size": 30, "routed_scaling_factor": 2.0,
        "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 12, "rotary_dim": 8,
        "rope_theta": 5e6, "rms_norm_eps": 1e-6, "num_local_experts": 8, "num_experts_per_tok": 3,
        "max_position_embeddings": 512, "tie_word_embeddings": false,
        "layer_types": kinds("full_attention", "minimax_m3_sparse"), "mlp_layer_types": kinds("sparse", "dense"),
        "index_block_size": 5, "index_topk_blocks": 4, "index_local_blocks": 1, "index_n_heads": 2, "index_head_dim": 20
    });
    Config::from_json(&json.to_string()).expect("the configuration is whole")
}

pub(crate) fn weights(config: &Config) -> MemoryWeights {
    Synthesis::default().weights(config)
}

pub(crate) fn model(gpu: Gpu, config: &Config, weights: &MemoryWeights) -> Decoder {
    Decoder::load(gpu, config, &Semantics::DOCUMENTS, weights, || {}).unwrap_or_else(|error| panic!("{error}"))
}

/// Tokens below `vocabulary`, others for another seed.
pub(crate) fn prompt(n: usize, vocabulary: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| u32::try_from((i * i * 7 + i * 13 + seed * 31) % vocabulary).expect("a small vocabulary")).collect()
}

/// The bits of a row of logits for each token, from passes of so many tokens each; the last takes what is left.
pub(crate) fn logits(model: &Decoder, tokens: &[u32], passes: impl IntoIterator<Item = usize>) -> Array2<u16> {
    let run = || -> Result<Array2<u16>, Error> {
        let mut cache: Cache = model.cache(tokens.len())?;
        let mut parts = Vec::new();
        let mut passes = passes.into_iter();
        let mut left = tokens;
        while !left.is_empty() {
            let (now, later) = left.split_at(passes.next().unwrap_or(left.len()).clamp(1, left.len()));
            let part = model.forward(now, &[], &mut cache, None)?;
            parts.push(model.gpu().download(&part)?.mapv(half::bf16::to_bits));
            left = later;
        }
        let views: Vec<ArrayView2<'_, u16>> = parts.iter().map(|part| part.view()).collect();
        Ok(concatenate(Axis(0), &views).expect("rows of one width"))
    };
    run().unwrap_or_else(|error| panic!("{error}"))
}

/// All in one pass.
pub(crate) fn at_once(model: &Decoder, tokens: &[u32]) -> Array2<u16> {
    logits(model, tokens, [])
}

/// Where two runs first differ, said shortly: the logits are many.
pub(crate) fn demand_equal(got: &Array2<u16>, want: ArrayView2<'_, u16>, what: &str) {
    assert_eq!(got.dim(), want.dim(), "{what}");
    let differing = got.indexed_iter().find(|(at, bits)| **bits != want[*at]);
    assert_eq!(differing, None, "{what}: {:?}", differing.map(|(at, _)| want[at]));
}

#[test]
fn a_second_run_gives_the_same_bits() {
    let config = config(300);
    let (weights, tokens) = (weights(&config), prompt(70, 300, 1));
    for gpu in devices() {
        let name = gpu.name().to_owned();
        let model = model(gpu, &config, &weights);
        demand_equal(&at_once(&model, &tokens), at_once(&model, &tokens).view(), &name);
    }
}

/// The prompt is long enough for two groups of keys, and for every way in which the kernels cut their work.
#[test]
fn a_prompt_in_passes_of_any_size_gives_the_same_rows() {
    let config = config(300);
    let (weights, tokens) = (weights(&config), prompt(270, 300, 3));
    for gpu in devices().into_iter().filter(|gpu| gpu.form() != Some(Form::Checked)) {
        let model = model(gpu, &config, &weights);
        let whole = at_once(&model, &tokens);
        for size in [1, 7, 8, 9, 16, 17, 64, 65, 256, 269] {
            let got = logits(&model, &tokens, std::iter::repeat_n(size, tokens.len()));
            demand_equal(&got, whole.view(), &format!("passes of {size}"));
        }
    }
}

/// The same of M3's layers, by both readings of whom blocks are chosen for.
#[test]
fn chosen_blocks_are_the_same_in_passes_of_any_size() {
    let config = m3();
    let (weights, tokens) = (weights(&config), prompt(75, 300, 7));
    let mut readings = Vec::new();
    for semantics in [Semantics::DOCUMENTS, Semantics::RELEASED] {
        for gpu in devices() {
            let what = format!("{} {semantics}", gpu.name());
            let sizes: &[usize] = if gpu.form() == Some(Form::Checked) { &[8] } else { &[1, 8, 31, 64] };
            let model = Decoder::load(gpu, &config, &semantics, &weights, || {}).unwrap_or_else(|e| panic!("{e}"));
            let whole = at_once(&model, &tokens);
            for &size in sizes {
                let got = logits(&model, &tokens, std::iter::repeat_n(size, tokens.len()));
                demand_equal(&got, whole.view(), &format!("{what}: passes of {size}"));
            }
            readings.push(whole);
        }
    }
    assert!(readings.first() != readings.last(), "the readings differ where more blocks are seen than chosen");
}

/// So many logits that the head is computed in large tiles, or by few rows.
#[test]
fn a_large_head_gives_the_same_rows_in_every_tiling() {
    const VOCABULARY: usize = 17_000;
    let config = config(VOCABULARY);
    let (weights, tokens) = (weights(&config), prompt(66, VOCABULARY, 4));
    assert_eq!([66, 16, 17].map(|n| Tiling::of(n, VOCABULARY, 100)), [Tiling::Large, Tiling::FewRows, Tiling::Small]);
    for gpu in devices().into_iter().filter(|gpu| gpu.form() != Some(Form::Checked)) {
        let model = model(gpu, &config, &weights);
        let whole = at_once(&model, &tokens);
        for passes in [vec![16, 1, 17], vec![64]] {
            demand_equal(&logits(&model, &tokens, passes.clone()), whole.view(), &format!("passes of {passes:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// A row depends on nothing that follows it, neither in its pass nor in a later one.
    #[test]
    fn what_follows_a_prompt_changes_nothing_in_it(
        (kept, more) in (1..90_usize, 1..90_usize),
        passes in prop::collection::vec(1..60_usize, 0..4),
        seed in 0..1000_usize,
    ) {
        let config = config(300);
        let weights = weights(&config);
        let (first, second) = (prompt(kept + more, 300, seed), prompt(more, 300, seed + 1));
        let other = [&first[..kept], &second[..]].concat();
        let model = model(devices().swap_remove(0), &config, &weights);
        let (one, two) = (at_once(&model, &first), logits(&model, &other, passes));
        let alone = at_once(&model, &first[..kept]);
        demand_equal(&alone, one.slice(s![..kept, ..]), "continued");
        demand_equal(&alone, two.slice(s![..kept, ..]), "continued otherwise");
    }
}

/// Queries of a short pass see all of the pass, as if it were one token: what the tests above are for.
#[test]
fn a_query_that_sees_what_follows_shows() {
    let (own, last) = ("first + min(tokens[0], n - 1), first + min(tokens[1], n - 1)", "first + n - 1, first + n - 1");
    let sources = Sources::embedded().edit("attention.cu", own, last).expect("the text is there once");
    let gpu = devices().swap_remove(0);
    gpu.replace(&ATTENTION[0], &sources).expect("the changed kernel compiles");
    let config = config(300);
    let (model, tokens) = (model(gpu, &config, &weights(&config)), prompt(30, 300, 6));
    let (whole, parts) = (at_once(&model, &tokens), logits(&model, &tokens, [22, 8]));
    assert!(whole.slice(s![..22, ..]) == parts.slice(s![..22, ..]));
    assert!(whole.slice(s![22.., ..]) != parts.slice(s![22.., ..]));
}

/// Were the rows alike whatever the tokens, the tests above would say nothing.
#[test]
fn another_token_changes_the_rows_from_there_on() {
    let config = config(300);
    let model = model(devices().swap_remove(0), &config, &weights(&config));
    let tokens = prompt(40, 300, 5);
    let mut other = tokens.clone();
    other[20] += 1;
    let (one, two) = (at_once(&model, &tokens), at_once(&model, &other));
    for (i, (one, two)) in one.rows().into_iter().zip(two.rows()).enumerate() {
        assert_eq!(one == two, i < 20, "row {i}");
    }
}
