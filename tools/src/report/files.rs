//! The reports' files.

use std::path::Path;

use super::{Report, html, junit, write_json};
use crate::cli::ReportFiles;
use crate::failure::Failure;

/// Writes all that are asked for, each whole or not at all; one that cannot be written keeps no other from being so.
pub fn write(reports: &[Report], files: &ReportFiles) -> Result<(), Failure> {
    let text = |path: &Path, text: String| Ok(fixtures::whole::write(path, text.as_bytes())?);
    let json = files.reporting.json.as_ref().map(|path| write_json(&serde_json::json!({ "reports": reports }), path));
    let html = files.html.as_ref().map(|path| text(path, html(reports)));
    let junit = files.junit.as_ref().map(|path| text(path, junit(reports)?));
    Failure::of_all([json, html, junit].into_iter().flatten().filter_map(Result::err))
}
