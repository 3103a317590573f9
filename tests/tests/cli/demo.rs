//! `parity demo`, the first contact.

use std::fs;

use super::{assert_ran, assert_refused, listing, parity};
use crate::report::page::{parsed, stands_alone};

#[test]
fn it_shows_a_mistake_and_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["demo"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(!ran.stdout.contains('\u{1b}'), "no colours where nobody looks");
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{ran}");
    assert_ran!(ran, "demo");
    let made = folder.path().join("parity-demo");
    assert_eq!(listing(&made), ["diagnosis.html", "dump.safetensors", "report.html"]);
    for page in ["diagnosis.html", "report.html"] {
        stands_alone(&parsed(&fs::read_to_string(made.join(page)).expect("written")));
    }
    // What it says to type does what it says.
    let typed = ran.stdout.lines().filter_map(|line| line.strip_prefix("  parity "));
    let codes: Vec<Option<i32>> = typed
        .map(|typed| {
            let arguments: Vec<&str> = typed.split_whitespace().collect();
            let ran = parity(folder.path(), &arguments);
            assert!(ran.stdout.contains("rope_interleaved") == (arguments[0] != "verify"), "{ran}");
            ran.code
        })
        .collect();
    assert_eq!(codes, [Some(1), Some(1), Some(0)]);
}

#[test]
fn its_own_files_are_replaced_and_no_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = folder.path().join("d");
    for mistake in ["no_renorm", "gelu_tanh"] {
        let ran = parity(folder.path(), &["demo", mistake, "--out", "d"]);
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(ran.stdout.contains(&format!("mistake   {mistake} (")), "{ran}");
    }
    fs::write(made.join("notes.txt"), "mine").expect("writable");
    assert_eq!(parity(folder.path(), &["demo", "--out", "d"]).code, Some(0));
    assert_eq!(fs::read_to_string(made.join("notes.txt")).expect("there"), "mine");
    fs::write(made.join("dump.safetensors"), "mine").expect("writable");
    let ran = parity(folder.path(), &["demo", "--out", "d"]);
    assert_refused(&ran, &["is there already, and `parity demo` did not write it", "--out DIR"]);
    assert_eq!(fs::read_to_string(made.join("dump.safetensors")).expect("there"), "mine");
}

/// A port that rotates other channels, or chooses other numbers of experts or blocks, has values of other shapes.
#[test]
fn mistakes_of_other_shapes_are_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for mistake in ["rope_full_128", "head_max_selection", "topk_k_wrong"] {
        let ran = parity(folder.path(), &["demo", mistake]);
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(ran.stdout.contains(&format!("mistake   {mistake} (")), "{ran}");
    }
}

#[test]
fn what_cannot_be_made_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_refused(
        &parity(folder.path(), &["demo", "no_renom"]),
        &["no_renom is no known mistake", "did you mean no_renorm?"],
    );
    let square = ["`parity mistakes w2_transposed` tells in which models", "cannot be made"];
    assert_refused(&parity(folder.path(), &["demo", "w2_transposed"]), &square);
    assert_eq!(listing(folder.path()), [""; 0]);
}

/// What goes wrong between calls is shown by a port that decodes.
#[test]
fn mistakes_of_several_calls_are_shown() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for mistake in ["rope_restarted", "rope_missing_in_decode", "kv_cache_read_narrow"] {
        let ran = parity(folder.path(), &["demo", mistake]);
        assert_eq!(ran.code, Some(0), "{ran}");
        assert!(ran.stdout.contains(&format!("mistake   {mistake} (")), "{ran}");
    }
}
