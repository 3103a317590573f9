//! `tools/src/judge/profile/evidence.rs`: what little a candidate shows of its precision.

use std::fs;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::{Dtype, Tensor};
use reference::Storage;
use tests::repository;

use crate::cli::parity;

/// Some of what a precision makes, under another of which nothing is known.
pub(super) fn shown_of(case: &str, how: &[&str], is_shown: fn(&str) -> bool, last: bool, path: &Path) {
    let ran = path.with_extension("ran.safetensors");
    let run = [&["run", case, "--out", ran.to_str().expect("a path")], how].concat();
    let done = parity(path.parent().expect("a folder"), &run);
    assert_eq!(done.code, Some(0), "{done}");
    let all = Dump::open(&ran).expect("it was just written");
    let mut writer = DumpWriter::create(path).expect("writable");
    for name in all.names().filter(|name| is_shown(name)) {
        let tensor = all.tensor(name).expect("it is listed");
        let width = *tensor.shape().last().expect("axes");
        let rows = if last { 1 } else { tensor.len() / width };
        let tensor = if matches!(tensor.dtype(), Dtype::F64 | Dtype::F32) {
            let values = tensor.values::<f64>().split_off(tensor.len() - rows * width);
            Tensor::stored(Storage::F32, vec![rows, width], values).expect("its rows")
        } else {
            tensor
        };
        writer.write(name, &tensor).expect("writable");
    }
    writer
        .finish(&Manifest {
            producer: None,
            precision: None,
            semantics: None,
            ..all.manifest().expect("it has one").clone()
        })
        .expect("writable");
}

/// Of logits that are wrong, one or another of the coarse precisions is the nearest: none is taken that does not make them right.
#[test]
fn no_coarse_precision_hides_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let verified = |case: &str| parity(folder.path(), &["verify", case, "dump.safetensors"]);
    let is_logits = |name: &str| name == "logits";
    for (case, how) in [("m2-gqa3-f32", "transformers_f32"), ("m2-f16-weights-f32", "llama_cpp,attention=flash_f16")] {
        shown_of(case, &["--precision", how], is_logits, true, &path);
        assert!(verified(case).stdout.contains("\nPASS"), "{case}: {}", verified(case));
        for wrong in ["score_scale=0.4", "score_scale=0.27"] {
            shown_of(case, &["--precision", how, "--semantics", &format!("released,{wrong}")], is_logits, true, &path);
            let found = verified(case);
            assert!(!found.stdout.contains("\nPASS"), "{case}, {wrong}: {found}");
        }
    }
}

/// Logits of a prompt's last token and of what was decoded behind it, a tensor each: the first pass shows one row.
fn generated(case: &str, tokens: &str, semantics: &str, folder: &Path) {
    let typed = format!("run {case} --tokens {tokens} --precision transformers_f32 --semantics {semantics} --decode 6");
    let run: Vec<&str> = typed.split(' ').chain(["--steps", "--out", "ran.safetensors"]).collect();
    let done = parity(folder, &run);
    assert_eq!(done.code, Some(0), "{done}");
    let all = Dump::open(&folder.join("ran.safetensors")).expect("it was just written");
    let mut writer = DumpWriter::create(&folder.join("dump.safetensors")).expect("writable");
    let steps = (1..).map(|step| format!("step.{step}.logits")).take_while(|name| all.find(name).is_some());
    for (number, name) in std::iter::once("logits".to_owned()).chain(steps).enumerate() {
        let tensor = all.tensor(&name).expect("it is listed");
        let width = *tensor.shape().last().expect("axes");
        let last = tensor.values::<f64>().split_off(tensor.len() - width);
        let row = Tensor::stored(Storage::F32, vec![1, width], last).expect("its row");
        writer.write(&format!("logits.{number}"), &row).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
}

/// Of one row a coarse precision among many chooses the experts that a mistake does; the rows of the passes behind it tell.
#[test]
fn one_row_of_a_generation_is_no_evidence() {
    let (case, tokens) = ("m2-gqa3-f32", "84,125,73,77,123,106,40,31,99,139,48,163,130,89,49,25");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (semantics, verdict) in [("released", "\nPASS"), ("released,score_scale=0.3", "\nFAIL")] {
        generated(case, tokens, semantics, folder.path());
        let found = parity(folder.path(), &["verify", case, "dump.safetensors", "--tokens", tokens]);
        assert!(found.stdout.contains(verdict), "{semantics}: {found}");
    }
}

/// What a router makes is f32, whatever it reads.
#[test]
fn routing_alone_of_a_narrow_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dump.safetensors");
    let is_routing = |name: &str| name.ends_with("mlp.gate.1") || name.ends_with("mlp.gate.2");
    for case in ["m2-sharded-bf16", "m3-sharded-bf16"] {
        shown_of(case, &["--precision", "transformers_bf16"], is_routing, false, &path);
        let found = parity(folder.path(), &["verify", case, "dump.safetensors"]);
        assert!(found.code == Some(0) && found.stdout.contains("transformers_bf16"), "{case}: {found}");
    }
}

/// A copy of a case's model whose routers have weights that bf16 has, too: in f32 and in bf16 they give the same logits.
fn with_routers_in_bf16(case: &str, model: &Path) {
    fs::create_dir(model).expect("writable");
    for file in fs::read_dir(repository::path("fixtures/golden").join(case).join("model")).expect("there") {
        let file = file.expect("readable").path();
        let to = model.join(file.file_name().expect("a name"));
        if file.extension().is_none_or(|ending| ending != "safetensors") {
            fs::copy(&file, to).expect("writable");
            continue;
        }
        let all = Dump::open(&file).expect("it is whole");
        let mut writer = DumpWriter::create(&to).expect("writable");
        for name in all.names() {
            let mut tensor = all.tensor(name).expect("it is listed");
            if name.ends_with("gate.weight") {
                let narrow = tensor.values::<f64>().into_iter().map(|x| Storage::Bf16.nearest(x)).collect::<Vec<_>>();
                tensor = Tensor::stored(Storage::F32, tensor.shape().to_vec(), narrow).expect("as many");
            }
            writer.write(name, &tensor).expect("writable");
        }
        writer.finish(&Manifest::default()).expect("writable");
    }
}

/// A library's sigmoid gives other last bits: a router's weights that have some were computed from the logits that are shown.
#[test]
fn last_bits_of_routing_weights_say_nothing_of_logits() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    with_routers_in_bf16("m2-gqa3-f32", &folder.path().join("model"));
    let tokens = "50,120,70,106,12,24,39,90,73,91,143,61,42,90,91,84,28,80,75,12,118,82,85,102";
    let run = ["run", "model", "--tokens", tokens, "--precision", "transformers_bf16", "--out", "ran.safetensors"];
    assert_eq!(parity(folder.path(), &run).code, Some(0));
    let all = Dump::open(&folder.path().join("ran.safetensors")).expect("it was just written");
    let mut writer = DumpWriter::create(&folder.path().join("dump.safetensors")).expect("writable");
    let is_module = |name: &&str| !["scores", "choice", "hidden", "output"].iter().any(|last| name.ends_with(last));
    for name in all.names().filter(is_module) {
        let mut tensor = all.tensor(name).expect("it is listed");
        if name.ends_with("mlp.gate.1") {
            let next = |(i, x): (usize, f32)| if i % 3 == 0 { f32::from_bits(x.to_bits() + 1) } else { x };
            let values = tensor.values::<f32>().into_iter().enumerate().map(next).map(f64::from).collect::<Vec<_>>();
            tensor = Tensor::stored(Storage::F32, tensor.shape().to_vec(), values).expect("as many");
        }
        writer.write(name, &tensor).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    let found = parity(folder.path(), &["verify", "model", "dump.safetensors", "--tokens", tokens]);
    let is_plain = found.stdout.contains("precision  transformers_bf16 (found");
    assert!(found.stdout.contains("\nPASS") && is_plain, "{found}");
}
