//! `parity fixtures`: the golden cases, and operators alone.

mod cases;
mod regenerate;
mod verify;

use std::fmt::Write;

use clap::{Args, Subcommand};
use comfy_table::Cell;

use self::cases::Cases;
use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::output::Output;
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
    /// List them: model, prompt, decode, what each is for; and operators alone.
    List(List),
    /// Compute their files' hashes again, and run the reference against them.
    Verify(verify::Verify),
    /// Make them again with transformers, in Python environments of its own, and show what moved.
    Regenerate(regenerate::Regenerate),
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
        if let Some(operators) = self.cases.operators() {
            let mut table = with_header(&["operator alone", "tensors"]);
            for alone in operators.all()? {
                let dump = operators.dump(&alone)?;
                table.add_row([Cell::new(&alone.name), Cell::new(dump.names().collect::<Vec<_>>().join(", "))]);
            }
            output.say(&format!(
                "\n{table}\nwhat torch and transformers make of inputs; `parity op` says what the tensors are"
            ));
        }
        Ok(Outcome::Good)
    }
}
