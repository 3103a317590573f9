//! The reports' files: begun before the work, so that what cannot be written is known, and completed after it.

use std::path::{Path, PathBuf};

use fixtures::whole::WholeFile;
use fixtures::whole::destination::Destination;
use serde::Serialize;

use super::content::Report;
use super::html::html;
use super::json::{JsonFile, complete, of_reports};
use super::junit::junit;
use super::output::Output;
use super::parquet::ParquetFile;
use super::rows::{Rows, of_reports as rows_of};
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
    /// As a Parquet table.
    pub parquet: Option<PathBuf>,
}

/// Files that wait for a report. Dropped without one, they leave what was there.
#[derive(Debug)]
pub struct BegunFiles {
    json: JsonFile,
    html: Option<WholeFile>,
    junit: Option<WholeFile>,
    parquet: ParquetFile,
}

impl ReportFiles {
    /// Begins all that are asked for; and where else results are told.
    pub fn begun(&self, output: Output) -> Result<(BegunFiles, Output), Failure> {
        let files = self.begin()?;
        let output = output.beside(files.take_standard_output());
        Ok((files, output))
    }

    /// Begins all that are asked for. Refused if some cannot be written, each of which is named, or if two are the same file.
    pub fn begin(&self) -> Result<BegunFiles, Failure> {
        let begin = |path: Option<&Path>| path.map(WholeFile::create).transpose().map_err(Failure::from);
        let (html, junit) = (begin(self.html.as_deref()), begin(self.junit.as_deref()));
        let (json, parquet) = (JsonFile::begin(self.json.as_deref()), ParquetFile::begin(self.parquet.as_deref()));
        let failures = [json.as_ref().err(), html.as_ref().err(), junit.as_ref().err(), parquet.as_ref().err()];
        Failure::of_all(failures.into_iter().flatten().cloned())?;
        let begun = BegunFiles { json: json?, html: html?, junit: junit?, parquet: parquet? };
        begun.require_distinct()?;
        Ok(begun)
    }
}

impl BegunFiles {
    /// Writes the reports, each file whole or not at all; one that cannot be written keeps no other from being so.
    pub fn write(self, reports: &[Report]) -> Result<(), Failure> {
        let BegunFiles { json, html: page, junit: tests, parquet } = self;
        let written = [
            json.write(&of_reports(reports)),
            page.map_or(Ok(()), |file| complete(file, html(reports).as_bytes())),
            tests.map_or(Ok(()), |file| complete(file, junit(reports)?.as_bytes())),
            parquet.write(|| rows_of(reports)),
        ];
        Failure::of_all(written.into_iter().filter_map(Result::err))
    }

    /// Writes what a diagnosis says, each file whole or not at all.
    pub fn write_diagnosis(self, told: &serde_json::Value, page: impl FnOnce() -> String) -> Result<(), Failure> {
        let written = [self.json.write(told), self.html.map_or(Ok(()), |file| complete(file, page().as_bytes()))];
        Failure::of_all(written.into_iter().filter_map(Result::err))
    }

    /// Writes a result as JSON and as a table, each file whole or not at all.
    pub fn write_table(self, told: &impl Serialize, rows: impl FnOnce() -> Vec<Rows>) -> Result<(), Failure> {
        Failure::of_all([self.json.write(told), self.parquet.write(rows)].into_iter().filter_map(Result::err))
    }

    /// Whether one of them is standard output, so that nothing else may be.
    pub fn take_standard_output(&self) -> bool {
        self.named().iter().any(|(_, file)| *file.destination() == Destination::StandardOutput)
    }

    fn require_distinct(&self) -> Result<(), Failure> {
        let named = self.named();
        for (i, (option, file)) in named.iter().enumerate() {
            for (other, same) in &named[..i] {
                if file.destination().is_same(same.destination()) {
                    let (one, two) = (same.path().display(), file.path().display());
                    let problem = format!("{other} {one} and {option} {two} are the same file, expected two");
                    return Err(Failure::new(problem).help("name another file for one of them"));
                }
            }
        }
        Ok(())
    }

    /// The files by their options.
    fn named(&self) -> Vec<(&'static str, &WholeFile)> {
        let all = [
            ("--json", self.json.file()),
            ("--html", self.html.as_ref()),
            ("--junit", self.junit.as_ref()),
            ("--parquet", self.parquet.file()),
        ];
        all.into_iter().filter_map(|(option, file)| Some((option, file?))).collect()
    }
}
