//! Each known mistake, made by an implementation that is otherwise right, is noticed, placed and named.
//!
//! The implementation is the reference with a mistake, rounding as f32 and as bf16 engines do. What no site shows beyond
//! its bound is invisible on that case; everything else must be a fault whose operators the mistake touches, and must be
//! named, alone or among mistakes that leave as little unexplained.

use fixtures::golden::{Case, Golden};
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{RoundingContract, Semantics, Site, Tracked};
use tools::candidate::Live;
use tools::catalogue::assumption::Assumption;
use tools::catalogue::{self, Assumed, Clue};
use tools::diagnose::{Diagnosis, Evidence, diagnose};

/// Keeps what it sees.
#[derive(Default)]
struct Recorder(Live);

impl Probe<f32> for Recorder {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        self.0.value(site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        self.0.choices(site, chosen.clone());
    }
}

/// A golden case's model, and how an implementation of it rounds.
struct Setting {
    case: Case,
    contract: RoundingContract,
}

/// What became of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Invisible,
    Named,
    AmongEquals,
    Unnamed,
    Misplaced,
}

fn settings() -> Vec<Setting> {
    let golden = Golden::embedded();
    let case = |name| golden.case(name).expect("it is built in");
    let with = |name, contract| Setting { case: case(name), contract };
    vec![
        with("m2-gqa3-f32", RoundingContract::EAGER_F32),
        with("m2-f16-weights-f32", RoundingContract::EAGER_F32),
        with("m2-gqa3-f32", RoundingContract::EAGER_BF16),
        with("m2-sharded-bf16", RoundingContract::EAGER_BF16),
    ]
}

impl Setting {
    fn name(&self) -> String {
        format!("{} {}", self.case.name, self.contract)
    }

    /// What an implementation with these mistakes computes of the case's prompt.
    fn run(&self, assumption: &Assumption) -> Live {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let weights = assumption.weights(checkpoint.config(), &checkpoint);
        let model = assumption.model(checkpoint.config(), &weights).expect("the mistake can be made here");
        let mut recorder = Recorder::default();
        let mut cache = KvCache::new(checkpoint.config().num_hidden_layers);
        let mut run = Run::<f32>::new(self.contract, &mut recorder);
        model.forward(&self.case.tokens, &mut cache, &mut run).expect("it runs");
        recorder.0
    }

    fn diagnose(&self, candidate: &Live) -> Diagnosis {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let evidence = Evidence {
            config: checkpoint.config(),
            weights: &checkpoint,
            candidate,
            contract: self.contract,
            semantics: Semantics::DOCUMENTS,
            steps: std::slice::from_ref(&self.case.tokens),
        };
        diagnose(&evidence, || ()).expect("it can be put next to the reference")
    }

    fn mistakes(&self) -> Vec<Assumed> {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let clue = Clue { position: self.case.tokens.len() / 2 };
        catalogue::all().flat_map(|mistake| mistake.cases(checkpoint.config(), clue)).collect()
    }

    fn fate(&self, assumed: &Assumed) -> Fate {
        let none = Assumption::none(Semantics::DOCUMENTS);
        let diagnosis = self.diagnose(&self.run(&none.and(assumed.clone()).expect("it can be assumed")));
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
}

#[test]
#[expect(clippy::print_stdout, reason = "the matrix is for reading")]
fn kill_matrix() {
    let mut bad = Vec::new();
    for setting in settings() {
        let right = setting.diagnose(&setting.run(&Assumption::none(Semantics::DOCUMENTS)));
        assert!(right.unexplained.is_none() && right.explained.is_empty(), "{}: {right:#?}", setting.name());
        let mut counts = [0; 5];
        for assumed in setting.mistakes() {
            let fate = setting.fate(&assumed);
            counts[fate as usize] += 1;
            println!("{:40} {:60} {fate:?}", setting.name(), assumed.to_string());
            if matches!(fate, Fate::Unnamed | Fate::Misplaced) {
                bad.push(format!("{}: {assumed} {fate:?}", setting.name()));
            }
        }
        let [invisible, named, among_equals, unnamed, misplaced] = counts;
        println!(
            "{}: {named} named, {among_equals} among equals, {invisible} invisible, {unnamed} unnamed, {misplaced} misplaced",
            setting.name()
        );
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
