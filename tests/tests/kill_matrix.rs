//! Each known mistake, made by an implementation that is otherwise right, is noticed, placed and named.
//!
//! The implementation is the reference with a mistake, computing in f32 and rounding as f32 and bf16 engines do. What no
//! site shows beyond its bound is invisible on that case; everything else must be a fault whose operators the mistake
//! touches, and must be named, alone or among mistakes that leave as little unexplained.

use std::fmt::Write;

use insta::assert_snapshot;
use rayon::prelude::*;
use reference::{RoundingContract, Site};
use tests::mistaken::Setting;
use tools::catalogue::Assumed;

/// What became of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Invisible,
    Named,
    AmongEquals,
    Unnamed,
    Misplaced,
}

/// Right but for one mistake.
fn fate(setting: &Setting, assumed: &Assumed) -> Fate {
    let diagnosis = setting.diagnose(&setting.with(std::slice::from_ref(assumed)));
    let Some(first) = diagnosis.explained.first() else {
        return if diagnosis.unexplained.is_none() { Fate::Invisible } else { Fate::Unnamed };
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
    let settings = [
        Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32),
        Setting::of("m2-f16-weights-f32", RoundingContract::EAGER_F32),
        Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16),
    ];
    let mut table = String::new();
    for setting in settings {
        let right = setting.diagnose(&setting.with(&[]));
        assert!(right.unexplained.is_none() && right.explained.is_empty(), "{}: {right:#?}", setting.name());
        let mistakes = setting.mistakes();
        let fates: Vec<Fate> = mistakes.par_iter().map(|assumed| fate(&setting, assumed)).collect();
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        let all = [Fate::Named, Fate::AmongEquals, Fate::Invisible, Fate::Unnamed, Fate::Misplaced];
        let totals: Vec<String> = all.map(|fate| format!("{} {fate:?}", count(fate))).to_vec();
        println!("{}: {}", setting.name(), totals.join(", "));
        let _ = writeln!(table, "\n{}: {}\n", setting.name(), totals.join(", "));
        for (assumed, fate) in mistakes.iter().zip(fates) {
            let _ = writeln!(table, "{assumed} {fate:?}");
        }
    }
    let failed = |line: &&str| line.ends_with(") Unnamed") || line.ends_with(") Misplaced");
    let failed: Vec<&str> = table.lines().filter(failed).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_snapshot!(table);
}
