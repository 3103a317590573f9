//! What helps to type: completions and manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use tools::commands::options::word;

use super::{assert_refused, listing, parity};

#[test]
fn every_shell_completes_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = parity(Path::new("."), &["completions", shell]);
        assert_eq!(ran.code, Some(0), "{ran}");
        for said in ["verify", "diagnose", "mistakes", "precision", "coverage"] {
            assert!(ran.stdout.contains(said), "{shell}: {said}");
        }
    }
    assert_refused(&parity(Path::new("."), &["completions", "csh"]), &["csh"]);
}

/// Bash takes the script, and completes by it.
#[test]
fn bash_completes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = parity(folder.path(), &["completions", "bash"]).stdout;
    fs::write(folder.path().join("parity.bash"), script).expect("writable");
    let ask =
        ". ./parity.bash; COMP_WORDS=(parity ver); COMP_CWORD=1; _parity parity ver parity; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["--norc", "-c", ask]).current_dir(folder.path()).output();
    let said = String::from_utf8(bash.expect("bash is there").stdout).expect("UTF-8");
    assert_eq!(said.trim(), "verify");
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["man", "--out", "man"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let pages = listing(&folder.path().join("man"));
    for page in ["parity.1", "parity-verify.1", "parity-fixtures-verify.1", "parity-mistakes.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    let page = fs::read_to_string(folder.path().join("man/parity-verify.1")).expect("written");
    assert!(page.contains(".TH") && page.contains("\\-\\-coverage") && page.contains("\\-\\-resume"), "{page}");
}

/// What a report says to type again.
#[test]
fn only_what_a_shell_reads_otherwise_is_quoted() {
    for plain in ["m2-gqa3-f32", "@tokens.json", "1,2,3", "transformers_bf16,rope=once", "/data/größe/a_b.safetensors"]
    {
        assert_eq!(word(&plain), plain);
    }
    assert_eq!(word(&"my models/m2"), "'my models/m2'");
}

proptest! {
    #[test]
    fn a_shell_reads_each_argument_as_it_was(argument in "[^\0]{0,20}") {
        prop_assert_eq!(shlex::split(&word(&argument)), Some(vec![argument]));
    }
}
