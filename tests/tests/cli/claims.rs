//! `parity claims`.

use std::fs;

use serde_json::Value;

use super::{Ran, assert_refused, case, parity};

/// Runs it in a folder of its own, with what it writes as JSON.
fn claims(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &[&["claims"], arguments, &["--json", "claims.json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let text = fs::read_to_string(folder.path().join("claims.json")).expect("written");
    (ran, serde_json::from_str(&text).expect("JSON"))
}

/// The claims of a JSON file.
fn rows(json: &Value) -> Vec<&Value> {
    json["claims"].as_array().expect("a list").iter().collect()
}

#[test]
fn all_claims_are_listed() {
    let (ran, json) = claims(&[]);
    let rows = rows(&json);
    assert_eq!(rows.len(), 135);
    for row in &rows {
        assert!(ran.stdout.contains(row["id"].as_str().expect("a label")), "{row}");
    }
    assert!(ran.stdout.contains("\n135 claims: holds "), "{ran}");
    let of = |id: &str| rows.iter().find(|row| row["id"] == id).copied().expect("in the ledger");
    let wrong = of("E0-19");
    assert_eq!((wrong["document"].as_str(), wrong["verdict"].as_str()), (Some("S0"), Some("fails")));
    assert_eq!(wrong["figures"][0]["stated"], "49.2 GFLOP");
    assert_eq!(wrong["figures"][0]["recomputed"], "2.359 GFLOP");
    assert_eq!(of("E5-01")["document"], "card");
    for line in ran.stdout.lines() {
        assert!(line.chars().count() <= 88, "{line}");
    }
}

#[test]
fn those_of_a_document_or_those_that_fail() {
    let (_, failing) = claims(&["--failing"]);
    let verdicts = rows(&failing).into_iter().map(|row| row["verdict"].as_str().expect("a word"));
    assert!(verdicts.clone().count() > 40 && verdicts.clone().all(|verdict| ["close", "fails"].contains(&verdict)));
    for (name, count) in [("S2", 4), ("s3", 7), ("001", 82), ("card", 1)] {
        assert_eq!(rows(&claims(&["--document", name]).1).len(), count, "{name}");
    }
    let (ran, none) = claims(&["--document", "S2", "--failing"]);
    assert!(rows(&none).is_empty() && ran.stdout.contains("0 claims"), "{ran}");
}

#[test]
fn a_model_s_numbers() {
    let (ran, json) = claims(&["minimax-m2.7", "--context", "192000"]);
    assert_eq!(json["sizing"]["total_parameters"], 228_689_764_864_u64);
    assert_eq!(json["sizing"]["cache"]["bf16"], 48_758_784_000.0);
    assert_eq!(json["sizing"]["weights"]["stored"], 230_121_630_720.0);
    for said in ["228.7 B", "230,121,630,720", "cache of 192000 tokens, bf16", "attention to all keys"] {
        assert!(ran.stdout.contains(said), "{said}: {ran}");
    }
    assert!(!ran.stdout.contains("index"), "{ran}");
}

/// By its name, by its folder, and by its configuration alone.
#[test]
fn a_model_is_named_as_elsewhere_or_by_its_configuration() {
    let model = case("m3-gqa4-f32").join("model");
    let file = model.join("config.json");
    let names = ["m3-gqa4-f32", model.to_str().expect("UTF-8"), file.to_str().expect("UTF-8")];
    let sizings = names.map(|name| [&[name][..], &["--config", name]].map(|typed| claims(typed).1["sizing"].clone()));
    let built_in = &sizings[0][0];
    assert!(sizings.iter().flatten().all(|sizing| sizing == built_in));
    assert!(built_in["cache"]["index_of_token"].as_f64().expect("a number") > 0.0);
}

#[test]
fn what_is_no_model_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = |arguments: &[&str]| parity(folder.path(), &[&["claims"], arguments].concat());
    assert_refused(&ran(&["m2-gqa"]), &["m2-gqa is neither a folder with config.json, nor", "minimax-m2.7"]);
    assert_refused(&ran(&["."]), &[". is neither"]);
    fs::write(folder.path().join("config.json"), "{}").expect("writable");
    assert_refused(&ran(&["."]), &["config.json", "head_dim is missing"]);
    for arguments in [
        &["minimax-m3", "--failing"][..],
        &["--config", "minimax-m3", "--document", "S1"],
        &["minimax-m3", "--config", "minimax-m3"],
        &["--context", "5"],
        &["minimax-m3", "--context", "0"],
        &["--document", "S9"],
    ] {
        assert_eq!(ran(arguments).code, Some(2), "{arguments:?}");
    }
}
