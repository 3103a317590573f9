//! The reports' files.

use std::path::{Path, PathBuf};

use super::content::Report;
use super::html::html;
use super::json::write_json;
use super::junit::junit;
use crate::failure::Failure;

/// The files that a report is written to.
#[derive(Debug, Clone, Default)]
pub struct ReportFiles {
    /// As JSON.
    pub json: Option<PathBuf>,
    /// As a page.
    pub html: Option<PathBuf>,
    /// As `JUnit` XML.
    pub junit: Option<PathBuf>,
}

/// Writes all that are asked for, each whole or not at all; one that cannot be written keeps no other from being so.
pub fn write(reports: &[Report], files: &ReportFiles) -> Result<(), Failure> {
    let text = |path: &Path, text: String| Ok(fixtures::whole::write(path, text.as_bytes())?);
    let json = files.json.as_ref().map(|path| write_json(&serde_json::json!({ "reports": reports }), path));
    let html = files.html.as_ref().map(|path| text(path, html(reports)));
    let junit = files.junit.as_ref().map(|path| text(path, junit(reports)?));
    Failure::of_all([json, html, junit].into_iter().flatten().filter_map(Result::err))
}
