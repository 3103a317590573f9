//! What was compared of a model, what must be, and what counts as a fault.

use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;

use super::{Ran, assert_refused, case, parity};

const CASE: &str = "m2-gqa3-f32";

/// Verifies those values of a case that are named so.
fn verify(keep: impl Fn(&str) -> bool, options: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = Dump::open(&case(CASE).join("expected.safetensors")).expect("readable");
    let mut writer = DumpWriter::create(&folder.path().join("dump.safetensors")).expect("writable");
    for tensor in dump.tensors().filter(|tensor| keep(tensor.name)) {
        writer.write(tensor.name, &dump.tensor(tensor.name).expect("readable")).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    let tokens = format!("@{}", case(CASE).join("case.json").display());
    let model = case(CASE).join("model");
    let model = model.to_str().expect("UTF-8");
    let typed = ["verify", model, "dump.safetensors", "--tokens", &tokens, "--precision", "eager_f32"];
    parity(folder.path(), &[&typed, options].concat())
}

#[test]
fn nothing_compared_is_refused() {
    for selected in [["--layers", "99.."], ["--sites", "layers.*.self_attn.q_rope_of_none"]] {
        let typed = [&["check", CASE, "--device", "emulated", "--decode", "1"], &selected[..]].concat();
        assert_refused(&parity(Path::new("."), &typed), &["nothing was compared", selected[1], "of 2 layers"]);
        assert_refused(&verify(|_| true, &selected), &["nothing was compared", selected[1], "of 2 layers"]);
    }
}

#[test]
fn one_norm_is_not_the_model() {
    let norm = |name: &str| name == "model.norm";
    let ran = verify(norm, &[]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains(" operators compared (0 alone, 1 within segments)"), "{ran}");
    let ran = verify(norm, &["--require", "all"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let unmet = ran.stdout.lines().find(|line| line.starts_with("required and not compared: "));
    let unmet = unmet.expect("it is listed");
    assert!(unmet.contains("model.layers.0.self_attn.q_proj") && unmet.contains("lm_head"), "{ran}");
    assert!(!unmet.contains("model.norm"), "{ran}");
    assert_eq!(verify(norm, &["--require", "norm"]).code, Some(0));
    assert_eq!(verify(norm, &["--require", "layers.1.mlp"]).code, Some(1));
    assert_refused(&verify(norm, &["--require", "layers.7.mlp"]), &["--require layers.7.mlp: fits none of the"]);
}

#[test]
fn a_whole_dump_covers_the_model() {
    let ran = verify(|_| true, &["--require", "all"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let ran = parity(Path::new("."), &["check", CASE, "--device", "emulated", "--decode", "1", "--require", "all"]);
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn what_is_denied_is_a_fault() {
    let ran = verify(|name| name != "model.layers.0.self_attn.q_norm", &["--deny", "missing"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("denied: ") && ran.stdout.contains("FAIL"), "{ran}");
}
