//! Options that several commands take.

use std::path::{Path, PathBuf};

use clap::Args;
use fixtures::activations::dump::Dump;
use reference::Semantics;

use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::verdict::Verdict;
use crate::report::demands::{Demands, Denied};
use crate::report::files::{BegunFiles, ReportFiles};
use crate::report::json::JsonFile;
use crate::report::output::Output;
use crate::session::dumped::{Given, open_dump, open_ranks};
use crate::session::model::Model;
use crate::session::pixels::Shown;

/// The reading of the documents.
#[derive(Debug, Clone, Default, Args)]
pub struct Reading {
    /// The reading of the documents: `documents` or `released`, then `,field=value` for each point that is read otherwise.
    /// A built-in case has its own, a dump may name one; else it is `released`, what the released model computes.
    #[arg(long, value_name = "PRESET[,FIELD=VALUE]…")]
    pub semantics: Option<String>,
}

impl Reading {
    /// The reading that is asked for, or the model's.
    pub fn of(&self, model: &Model) -> Result<Semantics, Failure> {
        self.semantics.as_deref().map_or_else(|| model.semantics(), |asked| Ok(asked.parse()?))
    }
}

/// The prompt.
#[derive(Debug, Clone, Default, Args)]
pub struct Prompted {
    /// The prompt: 1,2,3 or @file.json, a list or an object with `tokens`. Built-in cases have their own.
    #[arg(long, value_name = "TOKENS")]
    pub tokens: Option<String>,
}

/// Which part of the model is looked at.
#[derive(Debug, Clone, Default, Args)]
pub struct Part {
    /// Only these layers: `3`, `3..7` (3 to 6), `..7` or `3..`
    #[arg(long, value_name = "RANGE")]
    pub layers: Option<String>,
    /// Only sites whose path fits a pattern, such as `layers.*.self_attn.*`. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    pub sites: Vec<String>,
}

impl Part {
    /// The part.
    pub fn selection(&self) -> Result<Selection, Failure> {
        Selection::parse(self.layers.as_deref(), &self.sites)
    }
}

/// What counts as a fault beside those that are found.
#[derive(Debug, Clone, Default, Args)]
pub struct Demanding {
    /// Operators that must be compared, alone or within a segment: a pattern such as `layers.*.mlp.*`, or `all`. May be given
    /// several times. Those that were not are listed, with exit code 1.
    #[arg(long, value_name = "PATTERN|all")]
    pub require: Vec<String>,
    /// Verdicts that count as faults, too, with exit code 1.
    #[arg(long, value_name = "VERDICT,…", value_enum, value_delimiter = ',')]
    pub deny: Vec<Denied>,
}

impl Demanding {
    /// What is demanded.
    pub fn demands(&self) -> Result<Demands, Failure> {
        let denied: Vec<Verdict> = self.deny.iter().map(|denied| denied.verdict()).collect();
        Demands::parse(&self.require, &denied)
    }
}

/// Where reports go.
#[derive(Debug, Clone, Default, Args)]
pub struct Reporting {
    /// Write the report as JSON, too; to - for standard output, and what is for reading goes to standard error.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Reporting {
    /// Begins the file, if one is asked for; and where else results are told.
    pub fn begin(&self, output: Output) -> Result<(JsonFile, Output), Failure> {
        let file = JsonFile::begin(self.json.as_deref())?;
        let output = output.beside(file.takes_standard_output());
        Ok((file, output))
    }
}

/// Where a result goes that is a table, too.
#[derive(Debug, Clone, Default, Args)]
pub struct TableOptions {
    /// As JSON.
    #[command(flatten)]
    pub reporting: Reporting,
    /// Write the figures as a Parquet table, too, for `DuckDB`, Polars or pandas: a row for each site, lens and statistic, in the
    /// columns model, candidate, baseline, precision, request, step, layer, site, operator, lens, verdict, statistic, value.
    ///
    /// A statistic is a number's path in the JSON of a site: count, equal, faults, deviation, worst.ratio, metrics.rms, … The lens
    /// is local, layer or global, or exact for the exact twin, and null for `diff` and `op`. What has no value there is null:
    /// baseline is the second dump of `diff`.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

impl TableOptions {
    /// Begins the files that are asked for; and where else results are told.
    pub fn begin(&self, output: Output) -> Result<(BegunFiles, Output), Failure> {
        self.clone().files().begun(output)
    }

    fn files(self) -> ReportFiles {
        ReportFiles { json: self.reporting.json, parquet: self.parquet, ..ReportFiles::default() }
    }
}

/// Where the reports of a comparison go.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOptions {
    /// As JSON, and as a table.
    #[command(flatten)]
    pub table: TableOptions,
    /// Write the report as a page to look at, in one file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as `JUnit` XML, as test runners do: a test case a site.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

impl ReportOptions {
    /// Begins the files that are asked for; and where else results are told.
    pub fn begin(&self, output: Output) -> Result<(BegunFiles, Output), Failure> {
        let ReportOptions { table, html, junit } = self.clone();
        ReportFiles { html, junit, ..table.files() }.begun(output)
    }
}

/// The device of the CUDA path.
#[derive(Debug, Clone, Args)]
pub struct OnDevice {
    /// auto takes a GPU if there is one, else the emulated device; cuda or cuda:N a GPU; emulated the emulated device;
    /// checked the same with every load and store checked for races and bounds.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: String,
}

/// A dump.
#[derive(Debug, Clone, Default, Args)]
pub struct DumpOptions {
    /// The tokens that the dump was made from: 1,2,3 or @file.json, a list, or a tokenizer's object with `input_ids` and
    /// `attention_mask`, of one prompt or of several.
    #[arg(long, value_name = "TOKENS")]
    pub tokens: Option<String>,
    /// What the candidate rounds, and where: `f32`, `bf16`, `f16`, or a profile such as `transformers_bf16`, `vllm_bf16`,
    /// `fused`, then `,field=value` for each point that is otherwise. Without it, it is what the dump says, or is found: the
    /// documented profile whose rounding reproduces most of the values.
    #[arg(long, value_name = "PRECISION", alias = "contract")]
    pub precision: Option<String>,
    /// A map from the engine's names to sites, beside those that ship: a JSON object such as `{"schema": 1, "engine": "mine",
    /// "rules": [{"from": "h.{layer}.attn", "to": "model.layers.{layer}.self_attn"}]}`. A rule has `to`, `split` for several sites
    /// side by side in one tensor, or `ignore` with the reason.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Ranks that the dump is of, each with its part in a folder or a file of its own, rank-0, rank-1, … Their parts are put
    /// together; what all have must be the same. Without it they are counted, where nothing else is in the folder.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub tp: Option<u16>,
    /// What the prompt shows.
    #[command(flatten)]
    pub shown: ShownOptions,
    /// The reading of the documents.
    #[command(flatten)]
    pub reading: Reading,
}

impl DumpOptions {
    /// Opens the dump; without one, a built-in case's own values.
    pub fn open(&self, path: Option<&Path>, model: &Model) -> Result<Dump, Failure> {
        match (self.tp, path) {
            (Some(ranks), Some(path)) => open_ranks(path, ranks.into(), model),
            _ => open_dump(path, &self.given(), model),
        }
    }

    /// What is known of the dump.
    pub fn given(&self) -> Given {
        let DumpOptions { tokens, precision, names, tp: _, shown, reading } = self.clone();
        Given { tokens, precision, names, shown: shown.shown(), semantics: reading.semantics, padding_is_seen: false }
    }

    /// The options again, as they were typed.
    pub fn typed(&self) -> String {
        let names = self.names.as_ref().map(|path| path.display().to_string());
        let tp = self.tp.map(|ranks| ranks.to_string());
        let options = [
            ("--tp", &tp),
            ("--tokens", &self.tokens),
            ("--precision", &self.precision),
            ("--semantics", &self.reading.semantics),
            ("--names", &names),
        ];
        typed(&options) + &self.shown.typed()
    }
}

/// What a prompt shows.
#[derive(Debug, Clone, Default, Args)]
pub struct ShownOptions {
    /// Images and videos of the prompt: a .safetensors or .npz file with `pixel_values` and `image_grid_thw`,
    /// `pixel_values_videos` and `video_grid_thw`, as transformers' processor makes them. Built-in cases have their own.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["image", "video"])]
    pub pixels: Option<PathBuf>,
    /// Images of the prompt in its order, PNG or JPEG, instead of their pixels: they are resized, normalised and cut as
    /// the model's `preprocessor_config.json` says, or as released. The prompt has a place for each feature.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub image: Vec<PathBuf>,
    /// Videos of the prompt in its order, a folder of frames or a GIF each, in the same way.
    #[arg(long, value_name = "DIR|FILE", num_args = 1..)]
    pub video: Vec<PathBuf>,
}

impl ShownOptions {
    /// The files.
    pub fn shown(&self) -> Shown {
        let ShownOptions { pixels, image, video } = self.clone();
        Shown { pixels, image, video }
    }

    /// What was typed, as it can be typed again.
    pub fn typed(&self) -> String {
        let list = |option: &str, paths: &[PathBuf]| {
            let paths: Vec<String> = paths.iter().map(|path| format!(" {}", word(&path.display()))).collect();
            if paths.is_empty() { String::new() } else { format!(" {option}{}", paths.concat()) }
        };
        let pixels = list("--pixels", self.pixels.as_slice());
        [pixels, list("--image", &self.image), list("--video", &self.video)].concat()
    }
}

/// Options with a value, as they can be typed again.
pub fn typed(options: &[(&str, &Option<String>)]) -> String {
    options.iter().filter_map(|(name, value)| Some(format!(" {name} {}", word(value.as_ref()?)))).collect()
}

/// An argument, as it can be typed: quoted where the shell would read it otherwise.
pub fn word(argument: &impl ToString) -> String {
    let argument = argument.to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "+-./:@_,=%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument;
    }
    shlex::try_quote(&argument).map(Into::into).unwrap_or(argument)
}
