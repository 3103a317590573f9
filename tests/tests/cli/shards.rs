//! `parity verify --shard` and `parity merge`: a verification in several commands.

use std::fs;
use std::path::Path;

use super::reports::change_values;
use super::{Ran, assert_refused, case, parity};

/// What the reports of a single command are written to, and those of all shards together.
const SINGLE: [&str; 6] = ["--json", "single.json", "--html", "single.html", "--junit", "single.xml"];
const MERGED: [&str; 6] = ["--json", "merged.json", "--html", "merged.html", "--junit", "merged.xml"];

/// Does all shards of a verification, and puts them together.
fn merged(folder: &Path, verify: &[&str], of: usize) -> Ran {
    let files: Vec<String> = (1..=of).map(|number| format!("{number}.json")).collect();
    for (number, file) in (1..=of).zip(&files) {
        let shard = format!("{number}/{of}");
        let ran = parity(folder, &[verify, &["--shard", &shard, "--json", file]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    // In any order.
    let files: Vec<&str> = files.iter().rev().map(String::as_str).collect();
    parity(folder, &[&["merge"], &files[..], &MERGED].concat())
}

/// All shards together say, byte for byte, what a single command says.
fn assert_merged(folder: &Path, verify: &[&str], of: &[usize]) {
    let single = parity(folder, &[verify, &SINGLE].concat());
    for of in of {
        let merged = merged(folder, verify, *of);
        assert_eq!((merged.code, &merged.stdout), (single.code, &single.stdout), "{of} shards");
        for (single, merged) in SINGLE.iter().zip(MERGED).filter(|(name, _)| name.starts_with("single")) {
            let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was written");
            assert!(read(single) == read(merged), "{merged} of {of} shards is another than {single}");
        }
    }
}

#[test]
fn shards_together_are_the_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_merged(folder.path(), &["verify", "m2-gqa3-f32"], &[1, 3, 7]);
}

/// With what is demanded, and with a fault.
#[test]
fn shards_of_what_fails_fail_when_they_are_merged() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    change_values("m2-gqa3-f32", &folder.path().join("x.safetensors"), |name, values| {
        if name == "model.layers.1.mlp" {
            values[5] = f32::NAN;
        }
    });
    let verify = ["verify", "m2-gqa3-f32", "x.safetensors", "--layers", "1..", "--require", "all", "--deny", "missing"];
    assert_merged(folder.path(), &verify, &[2]);
    assert_eq!(merged(folder.path(), &verify, 2).code, Some(1));
}

#[test]
fn shards_of_images_have_their_pictures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_merged(folder.path(), &["verify", "vision-images-bf16", "--lens", "local"], &[2]);
}

#[test]
fn a_shard_says_what_it_did() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shard = |number: &str| {
        parity(folder.path(), &["verify", "m2-gqa3-f32", "--lens", "local", "--shard", number, "--json", "x.json"])
    };
    assert_eq!(shard("2/2").stdout, "shard 2 of 2: 1 of 2 units of work, request 0, layer 1\n");
    let file = fs::read_to_string(folder.path().join("x.json")).expect("it was written");
    let file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(file["shard"], serde_json::json!({ "number": 2, "of": 2 }));
    assert_eq!(file["identity"]["lenses"], serde_json::json!(["local"]));
    assert_eq!(file["units"].as_array().map(Vec::len), Some(2));
    assert_eq!(shard("3/3").stdout, "shard 3 of 3: empty, the others have all of the 2 units of work\n");
    assert_eq!(
        shard("7/1000000000000").stdout,
        "shard 7 of 1000000000000: empty, the others have all of the 2 units of work\n"
    );
    for wrong in ["0/3", "4/3", "1", "a/b"] {
        assert_refused(&shard(wrong), &["expected I/N with I from 1 to N"]);
    }
    assert_refused(&parity(folder.path(), &["verify", "m2-gqa3-f32", "--shard", "1/2"]), &["--json"]);
}

#[test]
fn what_is_missing_doubled_or_of_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = folder.path().join("other.safetensors");
    change_values("m2-gqa3-f32", &copy, |name, values| {
        if name == "model.norm" {
            values[0] += 1.0;
        }
    });
    let prompt = fs::read_to_string(case("m2-gqa3-f32").join("case.json")).expect("it is there");
    let prompt: serde_json::Value = serde_json::from_str(&prompt).expect("JSON");
    let tokens: Vec<u64> = serde_json::from_value(prompt["tokens"].clone()).expect("token ids");
    let joined = |tokens: &[u64]| tokens.iter().map(u64::to_string).collect::<Vec<String>>().join(",");
    let (tokens, fewer) = (joined(&tokens), joined(&tokens[..tokens.len() - 1]));
    let plain = &["verify", "m2-gqa3-f32", "--lens", "local"][..];
    for (options, shard, file) in [
        (plain, "1/2", "1.json"),
        (plain, "2/2", "2.json"),
        (plain, "1/3", "third.json"),
        (plain, "1/30", "thirtieth.json"),
        (&["verify", "m2-mha-top1-f32", "--lens", "local"], "2/2", "model.json"),
        (&["verify", "m2-gqa3-f32", "other.safetensors", "--lens", "local", "--tokens", &tokens], "2/2", "dump.json"),
        (&["verify", "m2-gqa3-f32", "--lens", "local", "--tokens", &fewer], "2/2", "prompt.json"),
        (&["verify", "m2-gqa3-f32", "--lens", "layer"], "2/2", "lens.json"),
        (&["verify", "m2-gqa3-f32", "--lens", "local", "--require", "all"], "2/2", "asked.json"),
    ] {
        let ran = parity(folder.path(), &[options, &["--shard", shard, "--json", file]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    fs::write(folder.path().join("half.json"), &fs::read(folder.path().join("2.json")).expect("written")[..999])
        .expect("writable");
    fs::write(folder.path().join("report.json"), "{\"reports\": []}").expect("writable");
    // A figure is another, and the file as whole as before.
    let file = fs::read_to_string(folder.path().join("2.json")).expect("written");
    let mut file: serde_json::Value = serde_json::from_str(&file).expect("JSON");
    let stored = file["stored"].as_str().expect("base 64");
    let half = stored.len() / 2;
    let other = if stored.as_bytes()[half] == b'A' { "B" } else { "A" };
    file["stored"] = format!("{}{other}{}", &stored[..half], &stored[half + 1..]).into();
    fs::write(folder.path().join("figure.json"), file.to_string()).expect("writable");
    let merge = |files: &[&str]| parity(folder.path(), &[&["merge"], files].concat());
    for (files, words) in [
        (&["1.json"][..], &["shard 2 of 2 is missing: 1 given", "--shard 2/2"][..]),
        (&["1.json", "2.json", "1.json"], &["1.json and 1.json are both shard 1 of 2"]),
        (&["1.json", "model.json"], &["model.json has another model than 1.json: fingerprint"]),
        (&["1.json", "dump.json"], &["dump.json has another dump than 1.json: fingerprint"]),
        (&["1.json", "prompt.json"], &["prompt.json has another prompt than 1.json: fingerprint"]),
        (&["1.json", "lens.json"], &["lens.json has another choice of lenses than 1.json: layer, expected local"]),
        (&["1.json", "asked.json"], &["asked.json was asked --require 'all', and 1.json nothing"]),
        (&["1.json", "third.json"], &["third.json is shard 1 of 3, and 1.json shard 1 of 2"]),
        (&["1.json", "half.json"], &["half.json: is no whole shard"]),
        (&["1.json", "report.json"], &["report.json: is no shard"]),
        (&["1.json", "none.json"], &["none.json: cannot be read"]),
        (&["1.json", "figure.json"], &["figure.json: is damaged"]),
        (&["thirtieth.json"], &["20 and 21 and 9 more of 30 are missing: 1 given", "--shard 2/30"]),
    ] {
        assert_refused(&merge(files), words);
    }
    assert_eq!(merge(&["1.json", "2.json"]).code, Some(0));
}
