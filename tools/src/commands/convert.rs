//! `parity convert`: a checkpoint laid out as an engine loads it, and back, or stored in other types.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use fixtures::convert::Conversion;
use fixtures::convert::layout::Layout;
use fixtures::convert::types::{Retyping, Types};
use fixtures::formats::safetensors::write::Item;

use super::outcome::Outcome;
use super::writing::{file_size, written};
use crate::failure::Failure;
use crate::report::output::Output;

/// What is typed.
///
/// Layouts: bytes are copied, never computed, and what comes back with --to hub is what went, tensor by tensor. Scales of
/// quantized weights go where their weights go.
///
/// Types: with --to fp8 and mxfp8 matrices of decoder layers are quantized as transformers does it, and saturate; routers,
/// norms, embeddings, head, vision tower and MTP modules stay as they are stored. With --to bf16 each weight is q·s in f32,
/// rounded to bf16, and routers stay in f32. `quantization_config` follows. From one scheme to the other weights are rounded
/// a second time, from q·s.
///
/// Files are read and written piece by piece, so that a checkpoint of any size needs little memory; the new folder has its
/// name when it is complete.
#[derive(Debug, Clone, Args)]
pub struct Convert {
    /// A checkpoint: a folder in the hub's format, or one that was converted.
    pub model: PathBuf,
    /// The layout, or what weights are stored in.
    #[arg(long, value_name = "LAYOUT|TYPE", value_parser = targets())]
    pub to: Target,
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

/// What a checkpoint is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The same values, laid out otherwise.
    Layout(Layout),
    /// The same layout, in other types.
    Types(Types),
}

/// Layouts and types by their names.
fn targets() -> impl TypedValueParser<Value = Target> {
    let names = [
        ("fused", "As vLLM and SGLang load it: qkv_proj, w13_weight, w2_weight"),
        ("neuron", "As document 002 converts it: norms for R ranks, experts stacked and transposed; M2 alone"),
        ("transformers", "As transformers' modules have it: experts of a layer stacked, gate over up"),
        ("hub", "Back to the hub's: a tensor for each projection of each expert"),
        ("fp8", "Quantized as M2.7 is released: E4M3 in blocks of 128×128 with f32 scales"),
        ("mxfp8", "Quantized as M3 is released: E4M3 in blocks of 1×32 with powers of two for scales"),
        ("bf16", "Not quantized, each weight rounded to bf16"),
    ];
    let names = names.map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(names).map(|name| match name.parse() {
        Ok(layout) => Target::Layout(layout),
        Err(_) => Target::Types(name.parse().expect("one of the names")),
    })
}

impl Convert {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let file_size = file_size(self.shard_size)?;
        let ranks = self.tp.map(usize::from);
        let out = self.out.as_ref().filter(|_| !self.dry_run);
        let list = |folders: &[Vec<Item>]| {
            output.say(&listed(folders));
            Ok(Outcome::Good)
        };
        match self.to {
            Target::Layout(layout) => {
                let conversion = Conversion::open(&self.model, layout, ranks)?;
                let Some(out) = out else { return list(&conversion.items()?) };
                written(out, output, |progress| conversion.write(out, file_size, progress))
            }
            Target::Types(types) => {
                if ranks.is_some() {
                    let problem = format!("--tp with --to {types}: types are the same on all ranks, expected no --tp");
                    return Err(Failure::new(problem).help("leave --tp out, and share what was made --to fused --tp R"));
                }
                let retyping = Retyping::open(&self.model, types)?;
                let Some(out) = out else { return list(&[retyping.items()?]) };
                written(out, output, |progress| retyping.write(out, file_size, progress))
            }
        }
    }
}

/// A line for each tensor, after its folder's number where there are several.
fn listed(folders: &[Vec<Item>]) -> String {
    let several = folders.len() > 1;
    let line = |rank: usize, item: &Item| {
        let of = if several { format!("rank {rank} ") } else { String::new() };
        format!("{of}{} {} {:?}", item.name, item.dtype, item.shape)
    };
    let lines = folders.iter().enumerate().flat_map(|(rank, items)| items.iter().map(move |item| line(rank, item)));
    lines.collect::<Vec<_>>().join("\n")
}
