//! `verify`: a dump next to the reference.

use std::fmt::Display;

use pyo3::prelude::*;
use tools::compare::selection::Selection;
use tools::failure::Failure;
use tools::judge::lens::Lens;
use tools::judge::verdict::Verdict;
use tools::report::demands::Demands;
use tools::session::asked::Asked;
use tools::session::dumped::Given;
use tools::session::model::Model;

use crate::given::{DumpAt, DumpGiven, Known, Part};
use crate::report::Report;
use crate::working::wait;

/// Verdicts that may count as faults.
const DENIED: [Verdict; 3] = [Verdict::Suspicious, Verdict::Inconclusive, Verdict::Missing];

/// What is asked.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Question {
    lenses: Vec<String>,
    part: Part,
    require: Vec<String>,
    deny: Vec<String>,
    coverage: bool,
    command: String,
}

/// Puts a dump next to a model's reference.
#[pyfunction]
#[pyo3(signature = (model, dump, known, question))]
pub(crate) fn verify(
    py: Python<'_>,
    model: String,
    dump: Option<DumpGiven<'_>>,
    known: Known,
    question: Question,
) -> PyResult<Report> {
    let (dump, given) = (DumpAt::of(dump)?, Given::from(known));
    let reports = wait(py, move |watch| {
        let (asked, model) = (question.asked()?, Model::open(&model)?);
        tools::session::verify::verify(&model, dump.open(&given, &model)?, &given, &asked, watch)
    })?;
    Ok(Report::of(reports))
}

impl Question {
    fn asked(&self) -> Result<Asked, Failure> {
        let denied = all_named("deny", &self.deny, &DENIED)?;
        Ok(Asked {
            lenses: all_named("lenses", &self.lenses, &Lens::ALL)?,
            selection: Selection::parse(self.part.layers.as_deref(), &self.part.sites)?,
            demands: Demands::parse(&self.require, &denied)?,
            detection: self.coverage,
            command: self.command.clone(),
        })
    }
}

/// Those of `all` that are named.
fn all_named<T: Copy + Display>(argument: &str, names: &[String], all: &[T]) -> Result<Vec<T>, Failure> {
    let of = |name: &String| {
        let known = all.iter().copied().find(|known| known.to_string() == *name);
        known.ok_or_else(|| {
            let expected = all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Failure::new(format!("{argument}: there is no {name}")).help(format!("expected one of {expected}"))
        })
    };
    names.iter().map(of).collect()
}
