//! `parity op`: an operator alone.

use std::path::{Path, PathBuf};

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use reference::Storage;
use tests::repository;
use tools::op::list::OPERATORS;

use super::{assert_refused, parity};

fn golden(name: &str) -> PathBuf {
    repository::path(&format!("fixtures/golden-operators/{name}.safetensors"))
}

/// A copy of a file, with values of one tensor changed.
fn changed(name: &str, tensor: &str, to: &Path, change: impl Fn(&mut [f64])) {
    let dump = Dump::open(&golden(name)).expect("it is kept");
    let mut writer = DumpWriter::create(to).expect("writable");
    for name in dump.names() {
        let own = dump.tensor(name).expect("it is there");
        let mut values = own.values::<f64>();
        if name == tensor {
            change(&mut values);
        }
        let stored = Tensor::stored(Storage::F32, own.shape().to_vec(), values).expect("as many");
        writer.write(name, &stored).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
}

#[test]
fn what_transformers_makes_is_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (operator, file) in [
        ("lightning_attention", "lightning_attention"),
        ("lightning_attention", "lightning_attention_decoded"),
        ("load_balancing", "load_balancing"),
        ("load_balancing", "load_balancing_masked"),
    ] {
        let path = golden(file);
        let ran = parity(folder.path(), &["op", operator, &path.to_string_lossy(), "--json", "-"]);
        assert_eq!(ran.code, Some(0), "{ran}");
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
        // Not because the bound allows anything: the worst value uses a part of it that can be seen.
        let ratio = json[0]["worst"]["ratio"].as_f64().expect("a number");
        assert!(json[0]["faults"] == 0 && (1e-4..1.0).contains(&ratio), "{file}: {json}");
    }
}

#[test]
fn a_wrong_number_and_a_wrong_value_are_faults() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = golden("lightning_attention");
    let of_another_layer =
        parity(folder.path(), &["op", "lightning_attention", &path.to_string_lossy(), "--set", "layer=2"]);
    assert_eq!(of_another_layer.code, Some(1), "{of_another_layer}");
    let copy = folder.path().join("copy.safetensors");
    changed("lightning_attention", "o", &copy, |values| values[25] *= 1.01);
    let ran = parity(folder.path(), &["op", "lightning_attention", "copy.safetensors"]);
    assert!(ran.code == Some(1) && ran.stdout.contains("[1, 1]") && ran.stdout.contains("FAIL"), "{ran}");
    changed("load_balancing", "loss", &copy, |values| values[0] *= 1.001);
    assert_eq!(parity(folder.path(), &["op", "load_balancing", "copy.safetensors"]).code, Some(1));
}

/// What the reference writes is exact when it is read again, for every operator that reads random inputs of these shapes.
#[test]
fn the_reference_agrees_with_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (n, d) = (5, 12);
    let shape_of = |name: &str| match name {
        "w" | "b" | "bias" => vec![d],
        "gate" => vec![d, d],
        "new" | "old" | "advantages" => vec![n],
        _ => vec![n, d],
    };
    for operator in OPERATORS.iter().map(|operator| &operator.signature) {
        let inputs = folder.path().join("inputs.safetensors");
        let mut writer = DumpWriter::create(&inputs).expect("writable");
        for (place, (name, _)) in operator.inputs.iter().enumerate() {
            let optional = (operator.name, *name);
            if optional == ("router", "logits") || optional == ("linear", "b") {
                continue;
            }
            let shape = if optional == ("linear", "w") { vec![3, d] } else { shape_of(name) };
            let count: usize = shape.iter().product();
            let values = (0..count).map(|i| ((i * 37 + place * 11 + 5) % 64) as f64 / 16.0 - 2.0);
            writer.write(name, &Tensor::stored(Storage::F32, shape, values).expect("as many")).expect("writable");
        }
        writer.finish(&Manifest::default()).expect("writable");
        let mut numbers: Vec<String> = operator
            .numbers
            .iter()
            .filter(|(_, default, _)| default.is_none())
            .map(|(name, ..)| format!("{name}={}", if *name == "top_k" { 3 } else { 2 }))
            .collect();
        if operator.name == "rope" {
            numbers.extend(["head_dim=6".to_owned(), "rotary_dim=4".to_owned()]);
        }
        let numbers: Vec<&str> = numbers.iter().flat_map(|number| ["--set", number]).collect();
        let ran = parity(
            folder.path(),
            &[&["op", operator.name, "inputs.safetensors", "--out", "made.safetensors"], &numbers[..]].concat(),
        );
        assert_eq!(ran.code, Some(0), "{}: {ran}", operator.name);
        let (made, inputs) = (folder.path().join("made.safetensors"), Dump::open(&inputs).expect("it was written"));
        let made = Dump::open(&made).expect("it was written");
        let mut both = DumpWriter::create(&folder.path().join("both.safetensors")).expect("writable");
        for dump in [&inputs, &made] {
            for name in dump.names() {
                both.write(name, &dump.tensor(name).expect("it is there")).expect("writable");
            }
        }
        both.finish(&Manifest::default()).expect("writable");
        let ran = parity(folder.path(), &[&["op", operator.name, "both.safetensors"], &numbers[..]].concat());
        assert!(ran.code == Some(0) && operator.outputs.iter().all(|(name, _)| ran.stdout.contains(name)), "{ran}");
    }
}

#[test]
fn what_is_lacking_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = golden("lightning_attention").to_string_lossy().into_owned();
    let refused = |arguments: &[&str], words: &[&str]| assert_refused(&parity(folder.path(), arguments), words);
    refused(&["op", "lightning"], &["\"lightning\" is no operator, expected one of rms_norm,"]);
    refused(&["op", "rms_norm"], &["rms_norm: no file of its inputs is given", "x […, d], w [d]"]);
    refused(&["op", "rms_norm", &path], &["expected only x, w, y"]);
    refused(
        &["op", "lightning_attention", &path, "--set", "eps=1"],
        &["\"eps\" is no number of lightning_attention, expected heads, layer"],
    );
    refused(&["op", "lightning_attention", &path, "--set", "layer=one"], &["\"one\" is no number"]);
    refused(&["op", "lightning_attention", &path, "--set", "heads=5"], &["lightning_attention C2"]);
    refused(&["op", "lightning_attention", "none.npz"], &["none.npz"]);
    let listed = parity(folder.path(), &["op"]);
    assert!(
        listed.code == Some(0) && OPERATORS.iter().all(|operator| listed.stdout.contains(operator.signature.name)),
        "{listed}"
    );
}
