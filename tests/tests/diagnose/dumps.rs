//! What the transformers library computes with one known mistake is named, mostly from the layers' outputs alone.

use std::collections::BTreeMap;
use std::fmt::Write;

use insta::assert_snapshot;
use rayon::prelude::*;
use tests::witness::{self, Witness};
use tools::diagnose::catalogue::list;

fn all_are_named(of: impl Fn(&Witness) -> bool + Sync) {
    let witnesses: Vec<Witness> = witness::all().into_iter().filter(&of).collect();
    assert!(!witnesses.is_empty(), "there is no such dump");
    let wrong: Vec<String> = witnesses.par_iter().filter_map(Witness::misjudged).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_m2_are_named() {
    all_are_named(|witness| witness.case.starts_with("m2"));
}

#[test]
fn of_m3_are_named() {
    all_are_named(|witness| witness.case.starts_with("m3") && witness.file.is_some());
}

#[test]
fn of_the_vision_tower_are_named() {
    all_are_named(|witness| witness.case.starts_with("vision"));
}

#[test]
fn one_choice_for_all_heads_is_told_from_one_a_group() {
    all_are_named(|witness| witness.file.is_none());
}

/// A mistake that only this project's own code has made would be recognised by the change that made it.
#[test]
#[expect(clippy::print_stdout, reason = "the table is for reading")]
fn every_known_mistake_was_made_by_another_implementation() {
    let mut made: BTreeMap<&str, Vec<String>> = list::all().map(|mistake| (mistake.name, Vec::new())).collect();
    for witness in witness::all() {
        let known = made.get_mut(witness.mistake.as_str());
        known.unwrap_or_else(|| panic!("{witness}: {} is in no catalogue", witness.mistake)).push(witness.to_string());
    }
    let mut table = String::new();
    for (mistake, witnesses) in &made {
        let _ = writeln!(table, "{mistake}: {}", witnesses.join("; "));
    }
    println!("{table}");
    let lacking: Vec<&&str> = made.iter().filter(|(_, made)| made.is_empty()).map(|(mistake, _)| mistake).collect();
    assert!(lacking.is_empty(), "no witness: {lacking:?}; make one with tools/oracle/make_mistakes.py");
    assert_snapshot!(table);
}
