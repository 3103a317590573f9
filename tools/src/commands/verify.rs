//! `parity verify`: a dump from any engine next to the reference.

use std::path::PathBuf;

use clap::Args;

use super::github;
use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::memory::MemoryOptions;
use crate::commands::options::{Demanding, DumpOptions, Part, ReportOptions, word};
use crate::failure::Failure;
use crate::judge::lens::Lens;
use crate::report::output::Output;
use crate::report::terminal::print_all;
use crate::session::asked::Asked;
use crate::session::model::Model;
use crate::session::shard::Shard;
use crate::session::verify::{Means, verify_by, verify_shard};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// A .safetensors, .npz, .pt or .pkl file, or a folder of those or of .npy files; or a .json file. For a built-in case its own values.
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
    /// Do one of N shards of the work, the I-th from 1, and write what it found to the file of --json; `parity merge` makes
    /// the report of all shards' files, the one that a single command makes.
    ///
    /// Layers are independent of one another where the dump shows the residual stream between them: the work is cut there, in
    /// units of about one layer. The global lens of each request, its decoded tokens and --coverage are units of their own.
    /// Each shard does neighbouring units, so that all take about as long; where there are more shards than units, some are
    /// empty. Every shard is given the same model, dump and options, on any machine. The exit code is 0 whatever a shard finds:
    /// `parity merge` tells that.
    #[arg(long, value_name = "I/N", requires = "json", conflicts_with_all = ["html", "junit", "parquet"])]
    shard: Option<Shard>,
    /// Keep what is found, unit by unit, in this folder, and go on with what is there already: a command that was interrupted
    /// does only what is left when it is given again. Shards may share a folder.
    ///
    /// The folder is of one model, dump, prompt, precision, choice of lenses and version of parity: another's is refused. It is
    /// not removed at the end.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryOptions,
    #[command(flatten)]
    demanding: Demanding,
    #[command(flatten)]
    files: ReportOptions,
}

impl Verify {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        match self.shard {
            Some(shard) => self.shard(shard, output),
            None => self.whole(output),
        }
    }

    fn whole(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.files.begin(output)?;
        let model = Model::open(&self.model)?;
        let dump = self.given.open(self.dump.as_deref(), &model)?;
        let used = self.memory.watch(output);
        let question = (&self.given.given(), &self.asked()?);
        let reports = verify_by(&self.means(), &model, dump, question, &mut bars(output))?;
        print_all(&reports, output);
        Failure::of_all([files.write(&reports), github::tell(&reports, output)].into_iter().filter_map(Result::err))?;
        used.tell(output);
        Ok(Outcome::of(&reports))
    }

    fn shard(&self, shard: Shard, output: Output) -> Result<Outcome, Failure> {
        let (file, output) = self.files.table.reporting.begin(output)?;
        let model = Model::open(&self.model)?;
        let dump = self.given.open(self.dump.as_deref(), &model)?;
        let used = self.memory.watch(output);
        let question = (&self.given.given(), &self.asked()?);
        let done = verify_shard((shard, &self.means()), &model, dump, question, &mut bars(output))?;
        file.write(&done)?;
        output.say(&done.told());
        used.tell(output);
        Ok(Outcome::Good)
    }

    fn means(&self) -> Means {
        Means { resume: self.resume.clone(), memory: self.memory.memory }
    }

    fn asked(&self) -> Result<Asked, Failure> {
        Ok(Asked {
            lenses: self.lens.clone(),
            selection: self.part.selection()?,
            demands: self.demanding.demands()?,
            detection: self.coverage,
            command: self.command(),
        })
    }

    /// The command, without what restricts it.
    fn command(&self) -> String {
        let dump = self.dump.as_ref().map(|dump| format!(" {}", word(&dump.display()))).unwrap_or_default();
        format!("parity verify {}{dump}{}", word(&self.model), self.given.typed())
    }
}
