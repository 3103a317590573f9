//! `parity account`.

use std::fs;

use serde_json::Value;

use super::{Ran, assert_refused, case, parity};

/// Runs it, with what it writes as JSON.
fn account(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &[&["account"], arguments, &["--json", "account.json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let text = fs::read_to_string(folder.path().join("account.json")).expect("written");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    (ran, json["account"].clone())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn assert_near(found: &Value, expected: f64) {
    let found = number(found);
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found}, expected {expected}");
}

/// The released sizes: 230,121,630,720 bytes of M2.7 in FP8, 443,742,085,120 of M3 in MXFP8, scales included.
#[test]
fn released_models_weigh_what_their_files_do() {
    for (model, parameters, bytes) in
        [("minimax-m2.7", 228_689_764_864_u64, 230_121_630_720.0), ("minimax-m3", 427_040_140_160, 443_742_085_120.0)]
    {
        let (_, json) = account(&[model, "--context", "1024"]);
        assert_eq!(json["total"]["parameters"], parameters, "{model}");
        assert_eq!(number(&json["total"]["weights"]), bytes, "{model}");
    }
}

/// By hand, of M2.7: 62 layers of 8 key heads of 128 channels in bf16 are 253,952 bytes a token. A step of one sequence
/// of T = 192,000 tokens has 4·6144·T operations in each attention, and reads all keys and values, and 8 of 256
/// experts.
#[test]
fn m27_layer_by_layer() {
    let (ran, json) = account(&["minimax-m2.7", "--context", "192000", "--batch", "4"]);
    let layers = json["places"].as_array().expect("a list").iter().filter(|row| row["place"]["layer"].is_u64());
    let layers: Vec<&Value> = layers.collect();
    assert_eq!(layers.len(), 62);
    assert_near(&json["total"]["cache"], 4.0 * 192_000.0 * 253_952.0);
    assert_near(&layers[5]["costs"]["cache"], 4.0 * 192_000.0 * 4096.0);
    let (h, t) = (3072.0, 192_000.0);
    let projections = h * 128.0 * (2.0 * 48.0 + 2.0 * 8.0);
    let products = projections + 256.0 * h + 8.0 * 3.0 * 1536.0 * h;
    assert_near(&layers[5]["costs"]["step"], 4.0 * (2.0 * products + 4.0 * 6144.0 * t));
    let average = f64::midpoint(t, 1.0);
    assert_near(&layers[5]["costs"]["prefill"], 4.0 * t * (2.0 * products + 4.0 * 6144.0 * average));
    // An expert's three matrices are 1536·3072 bytes each, and 12·24 scales of four bytes.
    let expert = 3.0 * (1536.0 * 3072.0 + 12.0 * 24.0 * 4.0);
    let reached = 1.0 - (1.0 - 8.0_f64 / 256.0).powi(4);
    let stored = number(&layers[5]["costs"]["weights"]);
    let read = stored - 256.0 * expert * (1.0 - reached) + number(&layers[5]["costs"]["cache"]);
    assert_near(&layers[5]["costs"]["read"], read);
    for said in ["layers 0 to 61", "230,121,630,720 bytes", "memory", "░", "a batch of 4 with 192,000 tokens"] {
        assert!(ran.stdout.contains(said), "{said}: {ran}");
    }
    assert!(!ran.stdout.contains("vision"), "{ran}");
}

/// M3's sparse layers read 2048 keys whatever the context, and its index branch's key of every token, one head of 128.
#[test]
fn m3_reads_chosen_blocks() {
    let (ran, json) = account(&["minimax-m3", "--context", "1000000"]);
    let place = |name: u64| {
        let rows = json["places"].as_array().expect("a list").iter();
        rows.clone().find(|row| row["place"]["layer"] == name).expect("it has the layer").clone()
    };
    let [dense, sparse] = [place(0), place(10)].map(|row| row["costs"].clone());
    assert_near(&dense["cache"], 1e6 * 2.0 * 512.0 * 2.0);
    assert_near(&sparse["cache"], 1e6 * (2.0 * 512.0 + 128.0) * 2.0);
    let read_of_weights = |costs: &Value, keys: f64| number(&costs["read"]) - keys * 2.0;
    assert_near(&dense["weights"], read_of_weights(&dense, 1e6 * 1024.0));
    // An expert's three matrices are 3072·6144 bytes each, and a scale for each 32; four of 128 are read.
    let expert = 3.0 * 3072.0 * 6144.0 * (1.0 + 1.0 / 32.0);
    let of_token = number(&sparse["weights"]) - (128.0 - 4.0) * expert;
    assert_eq!(read_of_weights(&sparse, 2048.0 * 1024.0 + 1e6 * 128.0), of_token);
    assert!(ran.stdout.contains("layers 0 to 2") && ran.stdout.contains("layers 3 to 59"), "{ran}");
}

/// The sums are those that `claims` has of the whole model.
#[test]
fn places_add_up_to_the_model() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for model in ["minimax-m2.7", "minimax-m3", "m3-gqa4-f32", "m2-gqa3-f32"] {
        let (_, json) = account(&[model, "--context", "5000"]);
        let ran = parity(folder.path(), &["claims", model, "--context", "5000", "--json", "-"]);
        let claims: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let (total, sizing) = (&json["total"], &claims["sizing"]);
        assert_eq!(total["parameters"], sizing["total_parameters"], "{model}");
        assert_eq!(total["active"], sizing["active_parameters"], "{model}");
        assert_near(&total["weights"], number(&sizing["weights"]["stored"]));
        assert_near(&total["cache"], number(&sizing["cache"]["bf16"]));
        assert_near(&total["step"], number(&sizing["total_operations"]["decode"]));
        assert_near(&total["prefill"], 5000.0 * number(&sizing["total_operations"]["prefill"]));
    }
}

/// A module of M3 is a sparse layer, \[6144, 12288\] before it, and three norms.
#[test]
fn modules_are_counted_where_they_are_asked_for() {
    let [without, with] = ["0", "2"].map(|n| account(&["minimax-m3", "--context", "4096", "--mtp-modules", n]).1);
    let rows = with["places"].as_array().expect("a list");
    let layer = rows.iter().find(|row| row["place"]["layer"] == 59).expect("the last layer");
    let parameters = |value: &Value| value["parameters"].as_u64().expect("a number");
    let more = parameters(&with["total"]) - parameters(&without["total"]);
    assert_eq!(more, 2 * (parameters(&layer["costs"]) + 6144 * 12288 + 3 * 6144));
    assert_eq!(rows.iter().filter(|row| row["place"]["module"].is_u64()).count(), 2);
}

/// By its folder, and by its configuration alone; what makes no sense is refused.
#[test]
fn a_model_is_named_as_elsewhere() {
    let model = case("m3-gqa4-f32").join("model");
    let totals =
        [model.clone(), model.join("config.json")].map(|path| account(&[&path.to_string_lossy()]).1["total"].clone());
    assert_eq!(totals[0], totals[1]);
    assert_eq!(totals[0], account(&["m3-gqa4-f32"]).1["total"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_refused(&parity(folder.path(), &["account", "none"]), &["none"]);
    for wrong in [["--batch", "0"], ["--context", "0"], ["--mtp-modules", "65"]] {
        assert_eq!(parity(folder.path(), &["account", "minimax-m3", wrong[0], wrong[1]]).code, Some(2), "{wrong:?}");
    }
}
