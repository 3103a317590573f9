//! `tools/src/session/precision/ties.rs`, and the modes of TF32: which products' operands are rounded, and which way.

use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;

use crate::cli::parity;

/// Rounded in any way that processors do, attention's with them or not; and what is wrong beside it is.
#[test]
fn operands_are_rounded_in_any_way() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (case, way, wrong) in [
        ("m2-gqa3-f32", "autocast=tf32_rna", None),
        ("m2-gqa3-f32", "attention=uncast,autocast=tf32_rz", Some("norm_eps=1e-5")),
        ("m3-gqa4-f32", "attention=uncast,autocast=tf32_rna", Some("score_scale=0.27")),
        ("m3-gqa4-f32", "autocast=tf32_rz", None),
        ("vision-images-f32", "autocast=tf32_rna", None),
        ("vision-images-f32", "convolutions=tf32", None),
        ("vision-images-f32", "convolutions=tf32_rz", Some("vision_score_scale=0.27")),
    ] {
        let profile = if way.starts_with("convolutions") { "transformers_f32" } else { "transformers_tf32" };
        let precision = format!("{profile},{way}");
        let semantics = wrong.map(|wrong| format!("released,{wrong}"));
        let semantics = semantics.iter().flat_map(|semantics| ["--semantics", semantics]);
        let run = ["run", case, "--out", "ran.safetensors", "--precision", &precision].into_iter().chain(semantics);
        let done = parity(folder.path(), &run.collect::<Vec<_>>());
        assert_eq!(done.code, Some(0), "{case}, {way}: {done}");
        silence(&folder.path().join("ran.safetensors"), &folder.path().join("dump.safetensors"));
        let found = parity(folder.path(), &["verify", case, "dump.safetensors"]);
        assert_eq!(found.stdout.contains("\nPASS"), wrong.is_none(), "{case}, {way}: {found}");
        assert_eq!(found.code, Some(i32::from(wrong.is_some())), "{case}, {way}: {found}");
        let words: Vec<&str> = found.stdout.split([',', ' ', '\n']).collect();
        let is_found = way.split(',').all(|point| words.contains(&point));
        assert!(is_found || wrong.is_some(), "{case}, {way}: {found}");
    }
}

/// Writes a dump again that says nothing of how it was computed.
fn silence(from: &Path, to: &Path) {
    let all = Dump::open(from).expect("it was just written");
    let mut writer = DumpWriter::create(to).expect("writable");
    for name in all.names() {
        writer.write(name, &all.tensor(name).expect("it is listed")).expect("writable");
    }
    let own = all.manifest().expect("it has one").clone();
    writer.finish(&Manifest { precision: None, producer: None, semantics: None, ..own }).expect("writable");
}
