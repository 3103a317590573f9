//! Dumps that transformers writes as people run it: none is blamed, with no flag but `--pixels`.

use std::path::PathBuf;

use serde_json::Value;
use tests::repository;

use super::{case, parity};

/// `parity verify MODEL DUMP` of each dump in `fixtures/golden-runs`, with `--pixels` where the prompt shows something;
/// what is suspicious counts, too.
#[test]
fn right_runs_of_transformers_pass() {
    let runs = repository::path("fixtures/golden-runs");
    let index = std::fs::read_to_string(runs.join("index.json")).expect("it is there");
    let index: Value = serde_json::from_str(&index).expect("it is JSON");
    let dumps = index["dumps"].as_array().expect("a list");
    assert!(dumps.len() >= 9, "{index}");
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
