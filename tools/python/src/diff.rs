//! `diff`: two dumps side by side.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use tools::compare::difference;
use tools::compare::selection::Selection;
use tools::report::differences::plain;
use tools::report::json;

use crate::error::raised;
use crate::given::{DumpAt, DumpGiven, Part};
use crate::pair::Pair;
use crate::working::wait;

/// How two dumps differ.
#[pyclass(frozen, module = "parity")]
pub(crate) struct Difference {
    found: Arc<difference::Difference>,
}

/// Puts two dumps side by side.
#[pyfunction]
#[pyo3(signature = (a, b, model, names, part))]
pub(crate) fn diff(
    py: Python<'_>,
    a: Option<DumpGiven<'_>>,
    b: Option<DumpGiven<'_>>,
    model: Option<String>,
    names: Option<PathBuf>,
    part: Part,
) -> PyResult<Difference> {
    let (a, b) = (DumpAt::of(a)?, DumpAt::of(b)?);
    let found = wait(py, move |watch| {
        let selection = Selection::parse(part.layers.as_deref(), &part.sites)?;
        let of = model.as_deref().map(|model| (model, names.as_deref()));
        tools::session::diff::diff([a.open_alone()?, b.open_alone()?], of, &selection, watch)
    })?;
    Ok(Difference { found: Arc::new(found) })
}

#[pymethods]
impl Difference {
    /// Whether every value is the same in both, of all that both have.
    #[getter]
    fn equal(&self) -> bool {
        self.found.first().is_none()
    }

    /// What both have, in the order in which a token meets it.
    #[getter]
    fn pairs(&self) -> Vec<Pair> {
        self.found.pairs.iter().map(Pair::of).collect()
    }

    /// The first pair that differs at all, or None.
    #[getter]
    fn first(&self) -> Option<Pair> {
        self.found.first().map(Pair::of)
    }

    /// Names that only the first has.
    #[getter]
    fn only_a(&self) -> Vec<String> {
        self.found.only_a.clone()
    }

    /// Names that only the second has.
    #[getter]
    fn only_b(&self) -> Vec<String> {
        self.found.only_b.clone()
    }

    /// The difference as `--json` writes it.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        let told = py.detach(|| json::text(&*self.found));
        told.map_err(|failure| raised(py, &failure))
    }

    fn __repr__(&self) -> String {
        let count = self.found.pairs.len();
        let told = match self.found.first() {
            None => format!("{count} pairs, all equal"),
            Some(first) => format!("{count} pairs, the first that differs: {}", first.name),
        };
        format!("<parity.Difference {told}>")
    }

    /// What the command line prints.
    fn __str__(&self) -> String {
        plain(&self.found).trim_end().to_owned()
    }
}
