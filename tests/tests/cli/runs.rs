//! Dumps that transformers writes as people run it: none is blamed, with no flag but `--pixels`.

use std::path::PathBuf;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::golden::Golden;
use serde_json::Value;
use tests::repository;

use super::{case, change_tensor, parity};

/// `parity verify MODEL DUMP` of each dump in `fixtures/golden-runs`, with `--pixels` where the prompt shows something;
/// what is suspicious counts, too.
#[test]
fn right_runs_of_transformers_pass() {
    let runs = repository::path("fixtures/golden-runs");
    let index = std::fs::read_to_string(runs.join("index.json")).expect("it is there");
    let index: Value = serde_json::from_str(&index).expect("it is JSON");
    let dumps = index["dumps"].as_array().expect("a list");
    assert!(dumps.len() >= 14, "{index}");
    for dump in dumps {
        let field = |name: &str| dump[name].as_str().expect("it says so");
        let (case, file) = (case(field("case")), runs.join(field("file")));
        let pixels = case.join("pixels.safetensors");
        let text = |path: &PathBuf| path.to_str().expect("UTF-8").to_owned();
        let mut arguments = vec!["verify".into(), text(&case.join("model")), text(&file)];
        arguments.extend(["--deny".into(), "suspicious".into()]);
        if pixels.exists() {
            arguments.extend(["--pixels".into(), text(&pixels)]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran = parity(&runs, &arguments);
        assert_eq!(ran.code, Some(0), "{dump}: {ran}");
    }
}

/// A reading under which all groups of heads have one choice of blocks: values are of other shapes, on either backend.
#[test]
fn a_run_under_another_reading_is_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = ["run", "m3-gqa4-f32", "--semantics", "documents", "--out", "x.npz"];
    for backend in [&["--backend", "reference"][..], &["--backend", "optimized", "--device", "emulated"]] {
        let ran = parity(folder.path(), &[&run, backend].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        let ran = parity(folder.path(), &["verify", "m3-gqa4-f32", "x.npz"]);
        assert!(ran.code == Some(0) && ran.stdout.contains("semantics  documents"), "{ran}");
    }
}

/// Its dump has each chosen expert's values, of which there is another number under some of the mistakes that are tried.
#[test]
fn a_run_that_is_wrong_before_the_router_is_diagnosed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = ["run", "m2-gqa3-f32", "--precision", "f32", "--out", "x.safetensors"];
    assert_eq!(parity(folder.path(), &run).code, Some(0));
    let norm = "model.layers.1.post_attention_layernorm";
    assert!(change_tensor(&folder.path().join("x.safetensors"), norm, |bytes| bytes[3] ^= 0x80), "it is there");
    let ran = parity(folder.path(), &["diagnose", "m2-gqa3-f32", "x.safetensors"]);
    assert!(ran.code == Some(1) && ran.stdout.contains(norm), "{ran}");
}

/// A dump that says from which tokens it was computed, and whose embeddings are those of the tokens behind these: its model is wrong,
/// and not the prompt that is given.
#[test]
fn rows_of_another_table_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let case = Golden::embedded().case("m2-gqa3-f32").expect("it is built in");
    let ahead: Vec<String> = case.tokens.iter().map(|token| (token + 1).to_string()).collect();
    let run = ["run", "m2-gqa3-f32", "--precision", "f32", "--out", "x.safetensors", "--tokens"];
    let ran = parity(folder.path(), &[&run[..], &[&ahead.join(",")]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let dump = Dump::open(&folder.path().join("x.safetensors")).expect("it was written");
    let manifest = Manifest { tokens: Some(case.tokens.clone()), ..dump.manifest().expect("it has one").clone() };
    let mut writer = DumpWriter::create(&folder.path().join("y.safetensors")).expect("writable");
    dump.names().for_each(|name| writer.write(name, &dump.tensor(name).expect("it is there")).expect("writable"));
    writer.finish(&manifest).expect("writable");
    let ran = parity(folder.path(), &["diagnose", "m2-gqa3-f32", "y.safetensors"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("40 rows are those of the token +1 from theirs"), "{ran}");
}
