//! The job files of `tools/jobs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tests::repository;

use super::{Ran, listing, parity};

/// A task of the Slurm array, as Slurm runs it.
fn task(folder: &Path, number: usize) -> Ran {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").expect("there is one"));
    let mut bash = Command::new("bash");
    bash.arg(repository::path("tools/jobs/slurm.sh")).args(["2", "m2-mha-top1-f32", "--lens", "local"]);
    bash.current_dir(folder).env("PATH", path).env("SLURM_ARRAY_TASK_ID", number.to_string());
    Ran::of(bash.output().expect("bash is there"))
}

#[test]
fn the_tasks_of_a_slurm_array_are_shards() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(folder.path().join("bin")).expect("writable");
    symlink(env!("CARGO_BIN_EXE_program"), folder.path().join("bin/parity")).expect("writable");
    for number in [1, 2] {
        let ran = task(folder.path(), number);
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    assert_eq!(listing(&folder.path().join("shards")), ["1.json", "2.json", "kept"]);
    let merged = parity(folder.path(), &["merge", "shards/1.json", "shards/2.json"]);
    assert_eq!(merged.code, Some(0), "{merged}");
    let single = parity(folder.path(), &["verify", "m2-mha-top1-f32", "--lens", "local"]);
    assert_eq!(merged.stdout, single.stdout);
    let again = task(folder.path(), 2);
    assert!(again.says("done already: 1 of 1 unit of work"), "{again}");
}

/// Kubernetes counts from 0, and its file has the number of shards in three places.
#[test]
fn the_pods_of_a_kubernetes_job_are_shards() {
    let text = fs::read_to_string(repository::path("tools/jobs/kubernetes.yaml")).expect("it is there");
    let after = |words: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(words)).expect("it says so");
        line.trim_matches('"').parse::<usize>().expect("a number")
    };
    assert_eq!([after("completions: "), after("parallelism: "), after("value: ")], [16; 3]);
    assert!(text.contains("--shard \"$((JOB_COMPLETION_INDEX + 1))/$SHARDS\""));
}
