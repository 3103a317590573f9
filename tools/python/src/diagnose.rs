//! `diagnose`: which mistake makes a dump what it is.

use std::fmt::Write;
use std::sync::Arc;

use pyo3::prelude::*;
use tools::diagnose::diagnosis;
use tools::report::diagnosis::text;
use tools::report::html::diagnosis::diagnoses as page;
use tools::report::json;
use tools::session::diagnose::{diagnose_request, is_due};
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use crate::error::raised;
use crate::given::{DumpAt, DumpGiven, Known};
use crate::mistake::Mistake;
use crate::report::framed;
use crate::working::wait;

/// What makes a dump what it is.
#[pyclass(frozen, module = "parity")]
pub(crate) struct Diagnosis {
    found: Arc<Found>,
}

/// The diagnoses of a dump's requests, and what the command line says before each.
struct Found {
    model: String,
    dump: String,
    notes: Vec<Option<String>>,
    diagnoses: Vec<diagnosis::Diagnosis>,
}

/// Names the mistakes of a dump.
#[pyfunction]
pub(crate) fn diagnose(
    py: Python<'_>,
    model: String,
    dump: Option<DumpGiven<'_>>,
    known: Known,
) -> PyResult<Diagnosis> {
    let (dump, given) = (DumpAt::of(dump)?, Given::from(known));
    let found = wait(py, move |watch| {
        let opened = Model::open(&model)?;
        let requests = Dumped::of(dump.open(&given, &opened)?, &given, &opened)?;
        let name = requests.first().map(|dumped| dumped.values.dump().path().display().to_string());
        let mut found = Found { model, dump: name.unwrap_or_default(), notes: Vec::new(), diagnoses: Vec::new() };
        for dumped in &requests {
            if !is_due(dumped, &found.diagnoses) {
                continue;
            }
            found.notes.push(dumped.known.coarser.clone());
            found.diagnoses.push(diagnose_request(&opened, dumped, (&given, || dump.open(&given, &opened)), watch)?);
        }
        Ok(found)
    })?;
    Ok(Diagnosis { found: Arc::new(found) })
}

#[pymethods]
impl Diagnosis {
    /// Whether there is nothing to explain: exit code 0 of the command line.
    #[getter]
    fn passed(&self) -> bool {
        self.found.diagnoses.iter().all(diagnosis::Diagnosis::is_right)
    }

    /// The mistakes that explain faults, in the order in which these arise.
    #[getter]
    fn mistakes(&self, py: Python<'_>) -> PyResult<Vec<Mistake>> {
        let all = self.found.diagnoses.iter().enumerate();
        let all = all.flat_map(|(request, one)| one.explained.iter().map(move |explained| (request, explained)));
        all.map(|(request, explained)| Mistake::of(py, request, explained)).collect()
    }

    /// How many faults no known mistake explains.
    #[getter]
    fn left(&self) -> usize {
        self.found.diagnoses.iter().map(|one| one.left).sum()
    }

    /// The diagnosis as `--json` writes it.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        let told = py.detach(|| json::text(&json::of_diagnoses(&self.found.diagnoses)));
        told.map_err(|failure| raised(py, &failure))
    }

    /// The diagnosis as `--html` writes it: a page in one file.
    fn html(&self) -> String {
        page(&self.found.model, &self.found.dump, &self.found.diagnoses)
    }

    /// The page, framed.
    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }

    fn __repr__(&self) -> String {
        let mistakes: Vec<&str> =
            self.found.diagnoses.iter().flat_map(|one| &one.explained).map(|explained| explained.name).collect();
        let named = if mistakes.is_empty() { "no mistake named".to_owned() } else { mistakes.join(", ") };
        format!("<parity.Diagnosis {named}; {} left>", self.left())
    }

    /// What the command line says.
    fn __str__(&self) -> String {
        let mut told = String::new();
        let Found { notes, diagnoses, .. } = &*self.found;
        for (number, (note, diagnosis)) in notes.iter().zip(diagnoses).enumerate() {
            if diagnoses.len() > 1 {
                let _ = writeln!(told, "request {number}");
            }
            if let Some(note) = note {
                let _ = writeln!(told, "{note}");
            }
            let _ = writeln!(told, "{}", text(diagnosis).trim_end());
        }
        told.trim_end().to_owned()
    }
}
