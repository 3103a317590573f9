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

/// What `check` writes of a model and of each of its modules.
fn reports_of(json: &Path) -> Vec<Value> {
    let text = fs::read_to_string(json).expect("it was written");
    let reports: Value = serde_json::from_str(&text).expect("it is JSON");
    reports["reports"].as_array().expect("a list").clone()
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

/// The same on the CUDA path, whose tokens with drafts are its own without, and are held by caches that were rolled back.
#[test]
fn built_in_cases_on_the_emulated_device() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let on_device = ["--backend", "optimized", "--device", "emulated", "-n", "10"];
    for (case, drafts) in [("m2-gqa3-f32", "3"), ("m3-gqa4-f32", "7")] {
        let found = report(folder.path(), &[&[case, "--speculate", drafts][..], &on_device].concat());
        let plain = report(folder.path(), &[&[case][..], &on_device].concat());
        assert_eq!(found["decode"], plain["decode"]);
        let speculation = &found["speculation"];
        assert_eq!(speculation["plain"], plain["decode"]["tokens"]);
        assert_eq!((&speculation["modules"], &speculation["drafted"][0]), (&"made".into(), &speculation["rounds"]));
    }
    let typed = [&["decode", "m3-gqa4-f32", "--speculate", "7"][..], &on_device].concat();
    assert_ran!(parity(folder.path(), &typed), "decode_speculate_on_device");
}

/// Every module of a checkpoint is checked beside the model; on the device some of its drafts are accepted.
#[test]
fn a_synthetic_checkpoint_on_the_emulated_device() {
    for (case, semantics, has) in [
        ("m2-gqa3-f32", "released", 2),
        ("m3-gqa4-f32", "released", 1),
        ("m3-gqa4-f32", "released,mtp_topology=hf_generic", 2),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = tests::repository::path("fixtures/golden").join(case).join("model");
        let config = config.display().to_string();
        let made = parity(folder.path(), &["synth", &config, "--mtp-modules", "2", "--out", "made"]);
        assert_eq!(made.code, Some(0), "{made}");
        let shown = parity(folder.path(), &["show", "made"]);
        let is_of_modules = |line: &str| line.split_whitespace().eq(["num_mtp_modules", "2"]);
        assert!(shown.stdout.lines().any(is_of_modules), "{shown}");
        let typed = ["made", "--tokens", "1,2,3,4,5,6,7,8,9", "--semantics", semantics, "--device", "emulated"];
        let checked =
            parity(folder.path(), &[&["check", "--decode", "5", "--json", "check.json"], &typed[..]].concat());
        assert_eq!(checked.code, Some(0), "{checked}");
        let reports = reports_of(&folder.path().join("check.json"));
        let names: Vec<String> = reports.iter().map(|report| report["header"]["model"].to_string()).collect();
        let modules = (0..has).map(|number| format!("\"made, MTP module {number}\""));
        assert_eq!(names, ["\"made\"".to_owned()].into_iter().chain(modules).collect::<Vec<_>>(), "{semantics}");
        if semantics == "released" && case == "m3-gqa4-f32" {
            let alone = ["check", "--sites", "model.eh_proj", "--json", "alone.json"];
            let alone = parity(folder.path(), &[&alone, &typed[..]].concat());
            assert_eq!(alone.code, Some(0), "{alone}");
            let reports = reports_of(&folder.path().join("alone.json"));
            assert_eq!(reports.len(), 1, "{alone}");
            assert_eq!(reports[0]["header"]["model"], "made, MTP module 0");
            let sites = reports[0]["sites"].as_array().expect("a list");
            // Something is said of it: a matrix of zeros would be inconclusive.
            let told = |site: &Value| site["site"] == "model.eh_proj" && site["verdict"] != "inconclusive";
            assert!(!sites.is_empty() && sites.iter().all(told), "{sites:?}");
        }
        let drafts = if has == 1 { "7" } else { "2" };
        let typed = [&typed[..], &["--backend", "optimized", "--speculate", drafts, "-n", "24"]].concat();
        let speculation = report(folder.path(), &typed)["speculation"].clone();
        let sum = |name: &str| -> u64 {
            speculation[name].as_array().expect("a list").iter().map(|n| n.as_u64().expect("a count")).sum()
        };
        assert!(0 < sum("accepted") && sum("accepted") < sum("drafted"), "{semantics}: {speculation}");
    }
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

/// What is announced and is not there is said, and how the released checkpoints are.
#[test]
fn modules_that_are_announced_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    let shown = parity(folder.path(), &["show", "model"]);
    let said = "config.json announces 3 modules of multi-token prediction, and the checkpoint has 0; those released of M2.7 and M3 \
                have none";
    assert!(shown.code == Some(0) && shown.stdout.contains(said), "{shown}");
    let made = parity(folder.path(), &["synth", "model", "--mtp-modules", "3", "--out", "made"]);
    assert_eq!(made.code, Some(0), "{made}");
    assert!(!parity(folder.path(), &["show", "made"]).stdout.contains("announces"));
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
    let on_device = ["--backend", "optimized", "--device", "emulated"];
    let lacking = refused(&[&["model", "--tokens", "1,2", "--speculate", "3"][..], &on_device].concat());
    assert!(lacking.says("the checkpoint has no modules of multi-token prediction"), "{lacking}");
    let slip = ["--semantics", "released,mtp_concat=hidden_first"];
    let slipping = refused(&[&["m3-gqa4-f32", "--speculate", "7"][..], &slip, &on_device].concat());
    assert!(slipping.says("the kernels compute"), "{slipping}");
    let chunked = refused(&["m3-gqa4-f32", "--speculate", "7", "--chunk", "3"]);
    assert!(chunked.says("cannot be used with"), "{chunked}");
}
