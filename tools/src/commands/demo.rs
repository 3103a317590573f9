//! `parity demo`: a port with a known mistake, verified and diagnosed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::options::word;
use super::outcome::Outcome;
use super::progress::bars;
use crate::failure::Failure;
use crate::report::demo::{Shown, text};
use crate::report::files::ReportFiles;
use crate::report::html::diagnosis::diagnoses as page;
use crate::report::output::Output;
use crate::session::asked::Asked;
use crate::session::demo::{is_own, made, write};
use crate::session::diagnose::diagnose;
use crate::session::dumped::{Dumped, Given, open_dump};
use crate::session::verify::verify;

const DUMP: &str = "dump.safetensors";
const REPORT: &str = "report.html";
const DIAGNOSIS: &str = "diagnosis.html";

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// The mistake to make: one that `parity mistakes` lists.
    #[arg(default_value = "rope_interleaved")]
    pub mistake: String,
    /// The folder for the dump and the pages. Files of an earlier demonstration are replaced, no others.
    #[arg(long, value_name = "DIR", default_value = "parity-demo")]
    pub out: PathBuf,
}

impl Demo {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (model, assumed) = made(&self.mistake)?;
        let [dump, report, diagnosis] = self.files()?;
        write(&model, &assumed, &dump)?;
        let asked =
            Asked { command: format!("parity verify {} {}", model.name, word(&dump.display())), ..Asked::default() };
        let opened = || open_dump(Some(&dump), &Given::default(), &model);
        let reports = verify(&model, opened()?, &Given::default(), &asked, &mut bars(output))?;
        let dumped = Dumped::of(opened()?, &Given::default(), &model)?.remove(0);
        let diagnosed = diagnose(&model, &dumped, &mut bars(output))?;
        into_page(&report).begin()?.write(&reports)?;
        let told = || page(&model.name, &dump.display().to_string(), std::slice::from_ref(&diagnosed));
        into_page(&diagnosis).begin()?.write_diagnosis(&serde_json::Value::Null, told)?;
        output.say(&text(&Shown {
            size: model.size(),
            assumed: &assumed,
            dump: &dump,
            pages: [
                (&report, "a map of the model, the fault first"),
                (&diagnosis, "the mistake, and what it explains"),
            ],
            report: &reports[0],
            diagnosis: &diagnosed,
        }));
        Ok(Outcome::Good)
    }

    /// The files to write, in a folder that is there. Refused if what no demonstration wrote has one of their names.
    fn files(&self) -> Result<[PathBuf; 3], Failure> {
        let files = [DUMP, REPORT, DIAGNOSIS].map(|name| self.out.join(name));
        if let Some(taken) = files.iter().find(|file| file.exists()).filter(|_| !is_own(&files[0])) {
            let problem = format!("{}: is there already, and `parity demo` did not write it", taken.display());
            return Err(Failure::new(problem).help("name another folder with --out DIR"));
        }
        fs::create_dir_all(&self.out).map_err(|error| {
            Failure::new(format!("{}: cannot make the folder: {error}", self.out.display()))
                .help("name one with --out DIR")
        })?;
        Ok(files)
    }
}

fn into_page(path: &Path) -> ReportFiles {
    ReportFiles { html: Some(path.to_owned()), ..ReportFiles::default() }
}
