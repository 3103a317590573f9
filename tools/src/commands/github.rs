//! What GitHub Actions is told, where a command runs there.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use miette::Diagnostic;

use crate::diagnose::diagnosis::Diagnosis;
use crate::failure::Failure;
use crate::report::content::Report;
use crate::report::github::summary::summary;
use crate::report::github::{annotations, diagnosis, failure};
use crate::report::output::Output;

/// Says the annotations after the report, and appends to the step's summary, if it has one.
pub(super) fn tell(reports: &[Report], output: Output) -> Result<(), Failure> {
    tell_texts(|| annotations(reports), || summary(reports), output)
}

/// The same of the diagnoses of a dump's requests.
pub(super) fn tell_diagnoses(model: &str, diagnoses: &[Diagnosis], output: Output) -> Result<(), Failure> {
    tell_texts(|| diagnosis::annotations(model, diagnoses), || diagnosis::summary(model, diagnoses), output)
}

fn tell_texts(annotations: impl Fn() -> String, summary: impl Fn() -> String, output: Output) -> Result<(), Failure> {
    if is_there() {
        let annotations = annotations();
        if !annotations.is_empty() {
            output.say(&annotations);
        }
    }
    match env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) {
        Some(path) => append(Path::new(&path), &summary()),
        None => Ok(()),
    }
}

/// Says why nothing came of a command, beside what standard output may be taken for.
pub(super) fn tell_failure(failed: &Failure) {
    if is_there() {
        let help = Diagnostic::help(failed).map(|help| format!("\nhelp: {help}"));
        Output { quiet: false, aside: true }.say(&failure(&format!("{failed}{}", help.unwrap_or_default())));
    }
}

fn is_there() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Appends to a file that other commands of the step may have begun.
fn append(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let problem = format!("GITHUB_STEP_SUMMARY {}: cannot append: {error}", path.display());
        Failure::new(problem).help("unset GITHUB_STEP_SUMMARY, or let it name a file that can be written")
    })
}
