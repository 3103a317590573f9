//! Each known mistake, made by an implementation that is otherwise right, is noticed, placed and named.
//!
//! The implementation is the reference with a mistake, computing in f32 and rounding as f32 and bf16 engines do. What
//! changes no value is invisible on that case; everything else must be a fault whose operators the mistake touches, and
//! must be named, alone or among mistakes that leave as little unexplained. Each is named on some case, but for those that only
//! several calls show: of these the dumps of another implementation have some (`diagnose/dumps.rs`).
//!
//! Every mistake of text models is made in f32 and in bf16: in f32 in M2, whose ways are told apart, and what is not named there
//! in M3; in bf16 one way of each in M3, and what is not named there in M2.

use std::collections::BTreeSet;
use std::fmt::Write;

use insta::assert_snapshot;
use rayon::prelude::*;
use reference::{RoundingContract, Semantics, Site};
use tests::mistaken::{Setting, needs_calls};
use tools::diagnose::catalogue::list;
use tools::diagnose::catalogue::mistake::Assumed;
use tools::judge::candidate::Live;

/// How many of the cases come first, on which every mistake is made; on the others, those that are not named yet.
const FIRST: usize = 6;

/// What became of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It changes no value at all.
    Invisible,
    Missed,
    Named,
    AmongEquals,
    Unnamed,
    Misplaced,
}

/// Right but for one mistake. What is right has no fault.
fn fate(setting: &Setting, right: &Live, assumed: &Assumed) -> Fate {
    let made = setting.with(std::slice::from_ref(assumed));
    if made == *right {
        return Fate::Invisible;
    }
    let diagnosis = setting.diagnose(&made);
    let Some(first) = diagnosis.explained.first() else {
        return if diagnosis.unexplained.is_none() { Fate::Missed } else { Fate::Unnamed };
    };
    let suspects: Vec<Site> = first.fault.segment.iter().copied().chain([first.fault.site]).collect();
    if !assumed.mistake.touches(&suspects) {
        return Fate::Misplaced;
    }
    let named = first.name == assumed.mistake.name && diagnosis.left == 0;
    match named {
        true if first.equivalent.is_empty() => Fate::Named,
        true => Fate::AmongEquals,
        false if first.equivalent.iter().any(|other| *other == assumed.to_string()) => Fate::AmongEquals,
        false => Fate::Unnamed,
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the totals are for reading")]
fn kill_matrix() {
    let settings = vec![
        Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32),
        Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32),
        Setting::of("m3-sharded-bf16", RoundingContract::EAGER_BF16),
        Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16),
        Setting::of("vision-images-f32", RoundingContract::EAGER_F32),
        Setting::of("vision-video-f32", RoundingContract::EAGER_F32),
        Setting::of("m2-f16-weights-f32", RoundingContract::EAGER_F32),
        Setting::beside("m2-square-f32", RoundingContract::EAGER_F32),
        Setting::beside("m3-main-index-f32", RoundingContract::EAGER_F32),
        Setting { reading: Some(Semantics::DOCUMENTS), ..Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32) },
    ];
    let mut table = String::new();
    let mut of_text = BTreeSet::new();
    // In f32, and in bf16.
    let mut named: [BTreeSet<&str>; 2] = Default::default();
    for (place, setting) in settings.into_iter().enumerate() {
        let right = setting.with(&[]);
        let of_right = setting.diagnose(&right);
        assert!(of_right.unexplained.is_none() && of_right.explained.is_empty(), "{}: {of_right:#?}", setting.name());
        // What a text model can have wrong is made in the cases of text, and in those of images what is left; in the last
        // cases only what none before them shows.
        let mut mistakes = setting.mistakes();
        let is_coarse = usize::from(setting.contract == RoundingContract::EAGER_BF16);
        let is_named = |name: &str, of: &[BTreeSet<&str>]| of.iter().any(|named| named.contains(name));
        match setting.case.pixels().expect("readable") {
            None if place >= FIRST => mistakes.retain(|assumed| !is_named(assumed.mistake.name, &named)),
            None => of_text.extend(mistakes.iter().map(|assumed| assumed.mistake.name)),
            Some(_) => mistakes.retain(|assumed| !of_text.contains(assumed.mistake.name)),
        }
        mistakes.retain(|assumed| !is_named(assumed.mistake.name, &named[is_coarse..=is_coarse]));
        if is_coarse == 1 {
            let mut made = BTreeSet::new();
            mistakes.retain(|assumed| made.insert(assumed.mistake.name));
        }
        let fates: Vec<Fate> = mistakes.par_iter().map(|assumed| fate(&setting, &right, assumed)).collect();
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        let all = [Fate::Named, Fate::AmongEquals, Fate::Invisible, Fate::Missed, Fate::Unnamed, Fate::Misplaced];
        let totals: Vec<String> = all.map(|fate| format!("{} {fate:?}", count(fate))).to_vec();
        println!("{}: {}", setting.name(), totals.join(", "));
        let _ = writeln!(table, "\n{}: {}\n", setting.name(), totals.join(", "));
        for (assumed, fate) in mistakes.iter().zip(fates) {
            if fate == Fate::Named {
                named[is_coarse].insert(assumed.mistake.name);
            }
            let _ = writeln!(table, "{assumed} {fate:?}");
        }
    }
    let failed = |line: &&str| [") Missed", ") Unnamed", ") Misplaced"].iter().any(|fate| line.ends_with(fate));
    let failed: Vec<&str> = table.lines().filter(failed).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let only_in_calls = |name: &str| {
        let ways = || table.lines().filter(|line| line.starts_with(&format!("{name} (")));
        needs_calls(name) && ways().count() > 0 && ways().all(|line| line.ends_with(") Invisible"))
    };
    let lacking =
        list::all().map(|mistake| mistake.name).filter(|name| !named.iter().any(|named| named.contains(name)));
    let unnamed: BTreeSet<&str> = lacking.filter(|name| !only_in_calls(name)).collect();
    assert!(unnamed.is_empty(), "named on no case: {unnamed:?}");
    assert_snapshot!(table);
}
