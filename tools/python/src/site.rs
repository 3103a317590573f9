//! A judged site.

use pyo3::prelude::*;
use tools::judge::verdict::{SiteReport, Worst};
use tools::report::place::kind;

/// One site under one lens.
#[pyclass(frozen, get_all, module = "parity")]
pub(crate) struct Site {
    /// Its path, as transformers names modules: `model.layers.3.self_attn.q_norm`.
    name: String,
    /// The path inside its layer: `self_attn.q_norm`.
    operator: String,
    /// `local`, `layer` or `global`.
    lens: String,
    /// `exact`, `within`, `tie`, `inconclusive`, `suspicious` or `fault`.
    verdict: String,
    /// The worst element's distance in units of its bound: above 1 it is a fault. None where no element has a bound.
    ratio: Option<f64>,
    /// The worst element's index, without a batch axis.
    index: Option<Vec<usize>>,
    /// What the candidate has there.
    candidate: Option<f64>,
    /// What the reference has there.
    reference: Option<f64>,
    /// How far the two may be apart.
    bound: Option<f64>,
    /// The request, from 0.
    request: usize,
    /// The forward pass, from 0.
    step: usize,
    /// Elements, or tokens that chose.
    count: usize,
    /// How many of them are outside.
    faults: usize,
    /// ‖candidate − reference‖ / ‖reference‖.
    deviation: f64,
    /// Paths of operators that were judged together with it, since the dump does not show what is between them.
    segment: Vec<String>,
    /// What else there is to say, in a sentence.
    note: Option<String>,
}

impl Site {
    pub(crate) fn of(request: usize, report: &SiteReport) -> Self {
        let worst = report.worst.as_ref();
        let of_worst = |figure: fn(&Worst) -> f64| worst.map(figure);
        Site {
            name: report.site.to_string(),
            operator: kind(report.site),
            lens: report.lens.to_string(),
            verdict: report.verdict.to_string(),
            ratio: of_worst(|worst| worst.ratio),
            index: worst.map(|worst| worst.index.clone()),
            candidate: of_worst(|worst| worst.candidate),
            reference: of_worst(|worst| worst.reference),
            bound: of_worst(|worst| worst.bound),
            request,
            step: report.step,
            count: report.count,
            faults: report.faults,
            deviation: report.deviation,
            segment: report.segment.iter().map(ToString::to_string).collect(),
            note: report.note.clone(),
        }
    }
}

#[pymethods]
impl Site {
    fn __repr__(&self) -> String {
        let step = if self.step == 0 { String::new() } else { format!("step.{}.", self.step) };
        let ratio = self.ratio.map(|ratio| format!(", ratio {ratio:.3}")).unwrap_or_default();
        format!("<parity.Site {step}{} ({}): {}{ratio}>", self.name, self.lens, self.verdict)
    }
}
