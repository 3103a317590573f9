//! `parity mistakes`: what is known of mistakes that ports make.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::outcome::Outcome;
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report::book;
use crate::report::html::mistakes::{INDEX, file, index, one};
use crate::report::mistakes::{Entry, list, text};
use crate::report::output::Output;
use crate::session::mistakes::{entries, entry};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Mistakes {
    /// Only this one, with all that is known of it.
    pub name: Option<String>,
    #[command(flatten)]
    reporting: Reporting,
    /// Write a page for each mistake, and index.html with links to them, into this folder. Pages of the same names are
    /// replaced.
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    pub html: Option<PathBuf>,
    /// Write the book into this folder, as mdBook reads it: how a wrong port is found in five minutes, what verdicts mean, what
    /// engines round, and a page for each mistake. `mdbook build DIR` makes pages of it. Files of the same names are replaced.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["name", "html"])]
    pub book: Option<PathBuf>,
}

impl Mistakes {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (file, output) = self.reporting.begin(output)?;
        if let Some(name) = &self.name {
            let entry = entry(name)?;
            output.say(&text(&entry));
            file.write(&json!({ "schema": 1, "mistake": entry }))?;
            return Ok(Outcome::Good);
        }
        let entries = entries()?;
        match (&self.html, &self.book) {
            (Some(folder), _) => pages(folder, &entries, output)?,
            (_, Some(folder)) => book(folder, &entries, output)?,
            (None, None) => output.say(&list(&entries)),
        }
        let (known, searched): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.made.is_some());
        file.write(&json!({ "schema": 1, "mistakes": known, "searched": searched }))?;
        Ok(Outcome::Good)
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| {
        Failure::new(format!("{}: cannot make the folder: {error}", folder.display())).help("name another folder")
    })
}

fn book(folder: &Path, entries: &[Entry], output: Output) -> Result<(), Failure> {
    make(&folder.join("src/mistakes"))?;
    let pages = book::pages(entries);
    for (file, text) in &pages {
        fixtures::whole::write(&folder.join(file), text.as_bytes())?;
    }
    output.say(&format!("{}: {} files; `mdbook build {0}` makes pages of them", folder.display(), pages.len()));
    Ok(())
}

fn pages(folder: &Path, entries: &[Entry], output: Output) -> Result<(), Failure> {
    make(folder)?;
    for entry in entries {
        fixtures::whole::write(&folder.join(file(entry)), one(entry).as_bytes())?;
    }
    let first = folder.join(INDEX);
    fixtures::whole::write(&first, index(entries).as_bytes())?;
    output.say(&format!("{}: {} pages of mistakes", first.display(), entries.len()));
    Ok(())
}
