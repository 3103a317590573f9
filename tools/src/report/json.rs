//! The report as JSON, its schema versioned.

use std::path::Path;

use super::Report;
use crate::failure::Failure;

/// Writes the report, whole or not at all.
pub fn write_json(reports: &[Report], path: &Path) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&serde_json::json!({ "reports": reports }))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(fixtures::whole::write(path, text.as_bytes())?)
}
