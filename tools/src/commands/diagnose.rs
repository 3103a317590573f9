//! `parity diagnose`: which known mistake makes a dump what it is.

use std::path::PathBuf;

use clap::Args;

use super::github;
use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{DumpOptions, Reporting};
use crate::diagnose::diagnosis::Diagnosis;
use crate::failure::Failure;
use crate::report::diagnosis::text;
use crate::report::files::ReportFiles;
use crate::report::html::diagnosis::diagnoses as page;
use crate::report::json::of_diagnoses;
use crate::report::output::Output;
use crate::session::diagnose::{diagnose_request, is_due};
use crate::session::dumped::{Dumped, Prefix};
use crate::session::model::Model;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Diagnose {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// A .safetensors, .npz, .pt or .pkl file, or a folder of those or of .npy files; or a .json file.
    pub dump: PathBuf,
    #[command(flatten)]
    given: DumpOptions,
    #[command(flatten)]
    reporting: Reporting,
    /// Write the diagnosis as a page to look at, in one file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Diagnose {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, html) = (self.reporting.json.clone(), self.html.clone());
        let files = ReportFiles { json, html, ..ReportFiles::default() }.begin()?;
        let output = output.beside(files.take_standard_output());
        let model = Model::open(&self.model)?;
        let requests = Dumped::of(self.given.open(Some(&self.dump), &model)?, &self.given.given(), &model)?;
        let mut diagnoses: Vec<Diagnosis> = Vec::with_capacity(requests.len());
        for dumped in &requests {
            if !is_due(dumped, &diagnoses) {
                continue;
            }
            if dumped.prefix == Prefix::Computed {
                output.say("once more, with what attention reads of the tokens before, which is computed:");
            }
            if let (number, 2..) = dumped.request {
                output.say(&format!("request {number}"));
            }
            diagnoses.push(self.diagnosed(&model, dumped, output)?);
        }
        let written = files.write_diagnosis(&of_diagnoses(&diagnoses), || {
            page(&self.model, &self.dump.display().to_string(), &diagnoses)
        });
        let told = github::tell_diagnoses(&self.model, &diagnoses, output);
        Failure::of_all([written, told].into_iter().filter_map(Result::err))?;
        Ok(if diagnoses.iter().all(Diagnosis::is_right) { Outcome::Good } else { Outcome::Fault })
    }

    /// One request's diagnosis, which is told.
    fn diagnosed(&self, model: &Model, dumped: &Dumped, output: Output) -> Result<Diagnosis, Failure> {
        if let Some(note) = &dumped.known.coarser {
            output.say(note);
        }
        let (given, again) = (self.given.given(), || self.given.open(Some(&self.dump), model));
        let diagnosis = diagnose_request(model, dumped, (&given, again), &mut bars(output))?;
        output.say(&text(&diagnosis));
        Ok(diagnosis)
    }
}
