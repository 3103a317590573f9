//! `git bisect run` with `tools/bisect/step`, in a repository in which one commit brings a mistake.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::repository;

use super::Ran;
use super::reports::change_values;

const CASE: &str = "m2-mha-top1-f32";

/// Git, in a repository that no configuration of this machine reaches.
fn git(folder: &Path, arguments: &[&str]) -> Ran {
    let path = format!("{}:{}", folder.join("../bin").display(), std::env::var("PATH").expect("there is one"));
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]).args(arguments);
    git.current_dir(folder).env("PATH", path).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git.env_remove("GIT_DIR");
    Ran::of(git.output().expect("git is there"))
}

/// A repository of which each commit gives one of the dumps beside it.
fn engine(folder: &Path) -> PathBuf {
    let repository = folder.join("engine");
    fs::create_dir(&repository).expect("writable");
    fs::create_dir(folder.join("bin")).expect("writable");
    symlink(env!("CARGO_BIN_EXE_program"), folder.join("bin/parity")).expect("writable");
    change_values(CASE, &folder.join("right.safetensors"), |_, _| ());
    change_values(CASE, &folder.join("wrong.safetensors"), |name, values| {
        if name == "model.layers.0.self_attn.q_norm" {
            values[3] += 0.5;
        }
    });
    git(&repository, &["init", "--quiet"]);
    for (number, made) in ["right", "right", "right", "none", "right", "wrong", "wrong"].into_iter().enumerate() {
        let text = format!("cp ../{made}.safetensors ../d.safetensors # {number}\n");
        fs::write(repository.join("engine.sh"), text).expect("writable");
        git(&repository, &["add", "."]);
        let ran = git(&repository, &["commit", "--quiet", "--message", &format!("change {number}")]);
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    repository
}

/// Commit 3 gives no dump, and git looks elsewhere; 5 is the first that is wrong.
#[test]
fn the_commit_that_brought_a_mistake_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let repository = engine(folder.path());
    let step = repository::path("tools/bisect/step");
    let step = step.to_str().expect("UTF-8");
    let verify = ["parity", "verify", CASE, "../d.safetensors", "--lens", "local"];
    let diff = ["parity", "diff", "../d.safetensors", "../right.safetensors", "--limit", "0"];
    for judged in [&verify[..], &diff] {
        let ran = git(&repository, &["bisect", "start", "HEAD", "HEAD~6"]);
        assert_eq!(ran.code, Some(0), "{ran}");
        let ran = git(&repository, &[&["bisect", "run", step, "sh engine.sh"], judged].concat());
        assert_eq!(ran.code, Some(0), "{ran}");
        let log = git(&repository, &["bisect", "log"]).stdout;
        let skipped = log.lines().find(|line| line.starts_with("# skip: "));
        assert!(skipped.is_some_and(|line| line.ends_with("change 3")), "{log}");
        let first = log.lines().find(|line| line.starts_with("# first bad commit: "));
        assert!(first.is_some_and(|line| line.ends_with("change 5")), "{log}");
        assert_eq!(git(&repository, &["bisect", "reset"]).code, Some(0));
    }
}
