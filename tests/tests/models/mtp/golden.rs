//! What transformers' `MtpModel` computed from modules of M3's own layers, next to the reference.

use std::fs;

use fixtures::activations::dump::Dump;
use fixtures::checkpoint::Checkpoint;
use ndarray::Array2;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::models::decoder::Decoder;
use reference::models::mtp::{MtpModule, hidden_of_model};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::{Sampling, argmax};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::speculative::drafter::{Drafter, Verified};
use reference::speculative::mtp::MtpDrafter;
use reference::{RoundingContract, Semantics, Tracked};
use serde_json::Value;
use tests::judge::within;
use tests::probes::GivenTable;
use tests::repository;

const SERIES: &str = "released,mtp_topology=hf_generic";

const ONE: &str = "released";

/// A round of drafts.
struct Round {
    tokens: Vec<u32>,
    first: usize,
    drafts: Vec<u32>,
}

struct Golden {
    checkpoint: Checkpoint,
    expected: Dump,
    index: Value,
    _folder: tempfile::TempDir,
}

impl Golden {
    /// The case's checkpoint with the modules beside it, in a folder.
    fn open() -> Self {
        let made = repository::path("fixtures/golden-mtp");
        let index = fs::read_to_string(made.join("index.json")).expect("it is there");
        let index: Value = serde_json::from_str(&index).expect("it is JSON");
        let case = repository::path("fixtures/golden").join(index["case"].as_str().expect("a name")).join("model");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = [
            (case.join("config.json"), "config.json"),
            (case.join("model.safetensors"), "text.safetensors"),
            (made.join("modules.safetensors"), "modules.safetensors"),
        ];
        for (from, to) in files {
            fs::copy(from, folder.path().join(to)).expect("it is copied");
        }
        let checkpoint = Checkpoint::open(folder.path()).expect("every tensor has its place");
        assert_eq!(checkpoint.mtp_modules(), 2);
        let expected = Dump::open(&made.join("expected.safetensors")).expect("it is whole");
        Golden { checkpoint, expected, index, _folder: folder }
    }

    fn rounds(&self, way: &str) -> Vec<Round> {
        let numbers = |of: &Value| -> Vec<u32> { serde_json::from_value(of.clone()).expect("numbers") };
        let all = self.index["rounds"].as_array().expect("a list").iter().filter(|round| round["way"] == way);
        let first = |round: &Value| usize::try_from(round["first"].as_u64().expect("a number")).expect("in memory");
        let round = |round: &Value| Round {
            tokens: numbers(&round["tokens"]),
            first: first(round),
            drafts: numbers(&round["drafts"]),
        };
        all.map(round).collect()
    }

    fn matrix(&self, name: &str) -> Array2<f64> {
        let tensor = self.expected.tensor(name).expect("it is there");
        let values: Vec<f64> =
            tensor.bytes().as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect();
        Array2::from_shape_vec((tensor.shape()[0], tensor.shape()[1]), values).expect("its shape")
    }

    fn model(&self, text: &str) -> Decoder<'_> {
        let semantics: Semantics = text.parse().expect("a reading");
        Decoder::new(self.checkpoint.config(), semantics, &self.checkpoint).expect("it fits")
    }

    /// What a module makes of tokens and hidden states that the library had, next to what the library made of them: whether both
    /// its output and its logits are within their bounds.
    fn judged(&self, model: &Decoder<'_>, step: &Step<'_>, cache: &mut KvCache<f64>) -> (bool, String) {
        let Step { module, tokens, hidden, name, .. } = step;
        let mut probe = GivenTable;
        let mut run = Run::bounding(RoundingContract::EAGER_F32, &mut probe);
        let pass = MtpModule::of(model, *module).pass(tokens, hidden, cache, &mut run).expect("it runs");
        let [output, logits] = ["output", "logits"].map(|what| self.matrix(&format!("{name}.{what}")));
        let rows = tokens.len();
        let last = pass.logits.rows(rows - logits.nrows()..rows);
        let found = [(output, pass.normed), (logits, last)].map(|(got, want)| {
            within(&got, &want.value, &want.error_or_exact()).map_err(|fault| format!("{name}: {fault}"))
        });
        let text: Vec<String> = found.iter().map(|found| format!("{found:?}")).collect();
        (found.iter().all(Result::is_ok), text.join("\n"))
    }
}

/// What a module reads.
struct Step<'a> {
    module: usize,
    tokens: &'a [u32],
    hidden: Tracked<f64>,
    name: String,
}

/// Each module from the library's output of the one before, and with its own cache from the round before.
#[test]
fn modules_in_series_are_within_their_bounds() {
    let golden = Golden::open();
    let model = golden.model(SERIES);
    let mut caches = [KvCache::new(1), KvCache::new(1)];
    for (number, round) in golden.rounds("series").into_iter().enumerate() {
        let mut tokens = round.tokens[round.first + 1..].to_vec();
        let mut hidden = golden.matrix(&format!("series.{number}.hidden"));
        for (module, cache) in caches.iter_mut().enumerate() {
            cache.truncate(round.first);
            let name = format!("series.{number}.{module}");
            let step = Step { module, tokens: &tokens, hidden: Tracked::exact(hidden), name: name.clone() };
            let (right, why) = golden.judged(&model, &step, cache);
            assert!(right, "{why}");
            tokens = [&tokens[1..], &[round.drafts[module]]].concat();
            hidden = golden.matrix(&format!("{name}.output"));
        }
    }
}

/// The first pass, of which the others are made.
#[test]
fn one_module_is_within_its_bounds() {
    let golden = Golden::open();
    let round = &golden.rounds("one")[0];
    let step = || Step {
        module: 0,
        tokens: &round.tokens[1..],
        hidden: Tracked::exact(golden.matrix("one.0.hidden")),
        name: "one.0.0".into(),
    };
    let (right, why) = golden.judged(&golden.model(ONE), &step(), &mut KvCache::new(1));
    assert!(right, "{why}");
    // Each slip is beyond them.
    for slip in ["mtp_concat=hidden_first", "mtp_first_embedding=kept", "mtp_topology=hf_generic"] {
        let model = golden.model(&format!("{ONE},{slip}"));
        assert!(!golden.judged(&model, &step(), &mut KvCache::new(1)).0, "{slip}");
    }
    let model = golden.model(&format!("{ONE},mtp_hidden=stream"));
    let prompt = &round.tokens[..round.tokens.len() - 1];
    let mut unseen = NoProbe;
    let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
    let pass = model.pass(prompt, &mut KvCache::<f64>::new(4), &mut run).expect("it runs");
    let step = Step { hidden: Tracked::exact(hidden_of_model(&model, &pass).value), ..step() };
    assert!(!golden.judged(&model, &step, &mut KvCache::new(1)).0, "mtp_hidden=stream");
}

/// All drafts, each from the reference's own before, of hidden states of its own.
#[test]
fn the_drafts_are_the_same() {
    let golden = Golden::open();
    for (way, text, count) in [("series", SERIES, 2), ("one", ONE, 3)] {
        let model = golden.model(text);
        let mut drafter = MtpDrafter::<f64>::new(&model, count, RoundingContract::IDEAL).expect("it has modules");
        let mut cache = KvCache::new(4);
        let mut first = 0;
        for (number, round) in golden.rounds(way).into_iter().enumerate() {
            let mut unseen = NoProbe;
            let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
            let until = round.tokens.len() - 1;
            let pass = model.pass(&round.tokens[first..until], &mut cache, &mut run).expect("it runs");
            let says = argmax(pass.logits.value.row(until - first - 1)).expect("a vocabulary").token;
            assert_eq!(says, round.tokens[until]);
            let verified = Verified { text: &round.tokens, first, pass: &pass };
            let mut rng = ChaCha8Rng::seed_from_u64(0);
            let drafts = drafter.draft(&verified, count, &Sampling::Greedy, &mut rng).expect("it runs");
            let drafts: Vec<u32> = drafts.iter().map(|draft| draft.token).collect();
            assert_eq!(drafts, round.drafts, "{way}.{number}");
            first = until;
        }
    }
}
