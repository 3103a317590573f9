//! Modules whose layers add nothing, so that every value has a closed form.

use ndarray::{Array2, array, concatenate};
use reference::config::Config;
use reference::models::decoder::{Decoder, Pass};
use reference::models::mtp::{MtpModule, hidden_of_model, hidden_of_module};
use reference::ops::kv_cache::KvCache;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::semantics::MtpTopology::{self, Doc000, HfGeneric, VllmM3};
use reference::weights::{MtpWeight, Weight, mtp_inventory};
use reference::{RoundingContract, Semantics, Site, Tracked};
use tests::memory::{Memory, tiny, tiny_m3};
use tests::probes::Recorder;

/// Two channels and three tokens.
fn small(config: Config) -> Config {
    Config { vocab_size: 3, hidden_size: 2, rms_norm_eps: 1e-300, ..config }
}

/// Embeddings of 2, 3 and 4, the model's head, and modules that keep what they read.
fn weights(config: &Config, topology: MtpTopology) -> Memory {
    let mut memory = Memory::with_modules(config, (topology, 3), 0);
    let blank = Memory::blank(config);
    for (weight, dim) in mtp_inventory(config, topology, 3) {
        let unit = blank.dense(Weight::FinalNorm)[[0, 0]];
        memory.set(weight, &Array2::from_elem(dim, if weight.is_norm() { unit } else { 0.0 }));
    }
    memory.set(Weight::Embedding, &array![[2.0, 0.0], [0.0, 3.0], [-4.0, 0.0]]);
    memory.set(Weight::LmHead, &array![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]);
    memory
}

fn pass(
    (config, memory): (&Config, &Memory),
    semantics: &Semantics,
    module: usize,
    (tokens, hidden): (&[u32], Array2<f64>),
) -> Pass<f64> {
    let model = Decoder::new(config, *semantics, memory).expect("it fits");
    let module = MtpModule::of(&model, module);
    let mut unseen = NoProbe;
    let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
    module.pass(tokens, &Tracked::plain(hidden), &mut KvCache::new(1), &mut run).expect("it runs")
}

fn reading(topology: MtpTopology) -> Semantics {
    Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED }
}

/// u = W·h + e, and a head of the module's own.
#[test]
fn document_000() {
    let config = small(tiny());
    let mut memory = weights(&config, Doc000);
    memory.set(Weight::Mtp(1, MtpWeight::HiddenProj), &array![[0.0, 1.0], [2.0, 0.0]]);
    memory.set(Weight::Mtp(1, MtpWeight::Head), &array![[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]);
    let made = pass((&config, &memory), &Semantics::RELEASED, 1, (&[0, 2], array![[1.0, 5.0], [4.0, 4.0]]));
    assert_eq!(made.stream.value, array![[7.0, 2.0], [0.0, 8.0]]);
    // Normed, the second row is (0, √2).
    let root = 2.0_f64.sqrt();
    let [first, second, third] = [0, 1, 2].map(|token| made.logits.value[[1, token]]);
    assert!((first, third) == (0.0, second / 2.0) && (second - 2.0 * root).abs() < 1e-15, "{}", made.logits.value);
    assert!(hidden_of_module(Doc000, made).is_none());
}

/// u = W·[e/rms e; h/rms h]: of one channel of two, x/rms x is √2. Row 0 of vLLM's has no embedding.
#[test]
fn both_side_by_side() {
    let config = small(tiny_m3());
    let mut memory = weights(&config, VllmM3);
    let [e, h] = [array![[1.0, 0.0], [0.0, 1.0]], array![[0.0, 4.0], [4.0, 0.0]]];
    let w = concatenate(ndarray::Axis(1), &[e.view(), h.view()]).expect("as many rows");
    memory.set(Weight::Mtp(0, MtpWeight::BothProj), &w);
    let hidden = array![[5.0, 0.0], [0.0, -7.0]];
    let root = 2.0_f64.sqrt();
    let near = |got: &Array2<f64>, want: Array2<f64>| {
        assert!((got - &(want * root)).iter().all(|off| off.abs() < 1e-14), "{got}");
    };
    for (topology, want) in [(VllmM3, array![[0.0, 4.0], [-4.0, 1.0]]), (HfGeneric, array![[1.0, 4.0], [-4.0, 1.0]])] {
        let made = pass((&config, &memory), &reading(topology), 0, (&[0, 1], hidden.clone()));
        near(&made.stream.value, want);
        let next = hidden_of_module(topology, made.clone()).expect("in series");
        assert_eq!(next, if topology == VllmM3 { made.stream } else { made.normed });
        // The head is the model's.
        assert!((&made.logits.value.column(0) - &next_normed(&next).column(0)).iter().all(|off| off.abs() < 1e-14));
    }
    let swapped: Semantics = "released,mtp_concat=hidden_first".parse().expect("a reading");
    near(&pass((&config, &memory), &swapped, 0, (&[0, 1], hidden)).stream.value, array![[1.0, 0.0], [4.0, -1.0]]);
}

/// Rows over their root mean square.
fn next_normed(x: &Tracked<f64>) -> Array2<f64> {
    let mut y = x.value.clone();
    for mut row in y.rows_mut() {
        let size = (row.iter().map(|x| x * x).sum::<f64>() / 2.0).sqrt();
        row.mapv_inplace(|x| x / size);
    }
    y
}

/// A module of one draft stands at the position of its token, vLLM's at that of the hidden state.
#[test]
fn positions() {
    for (config, topology, module, position) in
        [(tiny(), Doc000, 2, 3.0), (tiny_m3(), VllmM3, 0, 0.0), (tiny_m3(), HfGeneric, 1, 2.0_f64)]
    {
        let memory = Memory::with_modules(&config, (topology, 3), 1);
        let model = Decoder::new(&config, reading(topology), &memory).expect("it fits");
        let (mut seen, mut cache) = (Recorder::<f64>::new(false), KvCache::new(1));
        let mut run = Run::new(RoundingContract::IDEAL, &mut seen);
        let hidden = Tracked::plain(Array2::from_elem((2, config.hidden_size), 1.0));
        MtpModule::of(&model, module).pass(&[3, 4], &hidden, &mut cache, &mut run).expect("it runs");
        // The first frequency is 1.
        let cos = &seen.value(Site::RopeCos).value;
        let off = (0..2).map(|row| (cos[[row, 0]] - (position + row as f64).cos()).abs()).fold(0.0, f64::max);
        assert!(off < 1e-6, "{topology}: {cos}");
        assert_eq!(cache.len(0), 2);
        assert_eq!(cache.index(0).is_some(), topology == VllmM3);
    }
}

/// Behind the final norm, but in document 000; and otherwise, where that is said.
#[test]
fn the_hidden_state_that_the_first_module_reads() {
    let config = tiny_m3();
    let memory = Memory::random(&config, 2);
    for (text, is_normed) in [
        ("released", true),
        ("released,mtp_topology=hf_generic", true),
        ("released,mtp_topology=doc000", false),
        ("released,mtp_hidden=stream", false),
        ("released,mtp_topology=doc000,mtp_hidden=normed", true),
    ] {
        let model = Decoder::new(&config, text.parse().expect("a reading"), &memory).expect("it fits");
        let mut unseen = NoProbe;
        let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
        let pass = model.pass(&[1, 2, 3], &mut KvCache::<f64>::new(4), &mut run).expect("it runs");
        assert_ne!(pass.normed, pass.stream);
        let want = if is_normed { &pass.normed } else { &pass.stream };
        assert_eq!(&hidden_of_model(&model, &pass), want, "{text}");
    }
}

#[test]
fn c1_a_hidden_state_for_each_token_and_after_errors_the_cache_is_as_it_was() {
    let config = Config { max_position_embeddings: 5, ..tiny() };
    let mut memory = Memory::with_modules(&config, (Doc000, 1), 1);
    let mut cache = KvCache::new(1);
    let mut refused = |memory: &Memory, tokens: &[u32], rows| {
        let model = Decoder::new(&config, Semantics::RELEASED, memory).expect("it fits");
        let mut unseen = NoProbe;
        let mut run = Run::<f64>::new(RoundingContract::IDEAL, &mut unseen);
        let hidden = Tracked::plain(Array2::zeros((rows, 48)));
        let error = MtpModule::of(&model, 0).pass(tokens, &hidden, &mut cache, &mut run).expect_err("refused");
        assert!(cache.is_empty());
        error.to_string()
    };
    assert_eq!(refused(&memory, &[1, 2], 3), "mtp C1: shape of h = (3, 48), expected (2, 48)");
    let positions = "decoder C3: positions = 6, expected at most max_position_embeddings = 5";
    assert_eq!(refused(&memory, &[1, 2, 3, 4, 5], 5), positions);
    memory.remove(Weight::Mtp(0, MtpWeight::Head));
    assert_eq!(refused(&memory, &[1], 1), "model.mtp.layers.0.mtp_head.weight: not in memory");
}
