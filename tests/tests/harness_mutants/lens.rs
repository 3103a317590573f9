//! The local lens: the program itself, and a small one like it, in which mistakes are easily made.

use std::collections::BTreeMap;
use std::fs;

use fixtures::Tensor;
use fixtures::activations::writer::DumpWriter;
use fixtures::golden::{Case, Golden};
use ndarray::Array2;
use reference::bound::ErrorBound;
use reference::compare::compare;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Semantics, Site, Storage, Tracked};
use serde_json::Value;
use tests::judge::NEVER;

use super::{Check, demand};
use crate::cli::parity;

/// Of three layers.
const CASE: &str = "m2-mha-top1-f32";

/// The token whose values are changed.
const TOKEN: usize = 5;

/// What a candidate shows.
#[derive(Debug, Clone, Default)]
struct Shown {
    values: BTreeMap<Site, Array2<f64>>,
    choices: BTreeMap<Site, Array2<usize>>,
}

/// What a harness says of it.
#[derive(Debug, PartialEq)]
struct Said {
    passes: bool,
    faults: Vec<Site>,
}

type Harness = dyn Fn(&Shown) -> Said;

fn case() -> Case {
    Golden::embedded().case(CASE).expect("it is whole")
}

fn extent(case: &Case) -> Extent {
    Extent::new(case.tokens.len(), case.tokens.len())
}

/// A change of one value, and where.
type Change = (Site, fn(f32) -> f32);

/// A candidate that computes as it should, in f32, but for one value.
#[derive(Default)]
struct Maker {
    shown: Shown,
    fault: Option<Change>,
}

impl Probe<f32> for Maker {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        if let Some((_, change)) = self.fault.filter(|(at, _)| *at == site) {
            let mut row = value.value.row_mut(TOKEN);
            let largest = row.iter_mut().max_by(|a, b| a.abs().total_cmp(&b.abs())).expect("rows have values");
            *largest = change(*largest);
        }
        self.shown.values.insert(site, value.value.mapv(f64::from));
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f32>, chosen: &mut Array2<usize>) {
        if self.fault.is_some_and(|(at, _)| at == site) {
            chosen[[TOKEN, 0]] = (chosen[[TOKEN, 0]] + 1) % scores.dim().1;
        }
        self.shown.choices.insert(site, chosen.clone());
    }
}

/// What it shows; all that follows the changed value is made of that.
fn made(fault: Option<Change>) -> Shown {
    let case = case();
    let weights = case.checkpoint().expect("it is whole");
    let model = Decoder::new(weights.config(), Semantics::DOCUMENTS, &weights).expect("it fits");
    let mut maker = Maker { fault, ..Maker::default() };
    let mut cache = KvCache::new(weights.config().num_hidden_layers);
    let mut run = Run::<f32>::new(RoundingContract::EAGER_F32, &mut maker);
    model.forward(&case.tokens, &mut cache, &mut run).expect("it runs");
    maker.shown
}

/// `parity verify`, on a dump of what is shown.
fn program(shown: &Shown) -> Said {
    let (case, folder) = (case(), tempfile::tempdir().expect("a temporary folder"));
    let expected = case.expected().expect("it is whole");
    let mut writer = DumpWriter::create(&folder.path().join("dump.safetensors")).expect("writable");
    let checkpoint = case.checkpoint().expect("it is whole");
    let shape = |site: &Site| site.shape(checkpoint.config(), extent(&case));
    let values = shown
        .values
        .iter()
        .map(|(site, values)| (site.to_string(), Tensor::stored(Storage::F32, shape(site), values.iter().copied())));
    let choices = shown
        .choices
        .iter()
        .map(|(site, choices)| (site.to_string(), Tensor::indices_of(shape(site), choices.iter().copied())));
    let unknown = ("something.else".to_owned(), Tensor::stored(Storage::F32, [1], [1.0]));
    for (name, tensor) in values.chain(choices).chain([unknown]) {
        writer.write(&name, &tensor.expect("the shape is the site's")).expect("writable");
    }
    writer.finish(expected.manifest().expect("it has one")).expect("writable");
    let ran = parity(folder.path(), &["verify", CASE, "dump.safetensors", "--lens", "local", "--json", "report.json"]);
    let report = fs::read_to_string(folder.path().join("report.json")).unwrap_or_else(|_| "[]".into());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let sites = report["reports"][0]["sites"].as_array().cloned().unwrap_or_default();
    let faults = sites.iter().filter(|site| site["verdict"] == "fault");
    let faults = faults.map(|site| site["site"].as_str().expect("a path").parse().expect("a site")).collect();
    Said { passes: ran.code == Some(0), faults }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mutant {
    None,
    ComparesTheReferenceWithItself,
    SkipsTheFirstLayer,
    TakesTheCandidateForTheTruth,
    PassesWhereNothingWasCompared,
    GoesOnWithItsOwnValues,
    HasNoBounds,
    IgnoresChoices,
}

const MUTANTS: [Mutant; 7] = [
    Mutant::ComparesTheReferenceWithItself,
    Mutant::SkipsTheFirstLayer,
    Mutant::TakesTheCandidateForTheTruth,
    Mutant::PassesWhereNothingWasCompared,
    Mutant::GoesOnWithItsOwnValues,
    Mutant::HasNoBounds,
    Mutant::IgnoresChoices,
];

/// A local lens.
struct Lens<'a> {
    mutant: Mutant,
    shown: &'a Shown,
    compared: usize,
    faults: Vec<Site>,
}

impl Lens<'_> {
    fn judge(&mut self, site: Site, is_right: bool) {
        if self.mutant == Mutant::SkipsTheFirstLayer && matches!(site, Site::Layer(0, _)) {
            return;
        }
        self.compared += 1;
        if !is_right {
            self.faults.push(site);
        }
    }
}

impl Probe<f64> for Lens<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        let Some(shown) = self.shown.values.get(&site) else { return };
        let candidate = if self.mutant == Mutant::ComparesTheReferenceWithItself { &value.value } else { shown };
        let truth = if self.mutant == Mutant::TakesTheCandidateForTheTruth { shown } else { &value.value };
        let error = match self.mutant {
            Mutant::HasNoBounds => ErrorBound::exact(value.dim()),
            _ => value.error_or_exact(),
        };
        let found = compare(candidate.view(), truth.view(), &error, Storage::Real, NEVER);
        self.judge(site, found.faults == 0);
        if self.mutant != Mutant::GoesOnWithItsOwnValues && shown.iter().all(|x| x.is_finite()) {
            *value = Tracked::exact(shown.clone());
        }
    }

    fn choose(&mut self, site: Site, _: &Tracked<f64>, chosen: &mut Array2<usize>) {
        let Some(shown) = self.shown.choices.get(&site) else { return };
        if self.mutant != Mutant::IgnoresChoices {
            self.judge(site, shown == chosen);
        }
        chosen.clone_from(shown);
    }

    fn wants(&self, site: Site) -> bool {
        self.shown.values.contains_key(&site)
    }
}

impl Mutant {
    fn judge(self, shown: &Shown) -> Said {
        let case = case();
        let weights = case.checkpoint().expect("it is whole");
        let model = Decoder::new(weights.config(), Semantics::DOCUMENTS, &weights).expect("it fits");
        let mut lens = Lens { mutant: self, shown, compared: 0, faults: Vec::new() };
        let mut run = Run::bounding(RoundingContract::EAGER_F32, &mut lens);
        let mut cache = KvCache::new(weights.config().num_hidden_layers);
        model.forward(&case.tokens, &mut cache, &mut run).expect("it runs");
        let is_something = lens.compared > 0 || self == Mutant::PassesWhereNothingWasCompared;
        Said { passes: is_something && lens.faults.is_empty(), faults: lens.faults }
    }
}

/// Whether a harness finds a value changed, there and nowhere else: the largest of a token, or its expert.
fn is_found(harness: &Harness, site: Site, change: fn(f32) -> f32) -> bool {
    harness(&made(Some((site, change)))) == Said { passes: false, faults: vec![site] }
}

const CHECKS: [Check<Harness>; 7] = [
    Check {
        name: "right values pass",
        holds: |harness| harness(&made(None)) == Said { passes: true, faults: Vec::new() },
    },
    Check {
        name: "a fault of the first layer is found there",
        holds: |harness| is_found(harness, Site::Layer(0, LayerSite::QProj), |x| 1.01 * x),
    },
    Check {
        name: "a fault of the last layer is found there",
        holds: |harness| is_found(harness, Site::Layer(2, LayerSite::OProj), |x| 1.01 * x),
    },
    Check { name: "a fault of the head is found there", holds: |harness| is_found(harness, Site::LmHead, |x| -x) },
    Check {
        name: "a value that is not a number is found",
        holds: |harness| {
            let site = Site::Layer(1, LayerSite::PostAttentionNorm);
            let said = harness(&made(Some((site, |_| f32::NAN))));
            !said.passes && said.faults.first() == Some(&site)
        },
    },
    Check {
        name: "another expert is found",
        holds: |harness| is_found(harness, Site::Layer(1, LayerSite::GateExperts), |x| x),
    },
    Check { name: "nothing to compare is no pass", holds: |harness| !harness(&Shown::default()).passes },
];

#[test]
fn mistakes_in_the_lens_are_found() {
    demand(&CHECKS[..], &program as &Harness, &MUTANTS, |mutant| Box::new(move |shown| mutant.judge(shown)));
}

/// What the mutants are mutants of keeps the checks, too: so each fails by its own mistake.
#[test]
fn the_small_lens_has_no_mistake() {
    for check in &CHECKS {
        assert!((check.holds)(&|shown: &Shown| Mutant::None.judge(shown)), "{}", check.name);
    }
}
