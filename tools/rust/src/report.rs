//! What a verification finds.

use std::fmt;

use tools::failure::Failure;
use tools::judge::verdict::SiteReport;
use tools::report::content::{self, Conclusion};
use tools::report::html::html;
use tools::report::{json, terminal};

/// A comparison of a candidate with the reference; of several requests, all of them. Shown, it is the terminal's report.
#[derive(Debug, Clone)]
pub struct Report(Vec<content::Report>);

impl Report {
    pub(crate) fn of(reports: Vec<content::Report>) -> Self {
        Report(reports)
    }

    /// The worst of all requests.
    pub fn conclusion(&self) -> Conclusion {
        self.0.iter().map(content::Report::conclusion).max().unwrap_or(Conclusion::Pass)
    }

    /// Whether there is no fault, nor what was denied, or required and not compared: exit code 0 of the command line.
    pub fn passed(&self) -> bool {
        self.conclusion() != Conclusion::Fail
    }

    /// Every judged site under every lens, in the order in which a token meets them, request by request.
    pub fn sites(&self) -> impl Iterator<Item = &SiteReport> {
        self.0.iter().flat_map(|report| &report.sites)
    }

    /// The sites whose verdict is a fault, the local lens's first: the first one names the operator.
    pub fn faults(&self) -> Vec<&SiteReport> {
        self.0.iter().flat_map(content::Report::faults).collect()
    }

    /// The report as `--json` writes it.
    pub fn json(&self) -> Result<String, Failure> {
        json::text(&json::of_reports(&self.0))
    }

    /// The report as `--html` writes it: a page in one file.
    pub fn html(&self) -> String {
        html(&self.0)
    }

    /// Each request's own.
    pub fn requests(&self) -> &[content::Report] {
        &self.0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(terminal::plain(&self.0).trim_end())
    }
}
