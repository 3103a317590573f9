//! `run --resume`: a run of the reference that was interrupted goes on at the layer where it was, and writes the same.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::spawn;
use crate::cli::{Ran, assert_refused, listing, parity, program};

/// A run whose phases are kept.
fn resumed(folder: &Path, arguments: &[&str]) -> Ran {
    parity(folder, &[&["run"], arguments, &["--resume", "kept", "--out", "x.safetensors"]].concat())
}

/// What a run writes that keeps nothing.
fn whole(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let ran = parity(folder, &[&["run"], arguments, &["--out", "whole.safetensors"]].concat());
    assert_eq!(ran.code, Some(0), "{ran}");
    written(folder, "whole")
}

fn written(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name).with_extension("safetensors")).expect("it was written")
}

/// The phases that are done.
fn done(folder: &Path) -> Vec<String> {
    let names = if folder.join("kept").exists() { listing(&folder.join("kept")) } else { Vec::new() };
    names.iter().filter_map(|name| name.strip_suffix(".sha256").map(str::to_owned)).collect()
}

#[test]
fn a_killed_run_goes_on_and_writes_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let run = ["m3-gqa4-f32", "--decode", "24", "--steps"];
    let whole = whole(folder, &run);
    let (begun, command) = (Instant::now(), ["--resume", "kept", "--out", "x.safetensors"]);
    let mut child = spawn(folder, &[&["run"], &run[..], &command].concat());
    while done(folder).len() < 5 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing was kept");
        assert_eq!(child.try_wait().expect("it was begun"), None, "it ended by itself");
        sleep(Duration::from_millis(1));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(!folder.join("x.safetensors").exists());
    let kept = folder.join("kept/call-0-start.safetensors");
    let before = fs::metadata(&kept).and_then(|file| file.modified()).expect("it is done");
    let ran = resumed(folder, &run);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(written(folder, "x") == whole);
    assert_eq!(fs::metadata(&kept).and_then(|file| file.modified()).expect("it is there"), before);
}

/// Whatever a phase leaves to the next: features of images, sums before they were rounded, keys of an index branch; in f32, too.
#[test]
fn each_phase_can_be_the_last_that_was_done() {
    for run in [
        &["m3-gqa4-f32", "--precision", "f32", "--decode", "2"][..],
        &["vision-both-f32", "--sites", "layers.1.*"],
        &["m2-sharded-bf16", "--precision", "vllm_bf16", "--layers", "1.."],
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folder = folder.path();
        let whole = whole(folder, run);
        assert_eq!(resumed(folder, run).code, Some(0));
        for phase in ["call-0-start", "call-0-layer-0", "call-0-head"] {
            fs::remove_file(folder.join("kept").join(phase).with_extension("sha256")).expect("it is done");
            fs::remove_file(folder.join("x.safetensors")).expect("it was written");
            let ran = resumed(folder, run);
            assert_eq!(ran.code, Some(0), "{ran}");
            assert!(written(folder, "x") == whole, "{run:?} {phase}");
        }
    }
}

#[test]
fn what_is_damaged_is_computed_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let run = ["m2-gqa3-f32"];
    assert_eq!(resumed(folder, &run).code, Some(0));
    let whole = written(folder, "x");
    let file = folder.join("kept/call-0-layer-1.safetensors");
    let damages: [fn(&mut Vec<u8>); 2] = [|bytes| bytes.truncate(bytes.len() / 2), |bytes| bytes[900] ^= 1];
    for damage in damages {
        let mut bytes = fs::read(&file).expect("it is kept");
        damage(&mut bytes);
        fs::write(&file, bytes).expect("writable");
        let ran = resumed(folder, &run);
        assert!(ran.says("call-0-layer-1.safetensors is damaged, and done again: its hash is another"), "{ran}");
        assert!(written(folder, "x") == whole);
    }
}

#[test]
fn a_folder_of_another_run_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    assert_eq!(resumed(folder, &["m2-gqa3-f32", "--tokens", "1,2,3"]).code, Some(0));
    for (run, words) in [
        (&["m2-mha-top1-f32", "--tokens", "1,2,3"][..], "is of another model: fingerprint"),
        (&["m2-gqa3-f32", "--tokens", "1,2,4"], "is of another prompt: fingerprint"),
        (&["m2-gqa3-f32", "--tokens", "1,2,3", "--precision", "f32"], "is of another precision: f64, this is f32"),
        (
            &["m2-gqa3-f32", "--tokens", "1,2,3", "--semantics", "documents,norm_order=rope_first"],
            "is of another reading of the documents: ",
        ),
        (&["m2-gqa3-f32", "--tokens", "1,2,3", "--layers", "1"], "is of another choice of what is written: all, this"),
    ] {
        assert_refused(&resumed(folder, run), &["kept: ", words, "another folder"]);
    }
    let verify = ["verify", "m2-gqa3-f32", "--lens", "local", "--resume", "kept"];
    assert_refused(&parity(folder, &verify), &["kept: is of parity run, this is parity verify"]);
    let optimized = ["m2-gqa3-f32", "--backend", "optimized", "--device", "emulated"];
    assert_refused(&resumed(folder, &optimized), &["--resume: the CUDA path's runs are not kept"]);
}

/// A disk that is full ends it at once; what was done before is of use when there is room again.
#[test]
fn a_run_that_cannot_be_written_ends_and_goes_on_later() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let run = ["run", "m2-gqa3-f32", "--resume", "kept", "--out", "x.safetensors"];
    let ran = limited(folder, 32, &run);
    assert_refused(&ran, &["cannot write: File too large"]);
    let before = done(folder).len();
    assert!(before < 4 && !folder.join("x.safetensors").exists(), "{before}");
    assert_eq!(parity(folder, &run).code, Some(0));
    assert!(written(folder, "x") == whole(folder, &run[1..2]));
}

/// An archive that does not fit is refused like any other file, in one message and no more.
#[test]
fn an_archive_that_does_not_fit_is_said_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = limited(folder.path(), 400, &["run", "m2-gqa3-f32", "--out", "x.npz", "-q"]);
    assert_refused(&ran, &["x.npz: cannot write", "File too large"]);
    assert!(!ran.stderr.contains("ZipWriter"), "{ran}");
    assert!(fs::read_dir(folder.path()).expect("readable").next().is_none(), "nothing is left");
}

/// The program where no file may have more than so many blocks of 512 bytes, of which a write tells as of a full disk.
fn limited(folder: &Path, blocks: u32, arguments: &[&str]) -> Ran {
    let mut limited = std::process::Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    limited.args(["-c", &script]).arg(program(folder, &[]).get_program());
    Ran::of(limited.args(arguments).current_dir(folder).output().expect("a shell"))
}
