//! Results as JSON, each with the version of its schema.

use std::io::Write;
use std::path::Path;

use fixtures::whole::WholeFile;
use fixtures::whole::destination::Destination;
use serde::Serialize;

use crate::diagnose::diagnosis::Diagnosis;
use crate::failure::Failure;
use crate::report::content::Report;

/// A JSON file that waits for a result, if one is asked for. Dropped without one, it leaves what was there.
#[derive(Debug)]
pub struct JsonFile(Option<WholeFile>);

impl JsonFile {
    /// Begins it. Refused if it cannot be written.
    pub fn begin(path: Option<&Path>) -> Result<Self, Failure> {
        Ok(JsonFile(path.map(WholeFile::create).transpose()?))
    }

    /// Writes the result, whole or not at all.
    pub fn write(self, value: &impl Serialize) -> Result<(), Failure> {
        let Some(file) = self.0 else { return Ok(()) };
        let text = text(value).map_err(|error| Failure::new(format!("{}: {error}", file.path().display())))?;
        complete(file, text.as_bytes())
    }

    /// Whether it is standard output, so that nothing else may be.
    pub fn takes_standard_output(&self) -> bool {
        self.file().is_some_and(|file| *file.destination() == Destination::StandardOutput)
    }

    /// The file.
    pub(super) fn file(&self) -> Option<&WholeFile> {
        self.0.as_ref()
    }
}

/// A result as JSON.
pub fn text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::new(error.to_string()))
}

/// What the JSON of reports holds.
pub fn of_reports(reports: &[Report]) -> serde_json::Value {
    serde_json::json!({ "reports": reports })
}

/// What the JSON of the diagnoses of a dump's requests holds.
pub fn of_diagnoses(diagnoses: &[Diagnosis]) -> serde_json::Value {
    match diagnoses {
        [diagnosis] => serde_json::json!({ "schema": 1, "diagnosis": diagnosis }),
        all => serde_json::json!({ "schema": 1, "diagnoses": all }),
    }
}

/// Gives a file its bytes, and its name.
pub(super) fn complete(mut file: WholeFile, bytes: &[u8]) -> Result<(), Failure> {
    let written = file.write_all(bytes);
    written.map_err(|error| Failure::new(format!("{}: cannot write: {error}", file.path().display())))?;
    Ok(file.commit()?)
}
