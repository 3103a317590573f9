//! `parity prompt`, and `parity verify --coverage` of what it proposes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{assert_refused, parity};

const CASE: &str = "m2-gqa3-f32";

#[test]
fn what_it_proposes_can_be_run_and_covers_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["prompt", CASE, "--length", "24", "--tokens", "5,6,7", "--out", "prompt.json"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.is_empty() && ran.says("24 tokens") && ran.says("of 16 experts are chosen by"), "{ran}");
    let printed = parity(folder.path(), &["prompt", CASE, "--length", "24", "--tokens", "5,6,7", "-q"]);
    assert!(printed.stderr.is_empty() && printed.stdout.starts_with("{\"tokens\":[5,6,7,"), "{printed}");
    let written = fs::read_to_string(folder.path().join("prompt.json")).expect("it is written");
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
    assert_eq!(json(&written), json(&printed.stdout));

    let coverage = |tokens: &str| {
        let run = ["run", CASE, "--tokens", tokens, "--precision", "eager_bf16", "--out", "dump.safetensors"];
        assert_eq!(parity(folder.path(), &run).code, Some(0));
        let files = ["--coverage", "--json", "report.json", "--html", "report.html"];
        let ran =
            parity(folder.path(), &[&["verify", CASE, "dump.safetensors", "--tokens", tokens], &files[..]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(ran.stdout.contains("coverage of mistakes: ") && ran.stdout.contains("coverage of experts: "), "{ran}");
        let page = fs::read_to_string(folder.path().join("report.html")).expect("it is written");
        assert!(page.contains("Coverage of mistakes"), "{page}");
        let report = json(&fs::read_to_string(folder.path().join("report.json")).expect("it is written"));
        let detection = report["reports"][0]["detection"].clone();
        fs::remove_file(folder.path().join("dump.safetensors")).expect("it is there");
        (ran, detection)
    };
    let (short, detection) = coverage("5");
    let outcome = |detection: &Value, name: &str| {
        let known = detection["mistakes"].as_array().and_then(|all| all.iter().find(|known| known["name"] == name));
        known.expect("it is known")["ways"][0]["outcome"].clone()
    };
    assert_eq!(outcome(&detection, "rope_theta_10k")["outcome"], "moves_nothing");
    assert!(short.stdout.contains("they change no value that was compared (visible: beyond position"), "{short}");
    assert!(short.stdout.contains("no token chose them"), "{short}");
    let (_, detection) = coverage("@prompt.json");
    let ruled_out = outcome(&detection, "rope_theta_10k");
    assert_eq!(ruled_out["outcome"], "ruled_out");
    assert!(ruled_out["bounds"].as_f64().is_some_and(|bounds| bounds > 1.0), "{ruled_out}");
}

#[test]
fn what_cannot_be_proposed_is_said() {
    let refused = |options: &[&str], words: &[&str]| {
        assert_refused(&parity(Path::new("."), &[&["prompt", CASE], options].concat()), words);
    };
    refused(&["--length", "0"], &["--length 0: expected 1 to 204800"]);
    refused(&["--length", "204801"], &["--length 204801: expected 1 to 204800", "max_position_embeddings"]);
    refused(&["--tokens", "1,320"], &["token 320 at position 1: expected below vocab_size = 320"]);
    refused(&["--tokens", "1,2,3", "--length", "2"], &["--tokens has 3 tokens, and the prompt is to have 2"]);
    refused(&["--layers", "7"], &["--layers 7: the model has 2 layers"]);
    refused(&["--out", "missing/prompt.json"], &["missing/prompt.json"]);
    let ran = parity(Path::new("."), &["verify", CASE, "--coverage", "--lens", "layer"]);
    assert_refused(&ran, &["cannot be used with"]);
}
