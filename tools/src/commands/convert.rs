//! `parity convert`: a checkpoint laid out as an engine loads it, and back.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use fixtures::convert::Conversion;
use fixtures::convert::layout::Layout;
use fixtures::formats::safetensors::write::Item;

use super::outcome::Outcome;
use super::writing::{file_size, written};
use crate::failure::Failure;
use crate::report::output::Output;

/// What is typed.
///
/// Bytes are copied, never computed: what comes back with --to hub is what went, tensor by tensor. Scales of quantized
/// weights go where their weights go. Files are read and written piece by piece, so that a checkpoint of any size needs
/// little memory; the new folder has its name when it is complete.
#[derive(Debug, Clone, Args)]
pub struct Convert {
    /// A checkpoint: a folder in the hub's format, or one that was converted.
    pub model: PathBuf,
    /// The layout.
    #[arg(long, value_name = "LAYOUT", value_parser = layouts())]
    pub to: Layout,
    /// Ranks that share the model. Query heads are padded to a multiple of them and key heads repeated, as document 002
    /// does; for fused, each rank's part is a folder rank-0, rank-1, … of the new one.
    #[arg(long, value_name = "R", value_parser = value_parser!(u16).range(1..=1024))]
    pub tp: Option<u16>,
    /// The new folder.
    #[arg(long, value_name = "FOLDER", required_unless_present = "dry_run")]
    pub out: Option<PathBuf>,
    /// Write nothing; list the tensors that there would be.
    #[arg(long)]
    pub dry_run: bool,
    /// GiB of a file, at most, if it has more than one tensor.
    #[arg(long, value_name = "GIB", default_value_t = 4.0)]
    pub shard_size: f64,
}

/// The layouts by their names.
fn layouts() -> impl TypedValueParser<Value = Layout> {
    let names = [
        ("fused", "As vLLM and SGLang load it: qkv_proj, w13_weight, w2_weight"),
        ("neuron", "As document 002 converts it: norms for R ranks, experts stacked and transposed; M2 alone"),
        ("transformers", "As transformers' modules have it: experts of a layer stacked, gate over up"),
        ("hub", "Back to the hub's: a tensor for each projection of each expert"),
    ];
    let names = names.map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|name| name.parse().expect("one of the names"))
}

impl Convert {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let file_size = file_size(self.shard_size)?;
        let conversion = Conversion::open(&self.model, self.to, self.tp.map(usize::from))?;
        let Some(out) = self.out.as_ref().filter(|_| !self.dry_run) else {
            output.say(&listed(&conversion)?);
            return Ok(Outcome::Good);
        };
        written(out, output, |progress| conversion.write(out, file_size, progress))
    }
}

/// A line for each tensor, after its folder's number where there are several.
fn listed(conversion: &Conversion) -> Result<String, Failure> {
    let folders = conversion.items()?;
    let several = folders.len() > 1;
    let line = |rank: usize, item: &Item| {
        let of = if several { format!("rank {rank} ") } else { String::new() };
        format!("{of}{} {} {:?}", item.name, item.dtype, item.shape)
    };
    let lines = folders.iter().enumerate().flat_map(|(rank, items)| items.iter().map(move |item| line(rank, item)));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}
