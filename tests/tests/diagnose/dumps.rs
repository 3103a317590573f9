//! Dumps of what the transformers library computes with one known mistake, of which only the layers' outputs are shown.

use std::path::Path;

use fixtures::activations::dump::Dump;
use rayon::prelude::*;
use serde_json::Value;
use tests::repository;
use tools::diagnose::diagnosis::{Diagnosis, diagnose};
use tools::diagnose::evidence::Evidence;
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

/// What `parity diagnose CASE DUMP --semantics READING` finds.
fn found(case: &str, dump: Dump, reading: Option<&str>) -> Diagnosis {
    let model = Model::open(case).expect("the case is built in");
    let stated = model.case.as_ref().and_then(|case| case.manifest.semantics.clone());
    let semantics = reading.map(str::to_owned).or(stated);
    let given = Given { semantics, ..Given::default() };
    let dumped = Dumped::of(dump, &given, &model).expect("it is a dump of the case");
    let evidence = Evidence {
        config: model.checkpoint.config(),
        weights: &model.checkpoint,
        candidate: &dumped.values,
        contract: dumped.known.contract,
        semantics: dumped.semantics,
        steps: &dumped.steps,
        media: None,
    };
    diagnose(&evidence, |_| ()).expect("it can be put next to the reference")
}

/// What is wrong in the diagnosis of a dump of one mistake, if anything is.
fn misjudged(folder: &Path, dump: &Value) -> Option<String> {
    let text = |field: &str| dump[field].as_str().expect("the index has it").to_owned();
    let (case, mistake) = (text("case"), text("mistake"));
    let opened = Dump::open(&folder.join(text("file"))).expect("it is a dump");
    let diagnosis = found(&case, opened, None);
    let names: Vec<String> = diagnosis
        .explained
        .iter()
        .flat_map(|explained| [vec![explained.name.to_owned()], explained.equivalent.clone()].concat())
        .collect();
    let named = names.iter().any(|name| *name == mistake || name.starts_with(&format!("{mistake} (")));
    let alone = diagnosis.explained.len() == 1 && diagnosis.left == 0;
    (!named || !alone).then(|| format!("{case} {mistake}: {names:?}, {} left", diagnosis.left))
}

fn all_are_named(family: &str) {
    let folder = repository::path("fixtures/golden-mistakes");
    let index = std::fs::read_to_string(folder.join("index.json")).expect("it is there");
    let index: Value = serde_json::from_str(&index).expect("it is JSON");
    let dumps = index["dumps"].as_array().expect("it lists them");
    let of_family = |dump: &&Value| dump["case"].as_str().is_some_and(|case| case.starts_with(family));
    let dumps: Vec<&Value> = dumps.iter().filter(of_family).collect();
    assert!(!dumps.is_empty(), "the index has no dump of {family}");
    let wrong: Vec<String> = dumps.par_iter().filter_map(|dump| misjudged(&folder, dump)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_m2_are_named() {
    all_are_named("m2");
}

#[test]
fn of_m3_are_named() {
    all_are_named("m3");
}

/// What a case's own values are under another reading than theirs.
fn names_of(case: &str, reading: &str) -> Vec<&'static str> {
    let model = Model::open(case).expect("the case is built in");
    let dump = model.case.expect("it is one").expected().expect("it has values");
    let diagnosis = found(case, dump, Some(reading));
    assert_eq!(diagnosis.left, 0, "{diagnosis:#?}");
    diagnosis.explained.iter().map(|explained| explained.name).collect()
}

#[test]
fn one_choice_for_all_heads_is_told_from_one_a_group() {
    for case in ["m3-gqa4-head-max-f32", "m3-local2-head-max-f32"] {
        assert_eq!(names_of(case, "released"), ["head_max_selection"], "{case}");
    }
    assert_eq!(names_of("m3-gqa4-f32", "documents,gate_clamp=upper"), ["group_selection"]);
}
