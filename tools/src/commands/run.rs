//! `parity run`: one backend's activations, logits and tokens, written to a dump.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Args, value_parser};
use fixtures::activations::writer::DumpWriter;
use reference::decode::Decode;
use reference::ops::sampling::Sampling;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::memory::MemoryOptions;
use crate::commands::options::{OnDevice, Part, Prompted, Reading, ShownOptions};
use crate::failure::Failure;
use crate::report::output::Output;
use crate::session::backend::Backend;
use crate::session::model::Model;
use crate::session::ranked::RankedTask;
use crate::session::run::{Made, Recording, Task, record, require_memory};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Run {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// Which implementation.
    #[arg(long, value_enum, default_value_t = Backend::Reference)]
    pub backend: Backend,
    /// How the reference computes: f64, f32, or a profile's name, such as `eager_bf16` or `fused`, whose roundings it makes.
    #[arg(long, default_value = "f64")]
    pub precision: String,
    /// Run the model as a group of R ranks that share it under tensor parallelism, as document 002 shares it, and write a new
    /// folder with one for each rank, rank-0, rank-1, …, as `parity verify --tp R` reads them.
    ///
    /// Each rank has its heads, experts and tokens of the vocabulary; heads that R does not divide are padded with zeros, and
    /// key heads repeated. A site at which ranks have parts is written as each has it, another on all; each rank's summand of a
    /// sum over ranks is rounded, and the sum at each rank. The reference simulates the group, of the text model, on one processor.
    /// The CUDA path runs it: on a GPU for each rank with NCCL, if --device is auto and there are so many, else all on one device.
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=64), conflicts_with_all = ["memory", "resume"])]
    pub tp: Option<u16>,
    #[command(flatten)]
    prompted: Prompted,
    #[command(flatten)]
    shown: ShownOptions,
    /// Tokens to decode greedily after it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub decode: usize,
    /// Write the activations of each decode step, too, as `step.N.…`.
    #[arg(long)]
    pub steps: bool,
    /// Where to: a name that ends in .safetensors or .npz, or a new folder; - for a .safetensors file on standard output.
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    #[command(flatten)]
    device: OnDevice,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    part: Part,
    /// Keep what is computed, layer by layer, in this folder, and go on with what is there already: a run of the reference that
    /// was interrupted does only what is left when it is given again, and writes the same.
    ///
    /// The folder is of one model, prompt, precision, reading of the documents, choice of sites and version of parity: another's
    /// is refused. It takes as much room as what is written to --out, and is not removed at the end.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    memory: MemoryOptions,
}

impl Run {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        match self.tp {
            Some(count) => self.ranked(&Model::open(&self.model)?, count.into(), output),
            None => self.alone(output),
        }
    }

    /// Without ranks. What it is written to is known before the model is read, which must not be that.
    fn alone(&self, output: Output) -> Result<Outcome, Failure> {
        let mut writer = DumpWriter::create(&self.out)?;
        let model = Model::open(&self.model)?;
        let task = Task {
            computing: self.backend.computing(&self.precision, &self.device.device)?,
            tokens: self.prompted.tokens.clone(),
            shown: self.shown.shown(),
            semantics: self.reading.of(&model)?,
            how: self.how(),
        };
        let selection = self.part.selection()?;
        self.memory.memory.map_or(Ok(()), |memory| require_memory(&model, &task, memory))?;
        let output = output.beside(writer.takes_standard_output());
        let used = self.memory.watch(output);
        let mut write = |name: &str, tensor| writer.write(name, &tensor);
        let recording = Recording { write: &mut write, selection, steps: self.steps, resume: self.resume.clone() };
        let (made, manifest) = record(&model, &task, recording, &mut bars(output))?;
        writer.finish(&manifest)?;
        self.tell(&made, output);
        used.tell(output);
        Ok(Outcome::Good)
    }

    /// As a group of so many ranks.
    fn ranked(&self, model: &Model, count: usize, output: Output) -> Result<Outcome, Failure> {
        let is_file = ["safetensors", "npz"].map(Some).contains(&self.out.extension().and_then(OsStr::to_str));
        if is_file || self.out == Path::new("-") {
            let problem = format!("{}: expected a new folder, which has one for each rank", self.out.display());
            return Err(Failure::new(problem).help("for instance --out ranks"));
        }
        let task = RankedTask {
            count,
            computing: self.backend.computing(&self.precision, &self.device.device)?,
            tokens: self.prompted.tokens.clone(),
            shown: self.shown.shown(),
            semantics: self.reading.of(model)?,
            how: self.how(),
            selection: self.part.selection()?,
            steps: self.steps,
        };
        let used = self.memory.watch(output);
        let made = task.record(model, &self.out, &mut bars(output))?;
        self.tell(&made, output);
        used.tell(output);
        Ok(Outcome::Good)
    }

    fn how(&self) -> Decode {
        Decode { tokens: self.decode, sampling: Sampling::Greedy, seed: 0, chunk: None }
    }

    fn tell(&self, made: &Made, output: Output) {
        output.note(&format!("{} activations written to {}", made.recorded, self.out.display()));
        if self.decode > 0 {
            output.say(&made.tokens().iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        }
    }
}
