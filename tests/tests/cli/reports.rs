//! What is said of a candidate.

use std::fs;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::{Dtype, Tensor};

use super::{Ran, assert_ran, case, parity};

/// Writes a changed copy of a case's values to a file without a manifest.
pub(super) fn change_values(name: &str, to: &Path, change: impl Fn(&str, &mut Vec<f32>)) {
    let dump = Dump::open(&case(name).join("expected.safetensors")).expect("readable");
    let mut writer = DumpWriter::create(to).expect("writable");
    for tensor in dump.tensors() {
        let stored = dump.tensor(tensor.name).expect("readable");
        let mut values = stored.values::<f32>();
        change(tensor.name, &mut values);
        let values: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let changed = match tensor.dtype {
            Dtype::F32 => Tensor::new(Dtype::F32, tensor.shape, values).expect("as many"),
            _ => stored,
        };
        writer.write(tensor.name, &changed).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
}

/// Verifies a changed copy of a case's values.
fn verify(name: &str, change: impl Fn(&str, &mut Vec<f32>)) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    change_values(name, &folder.path().join("changed.safetensors"), change);
    let tokens = format!("@{}", case(name).join("case.json").display());
    let model = case(name).join("model");
    parity(folder.path(), &["verify", model.to_str().expect("UTF-8"), "changed.safetensors", "--tokens", &tokens])
}

/// The sites of the faults that the report tells, in its order.
pub(super) fn faults(ran: &Ran) -> Vec<&str> {
    let lines = ran.stdout.lines().filter_map(|line| line.strip_prefix("fault "));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn what_transformers_computed_passes() {
    for name in ["m2-gqa3-f32", "m2-f16-weights-f32"] {
        let ran = verify(name, |_, _| ());
        assert_eq!(ran.code, Some(0), "{ran}");
    }
}

/// Each release of transformers has its own rule of choosing blocks: put next to the other's, its dump has other shapes.
#[test]
fn the_other_rule_of_choosing_blocks_is_a_fault() {
    for (name, reading, note) in [
        ("m3-gqa4-head-max-f32", "released", "it is 34 × 3, expected 68 × 3"),
        ("m3-gqa4-f32", "documents,gate_clamp=upper", "it is 68 × 3, expected 34 × 3"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |file: &str| case(name).join(file).display().to_string();
        let (model, dump, tokens) = (path("model"), path("expected.safetensors"), format!("@{}", path("case.json")));
        let ran = parity(folder.path(), &["verify", &model, &dump, "--tokens", &tokens, "--semantics", reading]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert_eq!(faults(&ran).first(), Some(&"model.layers.2.self_attn.indexer"), "{ran}");
        assert!(ran.stdout.contains(note), "{ran}");
    }
}

#[test]
fn one_value_off_by_a_percent_is_named() {
    for site in [
        "model.layers.0.self_attn.q_proj",
        "model.layers.1.self_attn.k_norm",
        "model.layers.1.mlp.gate.1",
        "model.layers.0.mlp.experts",
        "model.norm",
    ] {
        let ran = verify("m2-gqa3-f32", |name, values| {
            if name == site {
                let largest = (0..values.len()).max_by(|&a, &b| values[a].abs().total_cmp(&values[b].abs()));
                values[largest.expect("not empty")] *= 1.01;
            }
        });
        assert_eq!(ran.code, Some(1), "{site}: {ran}");
        assert_eq!(faults(&ran).first(), Some(&site), "{ran}");
    }
}

#[test]
fn not_a_number_is_a_fault_where_it_first_stands() {
    let ran = verify("m2-gqa3-f32", |name, values| {
        if name.starts_with("model.layers.0.mlp.experts") || name.starts_with("model.layers.1") {
            values[7] = f32::NAN;
        }
    });
    assert_eq!(ran.code, Some(1), "{ran}");
    assert_eq!(faults(&ran).first(), Some(&"model.layers.0.mlp.experts"), "{ran}");
}

#[test]
fn values_of_another_prompt_are_a_fault() {
    let ran = verify("m2-gqa3-f32", |name, values| {
        if name == "model.embed_tokens" {
            values.rotate_left(96);
        }
    });
    assert_eq!((ran.code, faults(&ran).first()), (Some(1), Some(&"model.embed_tokens")), "{ran}");
}

#[test]
fn reports_read_well() {
    let here = Path::new(".");
    assert_ran!(parity(here, &["verify", "m2-gqa3-f32"]), "verify");
    assert_ran!(parity(here, &["check", "m2-mha-top1-f32", "--device", "checked", "--decode", "4"]), "check");
    assert_ran!(parity(here, &["fixtures", "list"]), "fixtures_list");
    assert_ran!(parity(here, &["decode", "m2-gqa3-f32", "-n", "5"]), "decode");
    let tampered = verify("m2-gqa3-f32", |name, values| {
        if name == "model.layers.1.self_attn.q_norm" {
            values[96 * 3 + 5] += 0.5;
        }
    });
    assert_ran!(tampered, "verify_fault");
}

/// One of each family: all of them are put next to the reference, and hashed again, in `golden` and `fixtures`.
#[test]
fn the_golden_cases_are_as_they_were_made() {
    let ran = parity(Path::new("."), &["fixtures", "verify", "m2-gqa3-f32", "m3-sharded-bf16", "vision-images-bf16"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains("every file has its recorded hash"), "{ran}");
    assert!(ran.stdout.ends_with("PASS: 6 dumps without a fault\n"), "{ran}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("m2-mha-top1-f32");
    copy_folder(&case("m2-mha-top1-f32"), &copy);
    fs::write(copy.join("model/notes.txt"), "").expect("writable");
    let ran = parity(folder.path(), &["fixtures", "verify", "--golden", "."]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("m2-mha-top1-f32/model/notes.txt is there and not expected"), "{ran}");
    assert!(ran.stdout.ends_with("FAIL: 2 dumps without a fault, of files that are not as they were made\n"), "{ran}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).expect("writable");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("writable");
        }
    }
}
