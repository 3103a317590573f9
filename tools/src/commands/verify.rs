//! `parity verify`: a dump from any engine next to the reference.

use std::path::PathBuf;

use clap::Args;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{Demanding, DumpOptions, Part, ReportOptions};
use crate::failure::Failure;
use crate::judge::lens::Lens;
use crate::report::content::Conclusion;
use crate::report::output::Output;
use crate::report::terminal::print_all;
use crate::session::asked::Asked;
use crate::session::dumped::open_dump;
use crate::session::model::Model;
use crate::session::verify::verify;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// A .safetensors, .npz or .pt file, or a folder of those or of .npy files. For a built-in case its own values.
    pub dump: Option<PathBuf>,
    #[command(flatten)]
    given: DumpOptions,
    /// Only these lenses.
    #[arg(long, value_enum)]
    pub lens: Vec<Lens>,
    #[command(flatten)]
    part: Part,
    /// Say what this dump can show, too: of the known mistakes which it rules out, and which it could not have shown and
    /// why, and where a gain of 1 % would go unseen: in which experts, routers, heads, and layers of experts.
    ///
    /// PASS says that what was compared is right, and this says how much that is. Each known mistake is assumed in turn, and
    /// the dump put next to the reference with it. What is then a fault, or suspicious, was not made. The others are listed:
    /// what they change was not dumped; or they change nothing here, as a choice of blocks does where a prompt has no more
    /// blocks than are chosen; or they change less than rounding may. `parity prompt` makes a prompt that shows more.
    #[arg(long, conflicts_with_all = ["sites", "lens"])]
    coverage: bool,
    #[command(flatten)]
    demanding: Demanding,
    #[command(flatten)]
    files: ReportOptions,
}

impl Verify {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let model = Model::open(&self.model)?;
        let dump = open_dump(self.dump.as_deref(), &model)?;
        let asked = Asked {
            lenses: self.lens.clone(),
            selection: self.part.selection()?,
            demands: self.demanding.demands()?,
            detection: self.coverage,
            command: self.command(),
        };
        let reports = verify(&model, dump, &self.given.given(), &asked, &mut bars(output))?;
        print_all(&reports, output);
        files.write(&reports)?;
        let faulty = reports.iter().any(|report| report.conclusion() == Conclusion::Fail);
        Ok(if faulty { Outcome::Fault } else { Outcome::Good })
    }

    /// The command, without what restricts it.
    fn command(&self) -> String {
        let dump = self.dump.as_ref().map(|dump| format!(" {}", dump.display())).unwrap_or_default();
        format!("parity verify {}{dump}{}", self.model, self.given.typed())
    }
}
