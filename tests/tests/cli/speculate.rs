//! `parity decode --speculate`: equal tokens, acceptance, and what cannot be.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::bad_input::model;
use super::{Ran, assert_ran, parity};

fn report(folder: &Path, arguments: &[&str]) -> Value {
    let ran = parity(folder, &[&["decode"], arguments, &["--json", "report.json"]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    let text = fs::read_to_string(folder.join("report.json")).expect("it was written");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Document 000's three modules, and vLLM's one for seven drafts.
#[test]
fn built_in_cases_of_both_families() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (case, drafts) in [("m2-gqa3-f32", 3), ("m3-gqa4-f32", 7)] {
        let text = drafts.to_string();
        let found = report(folder.path(), &[case, "--speculate", &text]);
        let plain = report(folder.path(), &[case]);
        assert_eq!(found["decode"]["tokens"], plain["decode"]["tokens"]);
        let speculation = &found["speculation"];
        assert_eq!(speculation["plain"], plain["decode"]["tokens"]);
        assert_eq!(speculation["modules"], "made");
        for counts in ["drafted", "accepted"] {
            assert_eq!(speculation[counts].as_array().map(Vec::len), Some(drafts), "{speculation}");
        }
    }
    assert_ran!(parity(folder.path(), &["decode", "m2-gqa3-f32", "--speculate", "3", "-n", "5"]), "decode_speculate");
}

/// A checkpoint of its own modules, some of whose drafts are accepted; drawn, and in f32, too.
#[test]
fn a_synthetic_checkpoint() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    let synth = ["synth", "model", "--mtp-modules", "2", "--dtype", "f32", "--out", "made"];
    let made = parity(folder.path(), &synth);
    assert_eq!(made.code, Some(0), "{made}");
    for more in [&[][..], &["--precision", "f32"], &["--precision", "bf16"], &["--temperature", "1", "--seed", "7"]] {
        let arguments = [&["made", "--tokens", "1,2,3", "--speculate", "2", "-n", "32"], more].concat();
        let found = report(folder.path(), &arguments);
        let speculation = &found["speculation"];
        assert_eq!(speculation["modules"], "checkpoint");
        let sum = |name: &str| -> u64 {
            speculation[name].as_array().expect("a list").iter().map(|n| n.as_u64().expect("a count")).sum()
        };
        let [drafted, accepted] = [sum("drafted"), sum("accepted")];
        assert!(drafted / 5 < accepted && accepted < drafted, "{more:?}: {speculation}");
        if !more.contains(&"--temperature") {
            assert_eq!(speculation["plain"], found["decode"]["tokens"]);
        }
    }
    let more = parity(folder.path(), &["decode", "made", "--tokens", "1,2,3", "--speculate", "3"]);
    assert_eq!(more.code, Some(2), "{more}");
    assert!(more.says("--speculate 3: made has modules for 2 drafts, one each"), "{more}");
}

#[test]
fn what_cannot_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    let refused = |arguments: &[&str]| -> Ran {
        let ran = parity(folder.path(), &[&["decode"], arguments].concat());
        assert_eq!(ran.code, Some(2), "{ran}");
        ran
    };
    assert_ran!(refused(&["m2-gqa3-f32", "--speculate", "4"]), "speculate_too_many");
    assert_ran!(refused(&["model", "--tokens", "1,2", "--speculate", "3"]), "speculate_without_modules");
    assert_ran!(refused(&["m3-gqa4-f32", "--speculate", "0"]), "speculate_nothing");
    let optimized = ["m3-gqa4-f32", "--speculate", "7", "--backend", "optimized", "--device", "emulated"];
    assert_ran!(refused(&optimized), "speculate_optimized");
    let chunked = refused(&["m3-gqa4-f32", "--speculate", "7", "--chunk", "3"]);
    assert!(chunked.says("cannot be used with"), "{chunked}");
}
