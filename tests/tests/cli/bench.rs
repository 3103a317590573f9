//! `parity bench`, on the emulated device.

use std::fs;

use serde_json::{Value, json};

use super::{Ran, assert_refused, parity};

/// Runs it, with what it writes as JSON.
fn bench(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &[&["bench", "--device", "emulated"], arguments, &["--json", "b.json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let text = fs::read_to_string(folder.path().join("b.json")).expect("written");
    (ran, serde_json::from_str(&text).expect("JSON"))
}

fn works(json: &Value) -> &Vec<Value> {
    json["bench"]["works"].as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// All of a small model of either family: what is counted is not below the floor, and a layer launches what its operators do.
#[test]
fn accesses_are_counted_beside_the_floor() {
    for (model, layers) in [("m2-gqa3-f32", &["experts"][..]), ("m3-gqa4-f32", &["dense", "sparse"])] {
        let (ran, json) = bench(&["--model", model, "--tokens", "3", "--context", "32"]);
        for work in works(&json) {
            assert!(number(&work["fraction"]) > 0.0 && number(&work["reference"]) > 0.0, "{work}");
            assert!(work["counted"]["launches"].as_u64() >= Some(1) && work["timed"].is_null(), "{work}");
        }
        let launches = |name: &str| {
            let work = works(&json).iter().find(|work| work["name"] == name);
            work.unwrap_or_else(|| panic!("{name}: {ran}"))["counted"]["launches"].as_u64().expect("a number")
        };
        let mut all = launches("embedding") + launches("rms_norm") + launches("linear_head") + launches("sampling");
        for layer in layers {
            let prefix = format!("{layer}.");
            let own = works(&json).iter().filter_map(|work| work["name"].as_str()?.strip_prefix(&prefix));
            let parts: u64 = own.filter(|name| *name != "layer").map(|name| launches(&format!("{prefix}{name}"))).sum();
            assert_eq!(launches(&format!("{prefix}layer")), parts + launches(&format!("{prefix}add_rms_norm")));
            all += launches(&format!("{prefix}layer"));
        }
        assert_eq!(launches("step"), all);
        let compared = json["instructions"]["compared"].as_array().expect("a list");
        // 10 alone, and 7 kinds of products in each of three types, and of warpgroups.
        assert_eq!((compared.len(), &json["instructions"]["lacking"]), (10 + 4 * 7, &json!([])));
        assert!(compared.iter().all(|compared| compared["different"] == 0));
        for words in [
            "next to itself",
            "bit for bit the same",
            "conflicts",
            "idle",
            "a step of all",
            "emulated device, counting form",
        ] {
            assert!(ran.stdout.contains(words), "{words}: {ran}");
        }
    }
}

/// At the released size, one operator that reads little: the norm's row, weights and output, once each.
#[test]
fn a_norm_of_the_released_size_moves_what_it_must() {
    let arguments = ["rms_norm", "--no-reference", "--no-instructions", "--context", "8"];
    let (ran, json) = bench(&arguments);
    assert_eq!(works(&json).len(), 1);
    let norm = &works(&json)[0];
    assert_eq!((number(&norm["counted"]["read"]), number(&norm["counted"]["written"])), (12288.0, 6144.0), "{ran}");
    assert_eq!((number(&norm["fraction"]), &norm["reference"]), (1.0, &Value::Null));
    // One block of 132 that there could be.
    assert!((number(&norm["idle"]) - 131.0 / 132.0).abs() < 1e-12, "{ran}");
    let (ran, json) = bench(&[&arguments[..], &["--shrink", "16"]].concat());
    assert!(json["shrink"] == 16 && ran.stdout.contains("divided by 16"), "{ran}");
}

#[test]
fn instructions_are_written_for_another_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["bench", "--device", "emulated", "--instructions", "-"]);
    let json: Value = serde_json::from_str(&ran.stdout).expect("nothing but JSON");
    assert!(json.as_array().is_some_and(|list| list.iter().any(|given| given[0] == "ldmatrix, plain and transposed")));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused: [(&[&str], &[&str]); 6] = [
        (&["moa"], &["moa", "experts.moe", "linear_head"]),
        (&["--tokens", "9", "--context", "8"], &["--tokens 9", "--context 8"]),
        (&["--context", "999999999"], &["--context 999999999", "at most"]),
        (&["--device", "checked"], &["checked", "expected auto"]),
        (&["--device", "cuda:99"], &["CUDA"]),
        (&["--model", "none"], &["none"]),
    ];
    for (arguments, words) in refused {
        assert_refused(&parity(folder.path(), &[&["bench"], arguments].concat()), words);
    }
    assert_eq!(parity(folder.path(), &["bench", "--bandwidth", "0"]).code, Some(2));
}
