//! `parity account`: what a deployment of a model costs.

use clap::Args;
use serde_json::json;

use super::outcome::Outcome;
use crate::claims::account::{Account as Costs, Load};
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report;
use crate::report::output::Output;
use crate::session::model::configuration;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Account {
    /// A folder with config.json, such a file, a built-in case, or minimax-m2.7 or minimax-m3; weights are not looked
    /// at.
    pub model: String,
    /// Tokens of each sequence; without it, as many as the model takes.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub context: Option<u32>,
    /// Sequences that are decoded together.
    #[arg(long, value_name = "SEQUENCES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub batch: u32,
    /// Modules of multi-token prediction. Released checkpoints have none, whatever their config.json announces.
    #[arg(long, value_name = "MODULES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    pub mtp_modules: u32,
    #[command(flatten)]
    reporting: Reporting,
}

impl Account {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        let config = configuration(&self.model)?;
        let load = Load {
            context: self.context.map_or(config.max_position_embeddings, |context| context as usize),
            batch: self.batch as usize,
            modules: self.mtp_modules as usize,
        };
        let account = Costs::of(&config, load);
        output.say(&report::account::account(&self.model, &account));
        if load.context > config.max_position_embeddings {
            let (context, most) = (load.context, config.max_position_embeddings);
            output.say(&format!("{context} tokens are more than the model takes: max_position_embeddings is {most}"));
        }
        json.write(&json!({ "schema": 1, "model": self.model, "account": account }))?;
        Ok(Outcome::Good)
    }
}
