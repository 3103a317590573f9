//! `--resume`: a command that was interrupted goes on where it was.

mod runs;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::reports::change_values;
use super::{assert_refused, listing, parity, program};

const VERIFY: [&str; 4] = ["verify", "m3-gqa4-f32", "--resume", "kept"];

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = program(folder, arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program was built")
}

/// The units that are kept.
fn units(folder: &Path) -> Vec<String> {
    let names = if folder.join("kept").exists() { listing(&folder.join("kept")) } else { Vec::new() };
    names.into_iter().filter(|name| name.starts_with("request-")).collect()
}

/// The report of a single command, and its exit code.
fn whole(folder: &Path) -> (Option<i32>, Vec<u8>) {
    let ran = parity(folder, &["verify", "m3-gqa4-f32", "--json", "whole.json"]);
    (ran.code, fs::read(folder.join("whole.json")).expect("it was written"))
}

#[test]
fn a_killed_command_goes_on_and_says_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let (code, whole) = whole(folder);
    let resumed = [&VERIFY[..], &["--json", "resumed.json"]].concat();
    for wanted in [1, 3] {
        let (begun, mut child) = (Instant::now(), spawn(folder, &resumed));
        while units(folder).len() < wanted {
            assert!(begun.elapsed() < Duration::from_mins(1), "nothing was kept");
            assert_eq!(child.try_wait().expect("it was begun"), None, "it ended by itself");
            sleep(Duration::from_millis(1));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(!folder.join("resumed.json").exists());
    }
    let ran = parity(folder, &resumed);
    assert!(ran.says("done already: "), "{ran}");
    assert_eq!(ran.code, code);
    assert!(fs::read(folder.join("resumed.json")).expect("it was written") == whole);
    let temporary = listing(&folder.join("kept")).into_iter().find(|name| name.starts_with('.'));
    assert_eq!(temporary, None, "what was killed leaves nothing");
}

#[test]
fn what_is_damaged_is_done_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let verify = ["verify", "m2-gqa3-f32", "--lens", "local", "--resume", "kept", "--json", "x.json"];
    assert_eq!(parity(folder, &verify).code, Some(0));
    let first = fs::read(folder.join("x.json")).expect("it was written");
    let kept = units(folder);
    assert_eq!(kept, ["request-0-layers-0-1.unit", "request-0-layers-1-2.unit"]);
    let damages: [fn(&mut Vec<u8>); 3] =
        [|bytes| bytes.truncate(bytes.len() / 2), |bytes| bytes[70] ^= 1, |bytes| bytes.clear()];
    for damage in damages {
        let path = folder.join("kept").join(&kept[1]);
        let mut bytes = fs::read(&path).expect("it is kept");
        damage(&mut bytes);
        fs::write(&path, bytes).expect("writable");
        let ran = parity(folder, &verify);
        assert!(ran.says("request-0-layers-1-2.unit is damaged, and done again"), "{ran}");
        assert!(ran.says("done already: 1 of 2 units of work"), "{ran}");
        assert!(fs::read(folder.join("x.json")).expect("it was written") == first);
    }
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let dump = folder.join("x.safetensors");
    change_values("m2-gqa3-f32", &dump, |_, _| ());
    let verify = ["verify", "m2-gqa3-f32", "x.safetensors", "--lens", "local", "--resume", "kept"];
    assert_eq!(parity(folder, &verify).code, Some(0));
    for (arguments, words) in [
        (&["verify", "m2-mha-top1-f32", "--lens", "local"][..], "kept: is of another model: fingerprint"),
        (&["verify", "m2-gqa3-f32", "--lens", "local"], "kept: is of another dump: fingerprint"),
        (
            &["verify", "m2-gqa3-f32", "x.safetensors"],
            "kept: is of another choice of lenses: local, this is local, layer",
        ),
        (
            &["verify", "m2-gqa3-f32", "x.safetensors", "--lens", "local", "--precision", "eager_f32"],
            "kept: is of another precision: ",
        ),
    ] {
        assert_refused(&parity(folder, &[arguments, &["--resume", "kept"]].concat()), &[words, "another folder"]);
    }
    let bytes = fs::read(&dump).expect("it is there");
    fs::write(&dump, bytes).expect("writable");
    assert_refused(&parity(folder, &verify), &["kept: files of the dump were written again since it was begun"]);
    fs::create_dir(folder.join("mine")).expect("writable");
    fs::write(folder.join("mine/thesis.txt"), "").expect("writable");
    let mine = ["verify", "m2-gqa3-f32", "--resume", "mine"];
    assert_refused(&parity(folder, &mine), &["mine: has thesis.txt and no parity-resume.json"]);
}

/// Shards that share a folder do each unit once, whatever their number.
#[test]
fn shards_find_what_others_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let shard = |shard: &str| {
        let verify = ["verify", "m2-gqa3-f32", "--lens", "local", "--resume", "kept", "--json", "x.json"];
        parity(folder, &[&verify[..], &["--shard", shard]].concat())
    };
    assert_eq!((shard("1/2").code, units(folder).len()), (Some(0), 1));
    let ran = shard("1/1");
    assert!(ran.says("done already: 1 of 2 units of work"), "{ran}");
}
