//! What `--help` teaches.

use std::path::Path;

use super::{assert_ran, parity};

#[test]
fn every_command_explains_itself() {
    assert_ran!(parity(Path::new("."), &["--help"]), "help");
    for command in [
        "check",
        "run",
        "verify",
        "merge",
        "diagnose",
        "prompt",
        "diff",
        "decode",
        "claims",
        "account",
        "op",
        "synth",
        "convert",
        "show",
        "kernels",
        "bench",
        "tune",
        "fixtures",
        "demo",
        "mistakes",
        "completions",
        "man",
    ] {
        assert_ran!(parity(Path::new("."), &[command, "--help"]), format!("help_{command}"));
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for arguments in
        [&["verfy"][..], &["check", "--devise", "cuda"], &["decode"], &["decode", "m2-gqa3-f32", "--top-k", "3"]]
    {
        assert_eq!(parity(Path::new("."), arguments).code, Some(2), "{arguments:?}");
    }
}
