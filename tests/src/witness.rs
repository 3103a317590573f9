//! What another implementation computed with one known mistake: the dumps of `fixtures/golden-mistakes`, which the
//! transformers library made, and golden cases under another reading of the documents than theirs.

use std::fmt;
use std::path::PathBuf;

use fixtures::activations::dump::Dump;
use fixtures::golden::{Golden, witnesses};
use tools::diagnose::diagnosis::{Diagnosis, diagnose};
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use crate::repository;

/// What one mistake makes of a case.
#[derive(Debug, Clone)]
pub struct Witness {
    /// The mistake's name in the catalogue.
    pub mistake: String,
    /// The case of which these are values.
    pub case: String,
    /// The dump's file in the folder; without one, these are the case's own values.
    pub file: Option<String>,
    /// The reading of the documents by which they are judged; without one, the case's.
    pub semantics: Option<String>,
}

/// Golden cases that have a mistake under another reading: mistake, case, reading.
const READINGS: [(&str, &str, &str); 4] = [
    ("head_max_selection", "m3-gqa4-head-max-f32", "released"),
    ("head_max_selection", "m3-local2-head-max-f32", "released"),
    ("group_selection", "m3-gqa4-f32", "documents,gate_clamp=upper"),
    ("swiglu_clamp_upper", "m3-gqa4-head-max-f32", "documents"),
];

/// The folder of the dumps.
pub fn folder() -> PathBuf {
    repository::path("fixtures/golden-mistakes")
}

/// All of them.
pub fn all() -> Vec<Witness> {
    let dumps = witnesses::all().iter().map(|dump| Witness {
        mistake: dump.mistake.clone(),
        case: dump.case.clone(),
        file: Some(dump.file.clone()),
        semantics: None,
    });
    let of_readings = READINGS.iter().map(|&(mistake, case, reading)| Witness {
        mistake: mistake.to_owned(),
        case: case.to_owned(),
        file: None,
        semantics: Some(reading.to_owned()),
    });
    dumps.chain(of_readings).collect()
}

/// A golden case, or one that is beside the dumps.
pub fn model(case: &str) -> Model {
    let beside = Golden::open(&folder()).case(case).or_else(|_| repository::golden().case(case));
    Model::of_case(beside.expect("it is one of them")).expect("it is whole")
}

impl Witness {
    /// What `parity diagnose CASE DUMP --semantics READING` finds.
    pub fn diagnose(&self) -> Diagnosis {
        let model = model(&self.case);
        let dump = match (&self.file, &model.case) {
            (Some(file), _) => Dump::open(&folder().join(file)).expect("it is a dump"),
            (None, case) => case.as_ref().expect("it is one").expected().expect("it has values"),
        };
        let stated = model.case.as_ref().and_then(|case| case.manifest.semantics.clone());
        let given = Given { semantics: self.semantics.clone().or(stated), ..Given::default() };
        let dumped = Dumped::of(dump, &given, &model).expect("it is a dump of the case").remove(0);
        diagnose(&dumped.comparison(&model), |_| ()).expect("it can be put next to the reference")
    }

    /// What is wrong in a diagnosis, if anything is: the mistake is named, alone or among equals, and explains all.
    pub fn misjudged(&self) -> Option<String> {
        let diagnosis = self.diagnose();
        let named = |name: &str| name == self.mistake || name.starts_with(&format!("{} (", self.mistake));
        let names: Vec<&str> = diagnosis
            .explained
            .iter()
            .flat_map(|explained| [explained.name].into_iter().chain(explained.equivalent.iter().map(String::as_str)))
            .collect();
        let alone = diagnosis.explained.len() == 1 && diagnosis.left == 0;
        let right = alone && names.iter().any(|name| named(name));
        (!right).then(|| format!("{self}: {} is named as {names:?}, {} left", self.mistake, diagnosis.left))
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.semantics) {
            (Some(file), _) => write!(f, "golden-mistakes/{file}"),
            (None, reading) => write!(f, "golden/{}, read as {}", self.case, reading.as_deref().unwrap_or("it states")),
        }
    }
}
