//! Results as JSON, each with the version of its schema.

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes a result, whole or not at all.
pub fn write_json(value: &impl Serialize, path: &Path) -> Result<(), Failure> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Ok(fixtures::whole::write(path, text.as_bytes())?)
}
