//! `parity claims`: the documents' numbers, recomputed.

use clap::{ArgGroup, Args};
use serde_json::json;

use super::outcome::Outcome;
use crate::claims::document::Document;
use crate::claims::hyperparameters::{Hyperparameters, Releases};
use crate::claims::ledger::ledger;
use crate::claims::sizing::Sizing;
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report;
use crate::report::output::Output;
use crate::session::model::configuration;

/// What is typed.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("accounted").conflicts_with_all(["failing", "document"]))]
pub struct Claims {
    /// A folder with config.json, such a file, a built-in case, or minimax-m2.7 or minimax-m3; weights are not looked at.
    #[arg(group = "accounted")]
    pub model: Option<String>,
    /// The same as MODEL.
    #[arg(long, value_name = "FILE", group = "accounted")]
    pub config: Option<String>,
    /// Only claims that do not hold: close, or failing.
    #[arg(long)]
    pub failing: bool,
    /// Only claims of this document.
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true)]
    pub document: Option<Document>,
    /// Tokens of the context; without it, as many as the model takes.
    #[arg(long, value_name = "TOKENS", requires = "accounted", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    #[command(flatten)]
    reporting: Reporting,
}

impl Claims {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        if let Some(model) = self.model.as_ref().or(self.config.as_ref()) {
            let config = configuration(model)?;
            let context = self.context.map_or(config.max_position_embeddings, |context| context as usize);
            let sizing = Sizing::of(&Hyperparameters::of(config), context);
            output.say(&report::claims::sizing(model, &sizing));
            json.write(&json!({ "schema": 1, "model": model, "sizing": sizing }))?;
            return Ok(Outcome::Good);
        }
        let mut claims = ledger(&Releases::read());
        claims.retain(|claim| self.document.is_none_or(|document| claim.document == document));
        claims.retain(|claim| !self.failing || claim.verdict.is_failing());
        output.say(&report::claims::ledger(&claims));
        json.write(&json!({ "schema": 1, "claims": claims }))?;
        Ok(Outcome::Good)
    }
}
