//! `tools/src/tune` and `optimized/src/tuning.rs`.

mod cost;
mod proofs;
mod resumed;

use std::collections::BTreeMap;

use optimized::emulated::Counts;
use optimized::kernel::Kernel;
use optimized::kernel::alternatives::{ALTERNATIVES, Alternatives, why_not};
use optimized::kernel::table::{KERNELS, LINEAR_64_BF16, RMS_NORM, SAMPLING};
use optimized::tuning::Launched;
use reference::evolution::is_kept;
use tools::failure::Failure;
use tools::tune::cost::{Cost, Limit};
use tools::tune::evolve::{Asked, Proof, Subject, begun, evolve};
use tools::tune::history::{History, State, Verdict};
use tools::tune::space::{Parameter, Space};

const ASKED: Asked = Asked { rounds: 120, threshold: 0.01, seed: 3 };

/// A launch of a kernel's entry, of which nothing is known.
fn launched(kernel: Kernel, entry: &str) -> Launched {
    Launched { kernel, entry: entry.to_owned(), counts: Counts::default() }
}

fn tiles() -> Space {
    Space::of(&[launched(LINEAR_64_BF16, "linear_tiles")])
}

/// An operator whose cost is a formula.
struct Formula {
    space: Space,
    /// Microseconds of settings.
    cost: fn(&[u32]) -> f64,
    /// Whether settings are right.
    right: fn(&[u32]) -> bool,
    /// What was evaluated.
    evaluated: Vec<Vec<u32>>,
}

impl Subject for Formula {
    fn space(&self) -> &Space {
        &self.space
    }

    fn prove(&mut self, settings: &[u32]) -> Result<Proof, Failure> {
        Ok(if (self.right)(settings) { Proof::Right } else { Proof::Wrong("it is not".to_owned()) })
    }

    fn evaluate(&mut self, settings: &[u32]) -> Result<Result<Cost, String>, Failure> {
        self.evaluated.push(settings.to_vec());
        Ok(Ok(Cost { microseconds: (self.cost)(settings), limit: Limit::Memory }))
    }
}

/// Rows, columns, warps down and across, stages: best at large tiles and many stages.
fn formula() -> Formula {
    let cost = |settings: &[u32]| 1e6 / f64::from(settings[0] * settings[1] + 64 * settings[4]);
    Formula { space: tiles(), cost, right: |_| true, evaluated: Vec::new() }
}

fn run(subject: &mut Formula, asked: Asked) -> (History, State) {
    let mut history = begun(subject, asked, BTreeMap::new(), None).unwrap_or_else(|error| panic!("{error}"));
    let state = evolve(subject, asked, &mut history, |_| Ok(())).unwrap_or_else(|error| panic!("{error}"));
    (history, state)
}

#[test]
fn the_best_is_found_and_each_flag_says_what_was_decided() {
    for seed in 0..20 {
        let (history, state) = run(&mut formula(), Asked { seed, ..ASKED });
        assert_eq!([0, 1, 4].map(|i| state.evolution.state()[i]), [128, 256, 8], "seed {seed}");
        let mut best = 1.0;
        for round in &history.rounds {
            let score = round.score.expect("it was evaluated");
            assert_eq!(round.kept, is_kept(score, best, ASKED.threshold), "seed {seed}, round {}", round.round);
            assert_eq!(round.kept, round.verdict == Verdict::Kept);
            best = if round.kept { score } else { best };
        }
    }
}

/// The fastest are all wrong: none is evaluated, let alone kept.
#[test]
fn what_is_wrong_is_never_evaluated() {
    let mut subject = Formula { right: |settings| settings[1] < 128, ..formula() };
    let (history, state) = run(&mut subject, ASKED);
    assert!(subject.evaluated.iter().all(|settings| settings[1] < 128));
    let wrong: Vec<_> = history.rounds.iter().filter(|round| round.verdict == Verdict::Wrong).collect();
    assert!(!wrong.is_empty());
    assert!(
        wrong.iter().all(|round| !round.kept && round.cost.is_none() && round.score.is_none() && round.why.is_some())
    );
    assert_eq!(state.evolution.state()[1], 64);
}

#[test]
fn kernels_that_are_wrong_as_they_are_are_not_tuned() {
    let mut subject = Formula { right: |_| false, ..formula() };
    let error = begun(&mut subject, ASKED, BTreeMap::new(), None).expect_err("the baseline is wrong");
    assert!(error.to_string().contains("as they are") && subject.evaluated.is_empty());
}

/// A time that is no number is reverted; a baseline of it is refused.
#[test]
fn what_is_no_number_is_never_kept() {
    let mut subject = Formula { cost: |settings| if settings[4] == 4 { 10.0 } else { f64::NAN }, ..formula() };
    let (history, state) = run(&mut subject, ASKED);
    assert!(history.rounds.iter().all(|round| !round.kept));
    assert_eq!(state.evolution.state(), &subject.space.defaults());
    let mut subject = Formula { cost: |_| f64::NAN, ..formula() };
    assert!(begun(&mut subject, ASKED, BTreeMap::new(), None).is_err());
}

/// 4 values of rows, 4 of columns, 3 and 4 of warps, 4 of stages: 14 changes of one, then of two, and none is tried twice.
#[test]
fn nothing_is_tried_twice() {
    let mut subject = Formula { cost: |_| 1.0, ..formula() };
    let asked = Asked { rounds: 1000, ..ASKED };
    let (history, _) = run(&mut subject, asked);
    let mut tried: Vec<_> = history.rounds.iter().map(|round| &round.parameters).collect();
    let singles = history.rounds.iter().take_while(|round| !round.change.contains(", ")).count();
    let count = tried.len();
    tried.sort();
    tried.dedup();
    // 4·3 + 4 changes of one parameter, and of two the sum of their products.
    assert_eq!((singles, tried.len(), count), (16, 16 + 102, 16 + 102));
}

#[test]
fn the_same_seed_draws_the_same() {
    let changes = |seed| run(&mut formula(), Asked { seed, ..ASKED }).0.rounds;
    assert_eq!(changes(5), changes(5));
    assert_ne!(changes(5), changes(6));
}

/// What the table has is among the values, so that the loop can come back to it, and is not excluded.
#[test]
fn alternatives_are_of_constants_that_there_are() {
    for kernel in KERNELS {
        assert_eq!(why_not(kernel), None, "{}", kernel.label());
        for found in Alternatives::of(kernel, kernel.entries) {
            let own = kernel.get(found.constant).expect("it is one of its constants");
            assert!(found.values.contains(&own) && found.values.is_sorted(), "{} {}", kernel.label(), found.constant);
        }
    }
    for known in ALTERNATIVES {
        let of = |op: &&str| KERNELS.iter().any(|kernel| kernel.op == *op && kernel.get(known.constant).is_some());
        assert!(known.ops.iter().any(of) && known.ops.iter().all(|op| KERNELS.iter().any(|kernel| kernel.op == *op)));
        let is_entry = |entry: &&str| KERNELS.iter().any(|kernel| kernel.entries.contains(entry));
        assert!(known.entries.iter().all(is_entry), "{:?}", known.entries);
    }
    assert!(Space::of(&[launched(RMS_NORM, "rms_norm")]).parameters.is_empty());
}

#[test]
fn tiles_that_no_warps_can_compute_are_known() {
    let with = |name, value| LINEAR_64_BF16.with(name, value).expect("it has it");
    assert!(why_not(&with("TILE_ROWS", 16)).is_some_and(|why| why.contains("whole fragments")));
    assert!(why_not(&with("WARPS_ACROSS", 8)).is_some());
    assert_eq!(why_not(&with("STAGES", 6)), None);
}

/// Only what the launched entries read is a parameter.
#[test]
fn parameters_are_those_of_what_is_launched() {
    let names = |entry| -> Vec<String> {
        Space::of(&[launched(LINEAR_64_BF16, entry)]).parameters.iter().map(Parameter::name).collect()
    };
    assert_eq!(names("linear_few_rows"), ["linear.FEW_STAGES"]);
    assert_eq!(names("linear_tiles").len(), 5);
}

#[test]
fn settings_are_typed_by_name() {
    let space = tiles();
    let stages = |text| space.typed(text).map(|settings| (settings[4], settings[0]));
    assert_eq!(stages("STAGES=5").expect("known"), (5, 64));
    assert_eq!(stages("linear.STAGES=5,TILE_ROWS=32").expect("known"), (5, 32));
    for (text, words) in
        [("STAGES", "no NAME=VALUE"), ("THREADS=3", "THREADS: no parameter"), ("STAGES=x", "whole number")]
    {
        let error = space.typed(text).expect_err("it is refused");
        assert!(error.to_string().contains(words) && error.advice().is_some_and(|all| all.contains("linear.STAGES")));
    }
    let kernel = SAMPLING.with("THREADS", 512).expect("it has threads");
    let space = Space::of(&[launched(SAMPLING, "sampling_argmax")]);
    assert_eq!(space.variants(&[512]), [(SAMPLING, kernel)]);
    assert_eq!(space.settings(&space.named(&[512])).expect("all are there"), [512]);
}
