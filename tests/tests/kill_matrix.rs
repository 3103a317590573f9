//! Each known mistake, made by an implementation that is otherwise right, is noticed, placed and named.
//!
//! The implementation is the reference with a mistake, computing in f32 and rounding as f32 and bf16 engines do. What no
//! changes no value is invisible on that case; everything else must be a fault whose operators the mistake touches, and
//! must be named, alone or among mistakes that leave as little unexplained.

use std::collections::BTreeSet;
use std::fmt::Write;

use insta::assert_snapshot;
use rayon::prelude::*;
use reference::config::{Config, Index};
use reference::{RoundingContract, Semantics, Site};
use tests::memory::{Memory, tiny_m3};
use tests::mistaken::{Setting, computed};
use tools::diagnose::catalogue::assumption::Assumption;
use tools::diagnose::catalogue::list;
use tools::diagnose::catalogue::mistake::{Assumed, Clue};
use tools::diagnose::diagnosis::diagnose;
use tools::diagnose::evidence::Evidence;

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

/// Right but for one mistake.
fn fate(setting: &Setting, assumed: &Assumed) -> Fate {
    let made = setting.with(std::slice::from_ref(assumed));
    let diagnosis = setting.diagnose(&made);
    let Some(first) = diagnosis.explained.first() else {
        let unseen = if made == setting.with(&[]) { Fate::Invisible } else { Fate::Missed };
        return if diagnosis.unexplained.is_none() { unseen } else { Fate::Unnamed };
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
        Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32),
        Setting::of("m3-sharded-bf16", RoundingContract::EAGER_BF16),
        Setting::of("vision-images-f32", RoundingContract::EAGER_F32),
        Setting::of("vision-video-f32", RoundingContract::EAGER_F32),
    ];
    let mut table = String::new();
    let mut of_text = BTreeSet::new();
    for setting in settings {
        let right = setting.diagnose(&setting.with(&[]));
        assert!(right.unexplained.is_none() && right.explained.is_empty(), "{}: {right:#?}", setting.name());
        // What a text model can have wrong is made in the cases of text, and in those of images what is left.
        let mut mistakes = setting.mistakes();
        match setting.case.pixels().expect("readable") {
            None => of_text.extend(mistakes.iter().map(|assumed| assumed.mistake.name)),
            Some(_) => mistakes.retain(|assumed| !of_text.contains(assumed.mistake.name)),
        }
        let fates: Vec<Fate> = mistakes.par_iter().map(|assumed| fate(&setting, assumed)).collect();
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        let all = [Fate::Named, Fate::AmongEquals, Fate::Invisible, Fate::Missed, Fate::Unnamed, Fate::Misplaced];
        let totals: Vec<String> = all.map(|fate| format!("{} {fate:?}", count(fate))).to_vec();
        println!("{}: {}", setting.name(), totals.join(", "));
        let _ = writeln!(table, "\n{}: {}\n", setting.name(), totals.join(", "));
        for (assumed, fate) in mistakes.iter().zip(fates) {
            let _ = writeln!(table, "{assumed} {fate:?}");
        }
    }
    let failed = |line: &&str| [") Missed", ") Unnamed", ") Misplaced"].iter().any(|fate| line.ends_with(fate));
    let failed: Vec<&str> = table.lines().filter(failed).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_snapshot!(table);
}

#[test]
fn a_prompt_that_is_long_enough_shows_a_position_in_bf16() {
    let mut setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    setting.case.tokens = setting.case.tokens.iter().copied().cycle().take(300).collect();
    assert_eq!(fate(&setting, &setting.mistake("rope_bf16_position")), Fate::Named);
}

/// No built-in case has index heads as wide as attention's.
#[test]
fn keys_of_attention_are_told_in_the_index_branch() {
    let m3 = tiny_m3();
    let config = Config { index: m3.index.map(|index| Index { head_dim: m3.head_dim, ..index }), ..m3 };
    let (memory, contract) = (Memory::random(&config, 1), RoundingContract::EAGER_F32);
    let right = Assumption::none(Semantics::RELEASED);
    let mut all = list::all().flat_map(|mistake| mistake.cases(&config, Clue::default()));
    let assumed = all.find(|assumed| assumed.mistake.name == "index_k_from_main_k").expect("it can be made here");
    let wrong = right.and(assumed).expect("it can be assumed");
    let tokens: Vec<u32> = (0..20).map(|i| i * i % 37).collect();
    let weights = wrong.weights(&config, &memory);
    let made = computed(&wrong.model(&config, &weights).expect("it fits"), &tokens, contract);
    let evidence = Evidence {
        config: &config,
        weights: &memory,
        candidate: &made,
        contract,
        semantics: right.semantics,
        steps: &[tokens],
        media: None,
    };
    let diagnosis = diagnose(&evidence, |_| ()).expect("it can be put next to the reference");
    let named: Vec<&str> = diagnosis.explained.iter().map(|explained| explained.name).collect();
    assert_eq!((named, diagnosis.left), (vec!["index_k_from_main_k"], 0), "{diagnosis:#?}");
}
