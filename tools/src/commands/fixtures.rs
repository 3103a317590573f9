//! `parity fixtures`: the golden cases.

mod regenerate;
mod verify;

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use fixtures::golden::Golden;

use super::Outcome;
use crate::failure::Failure;
use crate::model::Model;
use crate::output::Output;
use crate::report::table::{number, with_header};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Fixtures {
    #[command(subcommand)]
    what: What,
}

/// What to do with the cases.
#[derive(Debug, Clone, Subcommand)]
enum What {
    /// List them: model, prompt, decode, what each is for.
    List(List),
    /// Compute their files' hashes again, and run the reference against them.
    Verify(verify::Verify),
    /// Make them again with transformers, in Python environments of its own, and show what moved.
    Regenerate(regenerate::Regenerate),
}

/// Which cases.
#[derive(Debug, Clone, Args)]
struct Cases {
    /// Their names; without any, all.
    names: Vec<String>,
    /// A folder of cases, instead of the built-in ones.
    #[arg(long, value_name = "FOLDER")]
    golden: Option<PathBuf>,
}

impl Cases {
    fn open(&self) -> Result<Vec<Model>, Failure> {
        let golden = self.golden.as_deref().map_or_else(Golden::embedded, Golden::open);
        let names = if self.names.is_empty() { golden.names()? } else { self.names.clone() };
        if names.is_empty() {
            let folder = self.golden.as_deref().unwrap_or(std::path::Path::new("")).display();
            return Err(Failure::new(format!("{folder}: holds no case, expected folders with a case.json"))
                .help("see fixtures/golden for some"));
        }
        names.iter().map(|name| Model::of_case(golden.case(name)?)).collect()
    }
}

/// Lists the cases.
#[derive(Debug, Clone, Args)]
struct List {
    #[command(flatten)]
    cases: Cases,
}

impl Fixtures {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        match &self.what {
            What::List(list) => list.carry_out(output),
            What::Verify(verify) => verify.carry_out(output),
            What::Regenerate(regenerate) => regenerate.carry_out(output),
        }
    }
}

impl List {
    fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let mut table = with_header(&["case", "model", "prompt", "decode", "precision"]);
        let mut about = String::new();
        for model in self.cases.open()? {
            let Some(case) = &model.case else { continue };
            let decoded = case.decode.as_ref().map_or(0, |decode| decode.tokens.len());
            table.add_row([
                Cell::new(&case.name),
                Cell::new(model.size()),
                number(case.tokens.len()),
                number(decoded),
                Cell::new(case.manifest.precision.as_deref().unwrap_or_default()),
            ]);
            let description = case.manifest.description.as_deref().unwrap_or_default();
            let _ = writeln!(about, "\n{}: {description}", case.name);
        }
        output.say(&format!("{table}\n{about}"));
        Ok(Outcome::Good)
    }
}
