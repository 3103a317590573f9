//! Commands that are stopped while they write, by a signal that can be answered or by one that cannot.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{case, listing, parity, program};

/// What the names of temporaries begin with.
const TEMPORARY: &str = ".unfinished-parity-";

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = program(folder, arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program was built")
}

fn temporaries(folder: &Path) -> usize {
    listing(folder).iter().filter(|name| name.starts_with(TEMPORARY)).count()
}

/// Waits until a command has begun to write.
fn wait_for_temporaries(folder: &Path, child: &mut Child) {
    let begun = Instant::now();
    while temporaries(folder) == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "nothing was begun");
        assert_eq!(child.try_wait().expect("it was begun"), None, "it ended by itself");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_signal_leaves_nothing_unfinished() {
    let large = fs::read_to_string(case("m2-mha-top1-f32").join("model/config.json")).expect("readable");
    let large = large.replace("\"vocab_size\": 211", "\"vocab_size\": 2000000");
    let long = ["run", "m2-mha-top1-f32", "--decode", "100000", "--out"];
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for arguments in [
            [&long[..], &["x.safetensors"]].concat(),
            [&long[..], &["x.npz"]].concat(),
            [&long[..], &["x"]].concat(),
            vec!["synth", "config.json", "--out", "x"],
            vec!["decode", "m2-mha-top1-f32", "-n", "100000", "--json", "x"],
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            fs::write(folder.path().join("config.json"), &large).expect("writable");
            let mut child = spawn(folder.path(), &arguments);
            wait_for_temporaries(folder.path(), &mut child);
            let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status();
            assert!(sent.expect("a shell").success());
            assert_eq!(child.wait().expect("it ends").code(), Some(code), "{arguments:?}");
            assert_eq!(listing(folder.path()), ["config.json"], "{arguments:?} {signal}");
        }
    }
}

#[test]
fn the_next_run_removes_what_was_left() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = |name: &str| folder.path().join(name);
    let left = [format!("{TEMPORARY}a1b2c3"), format!("{TEMPORARY}D4e5F6")];
    let kept = [format!("{TEMPORARY}inUse0"), format!("{TEMPORARY}thesis.txt"), ".unfinished-abcdef".to_owned()];
    fs::write(place(&left[0]), "half").expect("writable");
    fs::create_dir(place(&left[1])).expect("writable");
    fs::write(place(&left[1]).join("inside"), "half").expect("writable");
    for name in &kept {
        fs::write(place(name), "").expect("writable");
    }
    let in_use = File::open(place(&kept[0])).expect("there");
    in_use.try_lock().expect("nobody else has it");
    let ran = parity(folder.path(), &["show", "m2-mha-top1-f32", "--json", "x.json"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let [in_use_name, others @ ..] = &kept;
    let with_result = |names: &[&String]| {
        let mut names: Vec<String> = names.iter().map(|name| (*name).clone()).chain(["x.json".to_owned()]).collect();
        names.sort();
        names
    };
    let [one, other] = others;
    assert_eq!(listing(folder.path()), with_result(&[in_use_name, one, other]));
    drop(in_use);
    assert_eq!(parity(folder.path(), &["show", "m2-mha-top1-f32", "--json", "x.json"]).code, Some(0));
    assert_eq!(listing(folder.path()), with_result(&[one, other]));
}

/// Two commands that write into one folder at once leave one another's files alone.
#[test]
fn a_concurrent_run_s_temporaries_stay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut long = spawn(folder.path(), &["run", "m2-mha-top1-f32", "--decode", "100000", "--out", "x.npz"]);
    wait_for_temporaries(folder.path(), &mut long);
    let ran = parity(folder.path(), &["show", "m2-mha-top1-f32", "--json", "x.json"]);
    assert_eq!((ran.code, temporaries(folder.path())), (Some(0), 1), "{ran}");
    long.kill().expect("it runs");
    long.wait().expect("it ends");
    assert_eq!(temporaries(folder.path()), 1, "nobody could remove it");
    assert_eq!(parity(folder.path(), &["show", "m2-mha-top1-f32", "--json", "x.json"]).code, Some(0));
    assert_eq!(listing(folder.path()), ["x.json"]);
}

/// Every command that writes, and what it writes.
const WRITING: [(&[&str], &[&str]); 9] = [
    (&["run", "m2-mha-top1-f32", "--decode", "2", "--out", "x.safetensors"], &["x.safetensors"]),
    (&["run", "m2-mha-top1-f32", "--decode", "2", "--steps", "--out", "x.npz"], &["x.npz"]),
    (&["run", "m2-mha-top1-f32", "--out", "x"], &["x"]),
    (&["synth", "config.json", "--shard-size", "1e-5", "--out", "x"], &["x"]),
    (&["decode", "m2-mha-top1-f32", "-n", "4", "--json", "x.json"], &["x.json"]),
    (&["show", "m2-mha-top1-f32", "--json", "x.json"], &["x.json"]),
    (&["diff", "a.npz", "b.npz", "--json", "x.json"], &["x.json"]),
    (&["diagnose", "m2-mha-top1-f32", "a.npz", "--json", "x.json"], &["x.json"]),
    (
        &["verify", "m2-mha-top1-f32", "--json", "x.json", "--html", "x.html", "--junit", "x.xml"],
        &["x.json", "x.html", "x.xml"],
    ),
];

/// What is at a path: a file's bytes, or those of the files in a folder.
type Content = Option<BTreeMap<String, Vec<u8>>>;

fn content(path: &Path) -> Content {
    if path.is_dir() {
        let file = |name: String| (name.clone(), fs::read(path.join(name)).expect("readable"));
        return Some(listing(path).into_iter().map(file).collect());
    }
    Some(BTreeMap::from([(String::new(), fs::read(path).ok()?)]))
}

/// Removes what is at a path, if anything is.
fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    assert!(removed.is_ok() || !path.exists());
}

/// Kills each command so many times at random points. Each time there is what was there before, or all of what is written;
/// and a run that is not killed leaves nothing else.
#[expect(clippy::print_stdout, reason = "the figure is what a long run is for")]
fn kill(times: usize, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = case("m2-mha-top1-f32").join("model/config.json");
    fs::copy(config, folder.path().join("config.json")).expect("writable");
    for (precision, out) in [("f64", "a.npz"), ("f32", "b.npz")] {
        let run = ["run", "m2-mha-top1-f32", "--precision", precision, "--out", out];
        assert_eq!(parity(folder.path(), &run).code, Some(0));
    }
    let inputs = listing(folder.path());
    let mut completed = 0;
    for (arguments, outputs) in WRITING {
        let begun = Instant::now();
        let ran = parity(folder.path(), arguments);
        assert_eq!(ran.code, Some(0), "{ran}");
        let duration = begun.elapsed();
        let whole: Vec<Content> = outputs.iter().map(|name| content(&folder.path().join(name))).collect();
        let is_folder = folder.path().join(outputs[0]).is_dir();
        for _ in 0..times {
            let mut before = Vec::new();
            for name in outputs {
                let path = folder.path().join(name);
                remove(&path);
                if !is_folder {
                    fs::write(&path, "before").expect("writable");
                }
                before.push(content(&path));
            }
            let mut child = spawn(folder.path(), arguments);
            sleep(duration.mul_f64(random.random_range(0.0..1.1)));
            child.kill().expect("it was begun");
            child.wait().expect("it ends");
            for ((name, before), whole) in outputs.iter().zip(&before).zip(&whole) {
                let found = content(&folder.path().join(name));
                assert!(found == *before || found == *whole, "{arguments:?}: half of {name} is there (seed {seed})");
                completed += usize::from(found == *whole);
            }
        }
        for name in outputs {
            remove(&folder.path().join(name));
        }
        assert_eq!(parity(folder.path(), arguments).code, Some(0));
        let left: Vec<String> = listing(folder.path()).into_iter().filter(|name| !inputs.contains(name)).collect();
        let mut expected: Vec<&str> = outputs.to_vec();
        expected.sort_unstable();
        assert_eq!(left, expected, "{arguments:?}");
        for name in outputs {
            remove(&folder.path().join(name));
        }
    }
    println!("{} kills, after which {completed} files were whole and new", times * WRITING.len());
}

#[test]
fn a_killed_command_leaves_the_old_or_the_new() {
    kill(2, 7);
}

/// `cargo test -p tests --test main -- --ignored --nocapture a_thousand_kills`
#[test]
#[ignore = "takes minutes"]
fn a_thousand_kills_leave_the_old_or_the_new() {
    kill(112, 1);
}
