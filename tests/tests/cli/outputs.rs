//! Where output goes: standard output, links, pipes, and what cannot be written.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use fixtures::activations::dump::Dump;
use serde_json::Value;

use super::{Ran, assert_refused, case, listing, parity, program};

/// A comparison that is done at once; of its own values, so that there is no fault.
const VERIFY: [&str; 4] = ["verify", "m2-mha-top1-f32", "--lens", "local"];

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON")
}

/// A named pipe, whose name is kept.
fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("coreutils are there").success());
}

#[test]
fn standard_output_that_is_full_is_no_success() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = case("m2-mha-top1-f32").join("expected.safetensors");
    let dump = dump.to_str().expect("UTF-8");
    let config = case("m2-mha-top1-f32").join("model");
    for arguments in [
        &VERIFY[..],
        &["check", "m2-mha-top1-f32", "--layers", "0", "--decode", "0", "--device", "emulated"],
        &["run", "m2-mha-top1-f32", "--decode", "1", "--out", "run.npz"],
        &["diagnose", "m2-mha-top1-f32", dump],
        &["diff", dump, dump],
        &["decode", "m2-mha-top1-f32", "-n", "1"],
        &["synth", config.to_str().expect("UTF-8"), "--out", "made"],
        &["show", dump],
        &["claims"],
        &["fixtures", "list"],
        &["--help"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").expect("the system has it");
        let ran = program(folder.path(), arguments).stdout(Stdio::from(full)).output();
        let ran = Ran::of(ran.expect("the program was built"));
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran}");
        let is_help = arguments[0].starts_with("--");
        assert!(is_help || ran.says("standard output: cannot write: No space left on device"), "{arguments:?}: {ran}");
    }
}

/// As `| head` does. What was compared counts.
#[test]
fn standard_output_that_is_closed_ends_quietly() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for precision in ["f64", "eager_bf16"] {
        let out = format!("{precision}.npz");
        let run = ["run", "m2-mha-top1-f32", "--precision", precision, "--layers", "1", "--out", &out];
        assert_eq!(parity(folder.path(), &run).code, Some(0));
    }
    for (arguments, code) in [
        (&["diff", "f64.npz", "f64.npz"][..], 0),
        (&["diff", "f64.npz", "eager_bf16.npz", "--limit", "0"], 1),
        (&["show", "f64.npz", "--json", "-"], 0),
    ] {
        let mut child = program(folder.path(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        drop(child.stdout.take());
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        let ran = Ran::of(Output { status, stdout: Vec::new(), stderr });
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran}");
        assert!(!ran.stderr.contains("rror") && !ran.stderr.contains("panicked"), "{arguments:?}: {ran}");
    }
}

#[test]
fn a_link_keeps_leading_to_what_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("kept")).expect("writable");
    fs::write(place("kept/there.json"), "before").expect("writable");
    for (link, target) in [("there", "kept/there.json"), ("new", "kept/new.json"), ("twice", "new"), ("f", "kept/made")]
    {
        symlink(target, place(link)).expect("writable");
    }
    for link in ["there", "new", "twice"] {
        let ran = parity(folder.path(), &[&VERIFY[..], &["--json", link]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(fs::symlink_metadata(place(link)).expect("there").is_symlink(), "{link}");
        assert_eq!(json(&place(link))["reports"][0]["schema"], 3, "{link}");
    }
    let ran = parity(folder.path(), &["run", "m2-mha-top1-f32", "--out", "f"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(fs::symlink_metadata(place("f")).expect("there").is_symlink());
    assert_eq!(listing(&place("kept")), ["made", "new.json", "there.json"]);
}

#[test]
fn a_pipe_is_written_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = ["run", "m2-mha-top1-f32", "--layers", "0"];
    let written = |arguments: &[&str], name: &str| {
        let path = folder.path().join(name);
        pipe(&path);
        let read = thread::spawn(move || fs::read(path).expect("a pipe can be read"));
        let ran = parity(folder.path(), arguments);
        assert_eq!(ran.code, Some(0), "{ran}");
        let kind = fs::metadata(folder.path().join(name)).expect("there").file_type();
        assert!(kind.is_fifo(), "{name} is still a pipe");
        read.join().expect("its writer is done")
    };
    for (option, name) in [("--json", "x.json"), ("--html", "x.html"), ("--junit", "x.xml")] {
        let bytes = written(&[&VERIFY[..], &[option, name]].concat(), name);
        let begin = ["{", "<!DOCTYPE html>", "<?xml"].iter().any(|begin| bytes.starts_with(begin.as_bytes()));
        assert!(begin && bytes.len() > 1000, "{name}");
    }
    for name in ["x.safetensors", "x.npz", "any"] {
        let bytes = written(&[&run[..], &["--out", name]].concat(), name);
        let copy = folder.path().join(if name == "x.npz" { "copy.npz" } else { "copy.safetensors" });
        fs::write(&copy, bytes).expect("writable");
        assert!(Dump::open(&copy).expect("a whole dump").names().count() > 10, "{name}");
    }
    let pipes = ["any", "x.html", "x.json", "x.npz", "x.safetensors", "x.xml"];
    assert_eq!(listing(folder.path()).iter().filter(|name| !name.starts_with("copy")).collect::<Vec<_>>(), pipes);
}

/// What is for reading goes to standard error then.
#[test]
fn standard_output_may_be_a_file_s() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["-", "/dev/stdout"] {
        let ran = parity(folder.path(), &[&VERIFY[..], &["--json", name]].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        let report: Value = serde_json::from_str(&ran.stdout).expect("nothing but JSON");
        assert_eq!(report["reports"][0]["schema"], 3);
        assert!(ran.stderr.contains("PASS"), "{ran}");
    }
    // A file by its name and as standard output: one must not replace the other.
    let out = File::create(folder.path().join("out.json")).expect("writable");
    let ran =
        program(folder.path(), &[&VERIFY[..], &["--json", "out.json"]].concat()).stdout(Stdio::from(out)).status();
    assert_eq!(ran.expect("the program was built").code(), Some(0));
    assert_eq!(json(&folder.path().join("out.json"))["reports"][0]["schema"], 3);
    let run = ["run", "m2-mha-top1-f32", "--layers", "0", "--decode", "2", "--out", "-"];
    let ran = program(folder.path(), &run).output().expect("the program was built");
    assert_eq!(ran.status.code(), Some(0));
    fs::write(folder.path().join("copy.safetensors"), ran.stdout).expect("writable");
    assert!(Dump::open(&folder.path().join("copy.safetensors")).expect("a whole dump").names().count() > 10);
    assert_eq!(listing(folder.path()), ["copy.safetensors", "out.json"]);
}

/// By whatever names; said before the work, for there is no such model.
#[test]
fn two_outputs_are_two_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    symlink("x", folder.path().join("link")).expect("writable");
    pipe(&folder.path().join("pipe"));
    fs::create_dir(folder.path().join("f")).expect("writable");
    for (one, two) in
        [("x", "x"), ("x", "./x"), ("f/../x", "x"), ("link", "x"), ("-", "/dev/stdout"), ("pipe", "f/../pipe")]
    {
        for [a, b] in [["--json", "--html"], ["--html", "--junit"], ["--junit", "--json"]] {
            let ran = parity(folder.path(), &["verify", "no-such-model", a, one, b, two]);
            assert_refused(&ran, &["are the same file, expected two", one, two]);
        }
        let ran = parity(folder.path(), &["diagnose", "no-such-model", "no-dump", "--json", one, "--html", two]);
        assert_refused(&ran, &["are the same file, expected two", one, two]);
        assert_eq!(listing(folder.path()), ["f", "link", "pipe"]);
    }
}

/// Also where a link leads to it, and whichever of the two is opened first.
#[test]
fn what_is_read_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let of = case("m2-mha-top1-f32");
    fs::create_dir(folder.path().join("model")).expect("writable");
    for (from, to) in [
        ("model/config.json", "model/config.json"),
        ("model/model.safetensors", "model/model.safetensors"),
        ("expected.safetensors", "dump.safetensors"),
    ] {
        fs::copy(of.join(from), folder.path().join(to)).expect("a case has it");
    }
    symlink("dump.safetensors", folder.path().join("link")).expect("writable");
    for (name, text) in [("tokens.json", "[1, 2, 3]"), ("names.json", "{}"), ("shard.json", "{}")] {
        fs::write(folder.path().join(name), text).expect("writable");
    }
    let verify = ["verify", "model", "dump.safetensors", "--tokens", "@tokens.json", "--lens", "local"];
    let own = ["verify", "m2-mha-top1-f32", "--lens", "local", "--names", "names.json", "--json", "names.json"];
    for (arguments, read) in [
        ([&verify[..], &["--json", "dump.safetensors"]].concat(), "dump.safetensors"),
        ([&verify[..], &["--html", "link"]].concat(), "dump.safetensors"),
        ([&verify[..], &["--junit", "model/config.json"]].concat(), "model/config.json"),
        ([&verify[..], &["--parquet", "model/model.safetensors"]].concat(), "model/model.safetensors"),
        ([&verify[..], &["--json", "tokens.json"]].concat(), "tokens.json"),
        (own.to_vec(), "names.json"),
        (vec!["merge", "shard.json", "--json", "shard.json"], "shard.json"),
        (vec!["diff", "dump.safetensors", "dump.safetensors", "--json", "dump.safetensors"], "dump.safetensors"),
        (vec!["run", "model", "--tokens", "1,2", "--out", "model/model.safetensors"], "model/model.safetensors"),
    ] {
        let before = fs::read(folder.path().join(read)).expect("it is there");
        let ran = parity(folder.path(), &arguments);
        assert!(ran.code == Some(2) && ran.says("name another file for the output"), "{arguments:?}: {ran}");
        assert!(fs::read(folder.path().join(read)).expect("it is there") == before, "{arguments:?}");
    }
}

/// In the words of `config.json`, layers that are alike together.
#[test]
fn a_configuration_is_shown_as_it_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (model, expected) in [
        ("m2-gqa3-f32", &["rope_theta 5000000", "rms_norm_eps 1e-6", "layers 0-1: full attention, experts"][..]),
        (
            "m3-gqa4-f32",
            &["index branch 2 heads of", "0-1: full attention, dense network; 2-3: block-sparse attention, experts"],
        ),
        ("vision-images-f32", &["vision: spatial_merge_size 2"]),
    ] {
        let ran = parity(folder.path(), &["show", model]);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(expected.iter().all(|words| said.contains(words)), "{expected:?}: {ran}");
    }
}
