//! `tools/src/judge/profile.rs` and `tools/src/judge/recover.rs`: what a candidate does not say of itself, found in its values.

mod evidence;
mod head;
mod logits;
mod tf32;

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::checkpoint::held::HeldWeights;
use fixtures::{Dtype, Tensor};
use ndarray::{Array1, Array2};
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::profiles::PROFILES;
use reference::rounding::GateRound;
use reference::run::Run;
use reference::semantics::MsaPool;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Semantics, Site, Storage, Tracked};
use tests::memory::{Memory, tiny, tiny_m3};
use tests::mistaken::{Setting, computed};
use tests::seen::Seen;
use tools::judge::agreement::Agreement;
use tools::judge::candidate::Live;
use tools::judge::compared::Compared;
use tools::judge::lens::Lens;
use tools::judge::profile::{FoundPrecision, Sought, find};
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use crate::cli::parity;
use crate::saved::run_and_saved;

const TEXT: [u32; 12] = [5, 9, 2, 33, 17, 21, 4, 11, 38, 0, 26, 8];

/// Every documented mode of every profile that stores activations in 16 bits, one point at a time, and none twice.
fn documented() -> impl Iterator<Item = RoundingContract> {
    let is_narrow = |storage| matches!(storage, Storage::Bf16 | Storage::F16);
    let mut seen = HashSet::new();
    let narrow = PROFILES.iter().filter(move |profile| is_narrow(profile.contract.activations));
    let all = narrow.flat_map(|profile| {
        let other = profile.modes.iter().copied().flatten();
        let other = other.map(|way| profile.contract.in_way(way).expect("a profile's fields"));
        std::iter::once(profile.contract).chain(other)
    });
    all.filter(move |contract| seen.insert(*contract))
}

/// The precision that is found for a candidate, among those of an engine where one is named.
fn found(config: &Config, weights: &Memory, live: &Live, stored: Storage, engine: Option<&str>) -> FoundPrecision {
    sought_in(config, weights, live, Sought { engine, ..Sought::of(stored) })
}

/// The same, of which more is known.
fn sought_in(config: &Config, weights: &Memory, live: &Live, sought: Sought<'_>) -> FoundPrecision {
    let compared = Compared {
        config,
        weights,
        semantics: Semantics::RELEASED,
        candidate: live,
        steps: &[TEXT.to_vec()],
        prompt: TEXT.len(),
        media: None,
        hidden: None,
    };
    find(&compared, &sought).expect("it runs").expect("there are profiles")
}

/// What is found computes what was computed, though two precisions may be one for a model: M3's norms round once in all. Every
/// second of them is M2's run.
#[test]
fn the_precision_of_a_run_is_found() {
    let models = [tiny(), tiny_m3()].map(|config| (Memory::random(&config, 3), config));
    for (contract, (memory, config)) in documented().zip(models.iter().cycle()) {
        let run = |contract: RoundingContract| {
            let weights = HeldWeights::under(&contract, config.norm_weight, memory);
            let model = Decoder::new(config, Semantics::RELEASED, &weights).expect("it fits");
            computed(&model, &TEXT, contract)
        };
        let live = run(contract);
        let sought = Sought { stream: contract.stream, ..Sought::of(contract.activations) };
        let found = sought_in(config, memory, &live, sought);
        assert_eq!(run(found.contract), live, "{contract}: found {}", found.contract);
    }
}

/// Tensor cores that take f32 as TF32 round operands alone, of experts and the router, too.
#[test]
fn products_of_tf32_are_found_in_f32() {
    let contract: RoundingContract = "transformers_tf32".parse().expect("a profile");
    for config in [tiny(), tiny_m3()] {
        let memory = Memory::random(&config, 3);
        let weights = HeldWeights::under(&contract, config.norm_weight, &memory);
        let model = Decoder::new(&config, Semantics::RELEASED, &weights).expect("it fits");
        for contract in [contract, contract.in_way("attention=eager").expect("a mode")] {
            let live = computed(&model, &TEXT, contract);
            let found = found(&config, &memory, &live, Storage::F32, None);
            assert_eq!((found.contract, found.profile), (contract, "transformers_tf32"));
        }
    }
}

/// Keys and values alone of half precision.
#[test]
fn a_narrow_cache_is_found_in_f32() {
    for config in [tiny(), tiny_m3()] {
        let memory = Memory::random(&config, 3);
        for way in ["kv_cache=f16", "kv_cache=bf16"] {
            let contract =
                "transformers_f32".parse::<RoundingContract>().expect("a profile").in_way(way).expect("a field");
            let weights = HeldWeights::under(&contract, config.norm_weight, &memory);
            let model = Decoder::new(&config, Semantics::RELEASED, &weights).expect("it fits");
            let found = found(&config, &memory, &computed(&model, &TEXT, contract), Storage::F32, None);
            assert_eq!((found.contract, found.profile), (contract, "port_f32"));
        }
    }
}

/// Choices of blocks by another pooling, of which modules show no score: within what roundings can do at most, many are no fault. Of a
/// right implementation none is suspicious.
#[test]
fn choices_that_the_twin_does_not_make_are_suspicious() {
    let setting = Setting::of("m3-sharded-bf16", RoundingContract::EAGER_BF16);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let (config, contract) = (checkpoint.config(), setting.contract);
    let weights = HeldWeights::under(&contract, config.norm_weight, &checkpoint);
    let model = Decoder::new(config, Semantics::RELEASED, &weights).expect("it fits");
    let is_hidden = |site: &LayerSite| {
        use LayerSite::{BlockMax, BlockScore, IndexKRope, IndexQRope, TokenScores};
        matches!(site, BlockMax | BlockScore | IndexKRope | IndexQRope | TokenScores)
    };
    let shows = |site: Site| !matches!(site, Site::Layer(_, site) if is_hidden(&site));
    let mut suspicious = 0;
    for seed in 0..8 {
        let text: Vec<u32> = (0..56).map(|i| (i * i * 7 + i * (seed + 3) + seed) % 300).collect();
        for msa_pool in [MsaPool::Max, MsaPool::Lse] {
            let other = Semantics { msa_pool, ..Semantics::RELEASED };
            let other = Decoder::new(config, other, &weights).expect("it fits");
            let live = computed(&other, &text, contract);
            let verification = Verification {
                model: &model,
                candidate: &Seen { live: &live, shows, value: |_, value| value },
                contract,
                steps: std::slice::from_ref(&text),
                prompt: text.len(),
                lenses: &[Lens::Local],
                layers: 0..config.num_hidden_layers,
                keep: None,
            };
            let found = verification.run(|| ()).expect("it runs").sites;
            for report in found.iter().filter(|report| matches!(report.site, Site::Layer(_, LayerSite::Blocks))) {
                let is_right = msa_pool == MsaPool::Max;
                assert!(!is_right || report.verdict < Verdict::Suspicious, "seed {seed}: {report:#?}");
                suspicious += usize::from(report.verdict == Verdict::Suspicious);
            }
        }
    }
    assert!(suspicious > 0, "no bound covers all that is wrong");
}

/// Nothing is found among profiles of another engine than the one that the manifest names.
#[test]
fn the_engine_that_a_manifest_names_is_believed() {
    let (config, contract) = (tiny(), "vllm_bf16".parse().expect("a profile"));
    let memory = Memory::random(&config, 3);
    let weights = HeldWeights::under(&contract, config.norm_weight, &memory);
    let live = computed(&Decoder::new(&config, Semantics::RELEASED, &weights).expect("it fits"), &TEXT, contract);
    let among = |engine| found(&config, &memory, &live, Storage::Bf16, Some(engine));
    assert_eq!(among("{\"library\": \"vllm\"}").profile, "vllm_bf16");
    let other = among("{\"library\": \"transformers\"}");
    assert_eq!(other.profile, "transformers_bf16");
    assert!(other.share < among("vllm").share, "{other:?}");
}

/// The reference, but that in layer 0 it chooses the second of two experts where the first is as good, or a worse one.
struct Exchanging {
    live: Live,
    exchanged: [usize; 2],
    changed: bool,
}

impl Probe<f32> for Exchanging {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        self.live.value(site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        let [one, other] = self.exchanged;
        let here = site == Site::Layer(0, LayerSite::GateExperts);
        for mut row in chosen.rows_mut().into_iter().filter(|_| here) {
            let experts: BTreeSet<usize> = row.iter().copied().collect();
            if experts.contains(&one) && !experts.contains(&other) {
                row.mapv_inplace(|expert| if expert == one { other } else { expert });
                self.changed = true;
            }
        }
        Capture::choices(&mut self.live, site, chosen.clone());
    }
}

/// The worst verdict on a candidate that exchanges two experts and shows neither router nor choice; `None` where no token
/// chose the one without the other, so that nothing was exchanged.
fn exchanging(exchanged: [usize; 2]) -> Option<Verdict> {
    let contract = RoundingContract { gate: GateRound::Activations, ..RoundingContract::EAGER_BF16 };
    let config = tiny();
    let mut memory = Memory::random(&config, 3);
    // Experts 2 and 5 score alike, whatever the token.
    let gate = Weight::Layer(0, LayerWeight::Gate);
    let mut rows = memory.dense(gate);
    let row: Array1<f64> = rows.row(2).to_owned();
    rows.row_mut(5).assign(&row);
    memory.set(gate, &rows);
    let bias = Weight::Layer(0, LayerWeight::CorrectionBias);
    let mut biases = memory.dense(bias);
    biases[[0, 5]] = biases[[0, 2]];
    memory.set(bias, &biases);
    let weights = HeldWeights::under(&contract, config.norm_weight, &memory);
    let model = Decoder::new(&config, Semantics::RELEASED, &weights).expect("it fits");
    let mut probe = Exchanging { live: Live::default(), exchanged, changed: false };
    let mut cache = KvCache::new(config.num_hidden_layers);
    model.forward(&TEXT, &mut cache, &mut Run::<f32>::new(contract, &mut probe)).expect("it runs");
    let shows = |site: Site| {
        use LayerSite::{Attention, InputNorm, Mlp, Output, PostAttentionNorm};
        !matches!(site, Site::Layer(..))
            || matches!(site, Site::Layer(_, InputNorm | Attention | PostAttentionNorm | Mlp | Output))
    };
    let seen = Seen { live: &probe.live, shows, value: |_, value| value };
    let verification = Verification {
        model: &model,
        candidate: &seen,
        contract,
        steps: &[TEXT.to_vec()],
        prompt: TEXT.len(),
        lenses: &[Lens::Local, Lens::Layer, Lens::Global],
        layers: 0..config.num_hidden_layers,
        keep: None,
    };
    let sites = verification.run(|| ()).expect("it runs").sites;
    probe.changed.then(|| sites.into_iter().map(|report| report.verdict).max().expect("something is compared"))
}

/// Which of two experts of equal scores was chosen shows in what was made of them, though the choice itself is not shown.
#[test]
fn a_tie_that_is_not_shown_is_recovered_from_the_values() {
    assert!(exchanging([2, 5]).expect("one of the two is chosen") <= Verdict::Tie);
}

/// No error of scores explains an expert that scores clearly less.
#[test]
fn a_wrong_choice_that_is_not_shown_is_a_fault() {
    let others: Vec<Verdict> =
        (0..8).filter(|other| ![2, 5].contains(other)).filter_map(|other| exchanging([2, other])).collect();
    assert!(others.len() >= 5 && others.iter().all(|verdict| *verdict == Verdict::Fault), "{others:?}");
}

/// What transformers made in bf16, of which logits alone are shown, and the model.
fn logits_by_transformers(folder: &Path) -> (Model, Dump) {
    let path = folder.join("dump.safetensors");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden-runs/m2-gqa3-f32/bf16-right.safetensors");
    let whole = Dump::open(Path::new(golden)).expect("it is kept");
    let mut writer = DumpWriter::create(&path).expect("writable");
    writer.write("logits", &whole.tensor("logits").expect("it is there")).expect("writable");
    let manifest = Manifest { producer: None, ..whole.manifest().expect("it has one").clone() };
    writer.finish(&manifest).expect("writable");
    let model = Model { case: None, ..Model::open("m2-gqa3-f32").expect("it is built in") };
    (model, Dump::open(&path).expect("it was just written"))
}

/// A dump by transformers that shows logits alone: its precision is found in them, and is not taken for another.
#[test]
fn the_precision_of_logits_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model, dump) = logits_by_transformers(folder.path());
    for dumped in Dumped::of(dump, &Given::default(), &model).expect("its rows are known") {
        assert!(dumped.known.from.starts_with("found"), "{}", dumped.known.from);
        assert_eq!(dumped.known.contract.gate, GateRound::Activations);
    }
}

/// What equals its twin in every bit is what a right implementation computes, however rarely roundings add up so.
#[test]
fn nothing_is_suspicious_of_the_twin_itself() {
    let missing = SiteReport::missing(0, Site::FinalNorm, Lens::Local);
    let suspicious = SiteReport { verdict: Verdict::Suspicious, suspicious: 1, ..missing };
    for (equal, expected) in [(8, (Verdict::Within, 0)), (7, (Verdict::Suspicious, 1))] {
        let mut report = suspicious.clone();
        report.stands_to_twin(Some(Agreement {
            count: 8,
            equal,
            bits: 1.0,
            unequal_expected: 0.0,
            bits_expected: 0.0,
        }));
        assert_eq!((report.verdict, report.suspicious), expected);
    }
}

/// What is said of a dump of two tokens of M2 that is refused.
fn refused(tensors: &[(&str, Tensor<'_>)]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let mut writer = DumpWriter::create(&path).expect("writable");
    for (name, tensor) in tensors {
        writer.write(name, tensor).expect("writable");
    }
    writer.finish(&Manifest { tokens: Some(vec![1, 2]), ..Manifest::default() }).expect("writable");
    let model = Model { case: None, ..Model::open("m2-gqa3-f32").expect("it is built in") };
    let dump = Dump::open(&path).expect("it was just written");
    Dumped::of(dump, &Given::default(), &model).expect_err("nobody knows what was rounded").to_string()
}

/// Products are in a narrow type, and norms are not, and nothing makes such values of these norms.
#[test]
fn products_of_another_type_that_nothing_explains_are_refused() {
    let config = Model::open("m2-gqa3-f32").expect("it is built in").checkpoint.config().clone();
    let stored =
        |storage, width| Tensor::stored(storage, vec![1, 2, width], vec![1.234_567_8; 2 * width]).expect("it fits");
    let norm = ("model.layers.0.input_layernorm", stored(Storage::F32, config.hidden_size));
    let heads = config.num_attention_heads * config.head_dim;
    let unsaid = refused(&[norm, ("model.layers.0.self_attn.q_proj", stored(Storage::Bf16, heads))]);
    assert!(unsaid.starts_with("products are stored in bf16, norms"), "{unsaid}");
}

#[test]
fn a_dump_in_eight_bits_is_refused() {
    let width = Model::open("m2-gqa3-f32").expect("it is built in").checkpoint.config().hidden_size;
    for dtype in [Dtype::F8E4m3, Dtype::F8E5m2] {
        let norm = Tensor::new(dtype, [1, 2, width], vec![0x3c; 2 * width]).expect("a byte each");
        let said = refused(&[("model.layers.0.input_layernorm", norm)]);
        assert!(said.starts_with("activations are saved in 8 bits at 1 of 1 sites"), "{said}");
    }
}

/// While its precision was sought, a mistake was in the values: once that is known, it is another, and what that rounds is no second
/// mistake.
#[test]
fn a_precision_that_a_mistake_hides_is_found_behind_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let eager = "transformers_bf16,attention=eager";
    let how = ["--semantics", "released,query_channels=8", "--precision", eager];
    run_and_saved("m2-sharded-bf16", &how, Storage::Bf16, &folder.path().join("dump.safetensors"));
    let ran = parity(folder.path(), &["diagnose", "m2-sharded-bf16", "dump.safetensors"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("scores_of_fewer_channels (query_channels=8)"), "{ran}");
    assert!(ran.stdout.contains("(100.0 %), without it") && ran.stdout.ends_with("is left unexplained\n"), "{ran}");
    assert!(!ran.stdout.contains("softmax_bf16"), "{ran}");
}

/// A router, or a residual stream, in f32 where all else is bf16: as computed, of which layers alone are shown, or all saved in bf16.
#[test]
fn what_is_wider_than_all_else_is_found_as_it_was_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let of_layers = |case: &str, how: &str| {
        let ran = folder.path().join("ran.safetensors");
        let run = ["run", case, "--precision", how, "--out", ran.to_str().expect("a path")];
        assert_eq!(parity(folder.path(), &run).code, Some(0));
        let all = Dump::open(&ran).expect("it was just written");
        let mut writer = DumpWriter::create(&path).expect("writable");
        let is_stream = |name: &&str| matches!(name.parse(), Ok(Site::Layer(_, LayerSite::Output) | Site::Embedding));
        for name in all.names().filter(is_stream) {
            writer.write(name, &all.tensor(name).expect("it is listed")).expect("writable");
        }
        writer.finish(&Manifest { producer: None, precision: None, ..all.manifest().expect("it has one").clone() })
    };
    for case in ["m2-sharded-bf16", "m3-sharded-bf16"] {
        let verified = |how: &str| {
            let verified = parity(folder.path(), &["verify", case, "dump.safetensors"]);
            assert!(verified.code == Some(0) && !verified.stdout.contains("SUSPICIOUS"), "{case}, {how}: {verified}");
            verified.stdout
        };
        let found = |how: &str| {
            let verified = verified(how);
            assert!(verified.contains(&format!("{how} (found: ")), "{case}, {how}: {verified}");
        };
        for how in ["transformers_bf16,gate=stored", "f32_residual_bf16"] {
            run_and_saved(case, &["--precision", how], Storage::Bf16, &path);
            found(&format!("{how},saved=bf16"));
        }
        // Of weights that are cast, the logits are the same as of a router in bf16; what follows them is not.
        run_and_saved(case, &["--precision", "vllm_bf16"], Storage::Bf16, &path);
        let verified = verified("vllm_bf16");
        assert!(verified.contains(",saved=bf16 (found: "), "{case}: {verified}");
        of_layers(case, "f32_residual_bf16").expect("writable");
        found("f32_residual_bf16");
    }
}
