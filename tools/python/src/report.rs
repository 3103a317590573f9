//! What `verify` returns.

use std::sync::Arc;

use pyo3::prelude::*;
use tools::report::content::{self, Conclusion};
use tools::report::html::html;
use tools::report::{json, terminal};

use crate::error::raised;
use crate::site::Site;

/// A comparison of a dump with the reference; of several requests, all of them.
#[pyclass(frozen, module = "parity")]
pub(crate) struct Report {
    reports: Arc<Vec<content::Report>>,
}

impl Report {
    pub(crate) fn of(reports: Vec<content::Report>) -> Self {
        Report { reports: Arc::new(reports) }
    }

    fn conclusion(&self) -> Conclusion {
        self.reports.iter().map(content::Report::conclusion).max().unwrap_or(Conclusion::Pass)
    }
}

#[pymethods]
impl Report {
    /// `PASS`, `INCONCLUSIVE`, `SUSPICIOUS` or `FAIL`, the worst of all requests.
    #[getter]
    fn verdict(&self) -> String {
        self.conclusion().to_string()
    }

    /// Whether there is no fault, nor what was denied or required and not compared: exit code 0 of the command line.
    #[getter]
    fn passed(&self) -> bool {
        self.conclusion() != Conclusion::Fail
    }

    /// Every judged site under every lens, in the order in which a token meets them.
    #[getter]
    fn sites(&self) -> Vec<Site> {
        let of = |(request, report): (usize, &content::Report)| {
            report.sites.iter().map(|site| Site::of(request, site)).collect::<Vec<_>>()
        };
        self.reports.iter().enumerate().flat_map(of).collect()
    }

    /// The sites whose verdict is `fault`, the local lens's first: the first one names the operator.
    #[getter]
    fn faults(&self) -> Vec<Site> {
        let of = |(request, report): (usize, &content::Report)| {
            report.faults().into_iter().map(|site| Site::of(request, site)).collect::<Vec<_>>()
        };
        self.reports.iter().enumerate().flat_map(of).collect()
    }

    /// The report as `--json` writes it: an object with a list `reports`, one a request.
    fn json(&self, py: Python<'_>) -> PyResult<String> {
        let told = py.detach(|| json::text(&json::of_reports(&self.reports)));
        told.map_err(|failure| raised(py, &failure))
    }

    /// The report as `--html` writes it: a page in one file.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| html(&self.reports))
    }

    /// The page, framed.
    fn _repr_html_(&self, py: Python<'_>) -> String {
        framed(&self.html(py))
    }

    fn __repr__(&self) -> String {
        let line = |report: &content::Report| format!("{} {}", report.header.model, terminal::plain_summary(report));
        let told: Vec<String> = self.reports.iter().map(line).collect();
        format!("<parity.Report {}>", told.join("; "))
    }

    /// The terminal's report without colours.
    fn __str__(&self, py: Python<'_>) -> String {
        py.detach(|| terminal::plain(&self.reports).trim_end().to_owned())
    }
}

/// A page inside of another, whose style and script it neither takes nor touches.
pub(crate) fn framed(page: &str) -> String {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe sandbox=\"allow-scripts\" style=\"width:100%;height:40rem;border:0\" title=\"parity\" srcdoc=\"{escaped}\">\
         </iframe>"
    )
}
