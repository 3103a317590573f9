//! `parity check`: the CUDA path next to the reference.

use clap::{Args, value_parser};

use super::github;
use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::memory::MemoryOptions;
use crate::commands::options::{
    Demanding, OnDevice, Part, Prompted, Reading, ReportOptions, ShownOptions, typed, word,
};
use crate::failure::Failure;
use crate::report::content::Report;
use crate::report::output::Output;
use crate::report::terminal::print_all;
use crate::session::asked::Asked;
use crate::session::backend::device;
use crate::session::check::{Computed, check, require_memory};
use crate::session::model::Model;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// Folders in the hub's format, or built-in cases. Without any, all built-in cases.
    pub models: Vec<String>,
    #[command(flatten)]
    prompted: Prompted,
    #[command(flatten)]
    shown: ShownOptions,
    /// Tokens to decode after it.
    #[arg(long, value_name = "N", default_value_t = 24)]
    pub decode: usize,
    #[command(flatten)]
    device: OnDevice,
    /// Run the text model as R ranks that share it under tensor parallelism, and put what they compute together next to the
    /// reference, which is not shared. Where --device is auto and there is a GPU for each, NCCL adds up what they have; else all
    /// are on one device.
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=64))]
    tp: Option<u16>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    memory: MemoryOptions,
    #[command(flatten)]
    demanding: Demanding,
    #[command(flatten)]
    files: ReportOptions,
}

impl Check {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let used = self.memory.watch(output);
        let names = if self.models.is_empty() { Model::built_in()? } else { self.models.clone() };
        let mut reports = Vec::with_capacity(names.len());
        for name in &names {
            reports.extend(self.judge(&Model::open(name)?, output)?);
        }
        print_all(&reports, output);
        Failure::of_all([files.write(&reports), github::tell(&reports, output)].into_iter().filter_map(Result::err))?;
        used.tell(output);
        Ok(Outcome::of(&reports))
    }

    /// The command, without what restricts it.
    fn command(&self, model: &Model) -> String {
        let options = [("--tokens", &self.prompted.tokens), ("--semantics", &self.reading.semantics)];
        let ranks = self.tp.map_or_else(String::new, |count| format!(" --tp {count}"));
        format!(
            "parity check {}{}{}{ranks} --device {}",
            word(&model.name),
            typed(&options),
            self.shown.typed(),
            self.device.device
        )
    }

    fn judge(&self, model: &Model, output: Output) -> Result<Vec<Report>, Failure> {
        let computed = Computed {
            tokens: self.prompted.tokens.clone(),
            shown: self.shown.shown(),
            decode: self.decode,
            semantics: self.reading.of(model)?,
            device: device(&self.device.device)?,
            ranks: self.tp.map(usize::from),
        };
        self.memory.memory.map_or(Ok(()), |memory| require_memory(model, &computed, memory))?;
        let asked = Asked {
            lenses: Vec::new(),
            selection: self.part.selection()?,
            demands: self.demanding.demands()?,
            detection: false,
            command: self.command(model),
        };
        check(model, &computed, &asked, &mut bars(output))
    }
}
