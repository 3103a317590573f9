//! `parity tune`, on the emulated device.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Ran, assert_refused, parity};

const SMALL: [&str; 8] = ["--model", "m2-gqa3-f32", "--context", "32", "--tokens", "3", "--device", "emulated"];

fn tune(folder: &Path, arguments: &[&str]) -> Ran {
    parity(folder, &[&["tune"], arguments, &SMALL].concat())
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("written")).expect("JSON")
}

/// Stopped after a round, it goes on as if it had not been. What an embedding accesses is counted the same in every run; of the
/// largest logit's search, wavefronts of shared memory are not, in the fourth digit of its cost.
#[test]
fn a_stopped_loop_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |history: &str, rounds: &str| {
        let ran = tune(folder.path(), &["embedding", "--history", history, "--rounds", rounds, "--json", "t.json"]);
        assert_eq!(ran.code, Some(0), "{ran}");
        ran
    };
    run("stopped.json", "1");
    assert_eq!(read(&folder.path().join("stopped.json"))["rounds"].as_array().map(Vec::len), Some(1));
    run("stopped.json", "9");
    let ran = run("whole.json", "9");
    let whole = read(&folder.path().join("whole.json"));
    assert_eq!(read(&folder.path().join("stopped.json")), whole);
    assert_eq!(read(&folder.path().join("t.json"))["history"], whole);
    // Four other values of THREADS.
    assert_eq!(whole["rounds"].as_array().map(Vec::len), Some(4));
    for words in ["a cost model, not time", "embedding.THREADS", "nothing is left to try", "baseline"] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
    for round in whole["rounds"].as_array().expect("a list") {
        assert_eq!(round["kept"], round["verdict"] == "kept", "{round}");
    }
    let other = tune(folder.path(), &["sampling", "--history", "whole.json"]);
    assert_refused(&other, &["another operator", "sampling", "embedding"]);
    let seeded = tune(folder.path(), &["embedding", "--history", "whole.json", "--seed", "7"]);
    assert_refused(&seeded, &["another seed: 0, and now it is 7"]);
}

/// The kernels' sources are part of what a history is of.
#[test]
fn a_history_of_other_kernels_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("h.json");
    assert_eq!(tune(folder.path(), &["sampling", "--history", "h.json", "--rounds", "0"]).code, Some(0));
    let mut history = read(&path);
    let now = history["of"]["version of the kernels"].as_str().expect("a digest").to_owned();
    history["of"]["version of the kernels"] = Value::from("0123");
    fs::write(&path, history.to_string()).expect("writable");
    let ran = tune(folder.path(), &["sampling", "--history", "h.json"]);
    assert_refused(&ran, &["another version of the kernels: 0123"]);
    assert!(ran.said().concat().contains(&now), "{ran}");
}

#[test]
fn a_candidate_is_proved_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let right = tune(folder.path(), &["sampling", "--prove", "THREADS=512"]);
    assert!(right.code == Some(0) && right.stdout.contains("right"), "{right}");
    // A block's halves are compared, so that threads have to be a power of two.
    let wrong = tune(folder.path(), &["sampling", "--prove", "THREADS=96"]);
    assert!(wrong.code == Some(1) && wrong.stdout.contains("wrong"), "{wrong}");
    let impossible = tune(folder.path(), &["experts.moe", "--prove", "WARPS_ACROSS=8"]);
    assert!(impossible.code == Some(1) && impossible.stdout.contains("impossible"), "{impossible}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused: [(&[&str], &[&str]); 7] = [
        (&["moa"], &["moa: no operator", "experts.moe", "linear_head"]),
        (&["experts.layer"], &["one by one", "experts.moe"]),
        (&["rms_norm"], &["rms_norm: no parameter to tune", "rms_norm THREADS=256", "order of a sum"]),
        (&["experts.attention"], &["no parameter to tune", "attention D="]),
        (&["sampling", "--history", "none/h.json"], &["none"]),
        (&["sampling", "--prove", "STAGES=3"], &["STAGES: no parameter", "sampling.THREADS"]),
        (&["sampling", "--nvrtc", "nowhere"], &["NVRTC was not found", "nowhere"]),
    ];
    for (arguments, words) in refused {
        assert_refused(&tune(folder.path(), arguments), words);
    }
    assert_eq!(tune(folder.path(), &["sampling", "--threshold", "-1"]).code, Some(2));
}
