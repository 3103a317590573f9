//! On GitHub Actions: annotations, the step's summary, and the action of `tools/action`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tests::repository;

use super::reports::change_values;
use super::{Ran, assert_refused, case, parity, program};

/// Verifies values of which one norm's are off, or none, as a step of a job whose summary was begun.
fn step(folder: &Path, factor: f32, more: &[&str]) -> (Ran, String) {
    let name = "m2-mha-top1-f32";
    let off = |tensor: &str, values: &mut Vec<f32>| {
        if tensor == "model.layers.1.self_attn.q_norm" {
            for value in values {
                *value *= factor;
            }
        }
    };
    change_values(name, &folder.join("dump.safetensors"), off);
    fs::write(folder.join("summary.md"), "before\n").expect("writable");
    let tokens = format!("@{}", case(name).join("case.json").display());
    let verify = ["verify", name, "dump.safetensors", "--tokens", &tokens, "--lens", "local"];
    let mut command = program(folder, &[&verify, more].concat());
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", "summary.md");
    let ran = Ran::of(command.output().expect("the program was built"));
    (ran, fs::read_to_string(folder.join("summary.md")).expect("it is there"))
}

#[test]
fn a_fault_is_an_annotation_and_in_the_summary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ran, summary) = step(folder.path(), 2.0, &[]);
    assert_eq!(ran.code, Some(1), "{ran}");
    let title = "parity%3A m2-mha-top1-f32%3A fault at model.layers.1.self_attn.q_norm under the local lens";
    let (report, told) = ran.stdout.split_once("\n::").expect("annotations");
    assert!(told.starts_with(&format!("error title={title}::")), "{ran}");
    assert!(report.lines().last().is_some_and(|line| line.starts_with("FAIL  ")), "after the report: {ran}");
    assert!(summary.starts_with("before\n## parity: FAIL\n"), "{summary}");
    assert!(summary.contains("- **fault** `model.layers.1.self_attn.q_norm` under the local lens\n"), "{summary}");
    let (ran, _) = step(folder.path(), 2.0, &["--json", "-"]);
    assert!(serde_json::from_str::<serde_json::Value>(&ran.stdout).is_ok() && ran.says(title), "{ran}");
}

#[test]
fn what_is_right_is_in_the_summary_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ran, summary) = step(folder.path(), 1.0, &[]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(!ran.stdout.contains("::"), "{ran}");
    assert!(summary.starts_with("before\n## parity: PASS\n\n| model |"), "{summary}");
    let elsewhere = parity(folder.path(), &["verify", "m2-mha-top1-f32", "--lens", "local"]);
    assert_eq!(elsewhere.code, Some(0), "{elsewhere}");
    assert_eq!(fs::read_to_string(folder.path().join("summary.md")).expect("it is there"), summary);
}

#[test]
fn what_cannot_be_read_or_written_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = program(folder.path(), &["verify", "m2-mha-top1-f32", "gone.npz", "--json", "-"]);
    let ran = Ran::of(command.env("GITHUB_ACTIONS", "true").output().expect("the program was built"));
    assert_refused(&ran, &["::error title=parity::gone.npz"]);
    assert_eq!(ran.stdout, "", "{ran}");
    let mut command = program(folder.path(), &["verify", "m2-mha-top1-f32", "--lens", "local"]);
    let ran = Ran::of(command.env("GITHUB_STEP_SUMMARY", "/dev/full").output().expect("the program was built"));
    assert_refused(&ran, &["GITHUB_STEP_SUMMARY /dev/full: cannot append: No space left on device"]);
}

#[test]
fn a_diagnosis_names_the_mistake_in_an_annotation_and_in_the_summary() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let witness = repository::path("fixtures/golden-mistakes/m2-gqa3-f32/eps_outside.safetensors");
    let witness = witness.to_str().expect("UTF-8");
    let mut command = program(folder.path(), &["diagnose", "m2-gqa3-f32", witness, "--json", "-"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", folder.path().join("summary.md"));
    let ran = Ran::of(command.output().expect("the program was built"));
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(serde_json::from_str::<serde_json::Value>(&ran.stdout).is_ok(), "{ran}");
    assert!(ran.says("::error title=parity%3A m2-gqa3-f32%3A eps_outside explains the fault at model."), "{ran}");
    let summary = fs::read_to_string(folder.path().join("summary.md")).expect("it is there");
    assert!(summary.contains("### eps\\_outside explains the fault at model"), "{summary}");
    let right = case("m2-gqa3-f32").join("expected.safetensors");
    let mut command = program(folder.path(), &["diagnose", "m2-gqa3-f32", right.to_str().expect("UTF-8")]);
    let ran = Ran::of(command.env("GITHUB_ACTIONS", "true").output().expect("the program was built"));
    assert!(ran.code == Some(0) && !ran.says("::"), "{ran}");
}

/// What the action runs once parity is built.
#[test]
fn the_action_verifies_what_its_inputs_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("bin")).expect("writable");
    symlink(env!("CARGO_BIN_EXE_program"), folder.path().join("bin/parity")).expect("writable");
    let dump = folder.path().join("a dump.safetensors");
    change_values("m2-mha-top1-f32", &dump, |_, _| ());
    let tokens = format!("@{}", case("m2-mha-top1-f32").join("case.json").display());
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").expect("there is one"));
    let run = |inputs: [&str; 6]| {
        let mut bash = Command::new("bash");
        bash.arg(repository::path("tools/action/verify.sh")).current_dir(folder.path()).env("PATH", &path);
        bash.env_remove("GITHUB_ACTIONS").env_remove("GITHUB_STEP_SUMMARY");
        bash.envs(["MODEL", "DUMP", "TOKENS", "DENY", "HTML", "ARGUMENTS"].into_iter().zip(inputs));
        Ran::of(bash.output().expect("bash is there"))
    };
    let local = "--lens\nlocal\n";
    let ran = run(["m2-mha-top1-f32", "a dump.safetensors", &tokens, "missing", "a page.html", local]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stdout.contains("candidate  a dump.safetensors") && ran.stdout.contains("denied: "), "{ran}");
    assert!(folder.path().join("a page.html").exists());
    assert_eq!(run(["m2-mha-top1-f32", "", "", "", "", local]).code, Some(0));
    assert_refused(&run(["m2-mha-top1-f32", "", "", "", "", "--lenses\nlocal"]), &["unexpected argument '--lenses'"]);
    let action = fs::read_to_string(repository::path("tools/action/action.yml")).expect("it is there");
    for input in ["model", "dump", "tokens", "deny", "html", "arguments"] {
        let [declared, given] =
            [format!("\n  {input}:\n"), format!("        {}: ${{{{ inputs.{input} }}}}\n", input.to_uppercase())];
        assert!(action.contains(&declared) && action.contains(&given), "{input}");
    }
}
