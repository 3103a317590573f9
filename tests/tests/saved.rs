//! Values that were converted to a narrower type when they were saved.

use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};
use ndarray::{Array2, array};
use reference::site::Extent;
use reference::storage::Mode;
use reference::{LayerSite, RoundingContract, Site, Storage, Tracked};
use tests::mistaken::Setting;
use tests::repository;
use tests::seen::{Seen, modules};
use tools::diagnose::catalogue::mistake::{Assumed, Change};
use tools::judge::candidate::Candidate;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use crate::cli::{change_tensor, parity};

/// Which tensors are converted, by name.
type Saved = fn(&str) -> bool;

/// What transformers computed for a built-in case, as someone saves it: of what is kept, some in another type.
fn converted(case: &str, saved: Storage, is_kept: Saved, is_saved: Saved, path: &Path) {
    let case = repository::golden().case(case).expect("it is one of them");
    let expected = case.expected().expect("it is whole");
    let mut writer = DumpWriter::create(path).expect("writable");
    for name in expected.names().filter(|name| is_kept(name)) {
        let tensor = expected.tensor(name).expect("it is listed");
        let values = || tensor.values::<f64>().into_iter().map(|x| saved.nearest(x)).collect::<Vec<f64>>();
        let narrower = match tensor.dtype() {
            Dtype::F32 | Dtype::Bf16 if is_saved(name) => {
                Tensor::stored(saved, tensor.shape().to_vec(), values()).expect("as many")
            }
            _ => tensor,
        };
        writer.write(name, &narrower).expect("writable");
    }
    writer.finish(&Manifest { tokens: Some(case.tokens.clone()), ..Manifest::default() }).expect("writable");
}

/// Nothing of a right run is a fault, or suspicious, under any lens, and that its values were converted is found. No layer strays
/// further than nearly all right ones do: enough that do would be suspicious. Maps of bf16 are not all of f16, which has fewer small
/// numbers, and say how their attention rounds.
#[test]
fn right_values_are_right_as_they_were_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let saves: [(&str, Storage, Storage, Saved); 7] = [
        ("m2-gqa3-f32", Storage::F32, Storage::Bf16, |_| true),
        ("m3-gqa4-f32", Storage::F32, Storage::Bf16, |_| true),
        ("m3-gqa4-f32", Storage::F32, Storage::F16, |_| true),
        ("m2-gqa3-f32", Storage::F32, Storage::F16, |name| name == "logits"),
        ("m2-gqa3-f32", Storage::F32, Storage::Bf16, |name| name.contains("_proj")),
        ("m2-sharded-bf16", Storage::Bf16, Storage::F16, |name| name.ends_with(".self_attn.1")),
        ("m3-sharded-bf16", Storage::Bf16, Storage::F16, |_| true),
    ];
    for (case, computed, saved, is_saved) in saves {
        let path = folder.path().join("dump.safetensors");
        converted(case, saved, |_| true, is_saved, &path);
        let sites = judged(case, (computed, saved), &path);
        assert!(sites.len() > 30, "{case}: {} sites", sites.len());
        assert_eq!(wrong(&sites), Vec::<&SiteReport>::new(), "{case} in {saved}");
        let is_far = |report: &&SiteReport| report.lens == Lens::Layer && report.quantile.is_some_and(|q| q > 0.995);
        assert_eq!(sites.iter().find(is_far), None, "{case} in {saved}");
    }
}

/// A run in f32 of which one token's stream is wrong is no run in f64, by which sums everywhere are others by their last bit.
#[test]
fn one_wrong_row_makes_no_run_in_f64() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    converted("m2-gqa3-f32", Storage::F32, |_| true, |_| false, &path);
    let model = Model { case: None, ..Model::open("m2-gqa3-f32").expect("it is built in") };
    let precision = || {
        let dumped = Dumped::of(Dump::open(&path).expect("it is there"), &Given::default(), &model);
        dumped.expect("its rows are known")[0].known.contract
    };
    let right = precision();
    let of_one_token = |bytes: &mut [u8]| {
        let width = 4 * model.checkpoint.config().hidden_size;
        let (one, other) = bytes[4 * width..6 * width].split_at_mut(width);
        one.copy_from_slice(other);
    };
    assert!(change_tensor(&path, "model.layers.0", of_one_token), "it is there");
    assert_eq!((precision(), right.activations), (right, Storage::F32));
}

/// Layers' outputs alone, to have smaller files.
#[test]
fn a_stream_in_a_narrower_type_is_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let is_output = |name: &str| name.strip_prefix("model.layers.").is_some_and(|rest| !rest.contains('.'));
    for saved in [Storage::F16, Storage::Bf16] {
        converted("m2-gqa3-f32", saved, |_| true, is_output, &path);
        let sites = judged("m2-gqa3-f32", (Storage::F32, saved), &path);
        assert!(sites.len() > 30, "{} sites", sites.len());
        assert_eq!(wrong(&sites), Vec::<&SiteReport>::new(), "{saved}");
    }
}

/// A run in bf16 whose values a hook made f16, and whoever saved them f32 again: the small ones are no longer what they were.
#[test]
fn values_that_went_through_f16_are_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    for case in ["m2-sharded-bf16", "m3-sharded-bf16"] {
        let setting = Setting::of(case, RoundingContract::EAGER_BF16);
        let expected = setting.case.expected().expect("it is whole");
        save(&setting, &expected, |x| Storage::F16.nearest(x), Storage::F32, &path);
        let sites = judged(case, (Storage::Bf16, Storage::F16), &path);
        assert!(sites.len() > 20, "{case}: {} sites", sites.len());
        assert_eq!(wrong(&sites), Vec::<&SiteReport>::new(), "{case}");
    }
}

/// A run in f16, as someone saves it in bf16; and in f64, as it is or in f32: by transformers, whose norms are in f32, or by equations.
#[test]
fn a_wider_type_is_found_behind_what_is_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let f64_in_f32 = (Storage::Real, Storage::F32);
    for (case, precision, (computed, saved)) in [
        ("m2-gqa3-f32", "transformers_f16", (Storage::F16, Storage::Bf16)),
        ("m2-gqa3-f32", "transformers_f64", f64_in_f32),
        ("m2-sharded-bf16", "ideal", f64_in_f32),
        ("m3-gqa4-f32", "ideal", f64_in_f32),
        ("m3-gqa4-f32", "ideal", (Storage::Real, Storage::Real)),
    ] {
        run_and_saved(case, &["--precision", precision], saved, &path);
        let saved = if saved == computed { Storage::Real } else { saved };
        let sites = judged(case, (computed, saved), &path);
        assert!(sites.len() > 20, "{case}: {} sites", sites.len());
        assert_eq!(wrong(&sites), Vec::<&SiteReport>::new(), "{case}, {precision} in {saved}");
    }
}

/// What attention and networks add, saved in bf16: the stream between is known by these alone, and blocks of keys were chosen by what it
/// was before.
#[test]
fn choices_behind_a_stream_of_which_parts_were_saved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tokens: Vec<u32> = (0..80).map(|i| (i * i * 7 + i * 3) % 128).collect();
    let text = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let how = ["--precision", "transformers_f32", "--tokens", &text, "--out", "ran.safetensors"];
    let run = parity(folder.path(), &[&["run", "m3-gqa4-f32"][..], &how].concat());
    assert_eq!(run.code, Some(0), "{run}");
    let ran = Dump::open(&folder.path().join("ran.safetensors")).expect("it was just written");
    let mut writer = DumpWriter::create(&folder.path().join("dump.safetensors")).expect("writable");
    let is_added = |name: &&str| matches!(name.parse(), Ok(Site::Layer(_, LayerSite::Attention | LayerSite::Mlp)));
    for name in ran.names().filter(is_added) {
        let tensor = ran.tensor(name).expect("it is listed");
        let values = tensor.values::<f64>().into_iter().map(|x| Storage::Bf16.nearest(x)).collect::<Vec<f64>>();
        let saved = Tensor::stored(Storage::Bf16, tensor.shape().to_vec(), values).expect("as many");
        writer.write(name, &saved).expect("writable");
    }
    writer.finish(&Manifest { tokens: Some(tokens), ..Manifest::default() }).expect("writable");
    let verified = parity(folder.path(), &["verify", "m3-gqa4-f32", "dump.safetensors", "--tokens", &text]);
    assert_eq!(verified.code, Some(0), "{verified}");
}

/// A run in f32 is none in f64, not even where a factor of the residual stream is another.
#[test]
fn no_wider_type_is_found_behind_other_sums() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let any = setting.mistakes().into_iter().next().expect("there is one");
    let alpha = Assumed { change: Change::Reading("attention_alpha", "1.00001".into()), layers: None, ..any };
    for mistakes in [vec![], vec![alpha]] {
        let live = setting.with(&mistakes);
        let tokens = setting.case.tokens.len();
        let (checkpoint, extent) = (setting.case.checkpoint().expect("it is whole"), Extent::new(tokens, tokens));
        let mut writer = DumpWriter::create(&path).expect("writable");
        for at in module_outputs(&setting).into_iter().filter(|at| live.has(*at)) {
            let values = live.matrix(at, extent).expect("it is kept");
            let shape = at.site.shape(checkpoint.config(), extent);
            let tensor = Tensor::stored(Storage::F32, shape, values).expect("as many");
            writer.write(&at.to_string(), &tensor).expect("writable");
        }
        finish(writer, &setting);
        let sites = judged("m2-gqa3-f32", (Storage::F32, Storage::Real), &path);
        assert_eq!(wrong(&sites).is_empty(), mistakes.is_empty());
    }
}

/// What modules give in a run of a case, as someone saves it who says nothing of it but its tokens.
pub(super) fn run_and_saved(case: &str, how: &[&str], saved: Storage, path: &Path) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = parity(folder.path(), &[&["run", case, "--out", "ran.safetensors"], how].concat());
    assert_eq!(run.code, Some(0), "{run}");
    let shown = Dump::open(&folder.path().join("ran.safetensors")).expect("it was just written");
    save(&Setting::of(case, RoundingContract::IDEAL), &shown, |x| saved.nearest(x), saved, path);
}

/// What modules give in a dump, each value as `of` makes it, and its tokens.
fn save(setting: &Setting, shown: &Dump, of: impl Fn(f64) -> f64, stored: Storage, path: &Path) {
    let mut writer = DumpWriter::create(path).expect("writable");
    for at in module_outputs(setting) {
        let name = at.to_string();
        let Ok(tensor) = shown.tensor(&name) else { continue };
        let values = tensor.values::<f64>().into_iter().map(&of).collect::<Vec<f64>>();
        let tensor = Tensor::stored(stored, tensor.shape().to_vec(), values).expect("as many");
        writer.write(&name, &tensor).expect("writable");
    }
    finish(writer, setting);
}

/// What modules give, but for choices.
fn module_outputs(setting: &Setting) -> Vec<At> {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let shown = Site::all(checkpoint.config()).filter(|site| modules(*site) && !site.is_choice());
    shown.map(|site| At { step: 0, site }).collect()
}

fn finish(writer: DumpWriter, setting: &Setting) {
    writer.finish(&Manifest { tokens: Some(setting.case.tokens.clone()), ..Manifest::default() }).expect("writable");
}

/// The reports of a dump, under every lens, of which it is found what it was computed and saved in.
fn judged(case: &str, (computed, saved): (Storage, Storage), path: &Path) -> Vec<SiteReport> {
    let model = Model { case: None, ..Model::open(case).expect("it is built in") };
    let requests = Dumped::of(Dump::open(path).expect("it was just written"), &Given::default(), &model);
    let [dumped] = &requests.expect("its rows are known")[..] else { panic!("one request") };
    let RoundingContract { activations, saved: found, .. } = dumped.known.contract;
    assert_eq!((activations, found), (computed, saved), "{case}: {}", dumped.known.from);
    let comparison = dumped.comparison(&model);
    let layers = 0..model.checkpoint.config().num_hidden_layers;
    let lenses = [Lens::Local, Lens::Layer, Lens::Global];
    let reference = comparison.model().expect("it fits");
    comparison.verification(&reference, &lenses, layers).run(|| ()).expect("it runs").sites
}

fn wrong(sites: &[SiteReport]) -> Vec<&SiteReport> {
    sites.iter().filter(|report| matches!(report.verdict, Verdict::Fault | Verdict::Suspicious)).collect()
}

/// Whether a name is that of a residual stream, or of what goes into the first layer.
fn is_stream(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last == "embed_tokens"
        || last.bytes().all(|byte| byte.is_ascii_digit()) && name.rsplit('.').nth(1) == Some("layers")
}

/// Where a layer's input is known to half a step, its scores are known to what follows from that, and choices of nearly equal
/// scores may be others: nothing of it is a fault.
#[test]
fn choices_within_a_layer_may_be_those_of_what_was_there_before() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for case in ["m3-local2-long-f32", "m2-mqa-top8-long-f32"] {
        let path = folder.path().join("dump.safetensors");
        converted(case, Storage::Bf16, is_stream, |_| true, &path);
        let sites = judged(case, (Storage::F32, Storage::Bf16), &path);
        assert_eq!(wrong(&sites), Vec::<&SiteReport>::new(), "{case}");
    }
}

/// What is wrong is named through the conversion.
#[test]
fn mistakes_are_named_through_it() {
    for (name, saved) in [("no_renorm", Storage::F16), ("rope_interleaved", Storage::Bf16)] {
        let contract = RoundingContract { saved, ..RoundingContract::EAGER_F32 };
        let setting = Setting::of("m2-gqa3-f32", contract);
        let live = setting.with(&[setting.mistake(name)]);
        let value = |_: Site, value: Array2<f64>| value.mapv(|x| saved.nearest(x));
        let diagnosis = setting.diagnose(&Seen { live: &live, shows: modules, value });
        let named: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
        assert_eq!((named, diagnosis.left), (vec![name], 0), "{diagnosis:#?}");
    }
}

/// Half a step of f16 at 1, at 1.5 and at 0, and what is drawn is within it.
#[test]
fn what_a_value_was_lies_within_half_a_step() {
    let values = array![[1.0, -1.5, 0.0]];
    let before = |mode| Tracked::before_saved(values.clone(), Storage::F16, mode);
    let error = before(Mode::Nearest).error.expect("it is bounded");
    let half = [f64::powi(2.0, -11), f64::powi(2.0, -11), f64::powi(2.0, -25)];
    assert_eq!(error.certain, array![half]);
    let drawn: Vec<Tracked<f64>> = (0..64).map(|seed| before(Mode::Stochastic(seed))).collect();
    for (column, half) in half.into_iter().enumerate() {
        let off = drawn.iter().map(|drawn| drawn.value[[0, column]] - values[[0, column]]);
        let (least, most) = off.fold((f64::MAX, f64::MIN), |(least, most), off| (least.min(off), most.max(off)));
        assert!((-half..-half / 2.0).contains(&least) && (half / 2.0..half).contains(&most), "{least:e} {most:e}");
    }
}
