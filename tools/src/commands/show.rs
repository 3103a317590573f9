//! `parity show`: what is in a checkpoint or a dump.

use std::path::PathBuf;

use clap::Args;
use fixtures::activations::dump::Dump;
use fixtures::checkpoint::Checkpoint;
use fixtures::folder::Folder;
use fixtures::tensor::Listed;
use serde_json::json;

use super::outcome::Outcome;
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report::configured;
use crate::report::figures::counted;
use crate::report::json::JsonFile;
use crate::report::output::Output;
use crate::report::table::{number, with_header};
use crate::session::model::{Model, count};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Show {
    /// A checkpoint's folder, a built-in case, or a dump: a .safetensors, .npz, .npy, .pt, .pkl or .json file, or a folder of those but JSON.
    pub file: PathBuf,
    #[command(flatten)]
    reporting: Reporting,
}

impl Show {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        let is_checkpoint = match Folder::at(&self.file)? {
            Folder::Disk(path) => path.join("config.json").is_file() || !path.exists(),
            folder => folder.has("config.json")?,
        };
        if is_checkpoint {
            let model = Model::open(&self.file.to_string_lossy())?;
            let tensors: Vec<Listed<'_>> = model.checkpoint.tensors().collect();
            let configuration = configured::of(model.checkpoint.config());
            output.say(&format!("{}: {}\n\n{configuration}\n", model.name, model.size()));
            if let Some(unread) = unread(&model.checkpoint) {
                output.say(&unread);
            }
            if let Some(lacking) = lacking(&model.checkpoint) {
                output.say(&lacking);
            }
            return list("checkpoint", &tensors, json, output);
        }
        let dump = Dump::open(&self.file)?;
        if let Some(manifest) = dump.manifest() {
            output.say(&format!("{}\n", manifest.text()));
        }
        let tensors: Vec<Listed<'_>> = dump.tensors().collect();
        list("dump", &tensors, json, output)
    }
}

fn list(kind: &str, tensors: &[Listed<'_>], json: JsonFile, output: Output) -> Result<Outcome, Failure> {
    let mut table = with_header(&["tensor", "type", "shape", "bytes", "file"]);
    for Listed { name, dtype, shape, file } in tensors {
        let bytes = dtype.bytes_of(shape).unwrap_or_default();
        let shape = format!("{shape:?}");
        table.add_row([(*name).into(), dtype.to_string().into(), shape.into(), number(bytes), (*file).into()]);
    }
    let bytes = tensors.iter().map(Listed::bytes).sum();
    output.say(&format!("{table}\n{}, {}B", counted(tensors.len(), "tensor"), count(bytes)));
    let of = |t: &Listed<'_>| json!({ "name": t.name, "dtype": t.dtype.to_string(), "shape": t.shape, "file": t.file });
    let tensors: Vec<_> = tensors.iter().map(of).collect();
    json.write(&json!({ "schema": 1, "kind": kind, "tensors": tensors }))?;
    Ok(Outcome::Good)
}

/// What the folder has beside the model's files, in words.
fn unread(checkpoint: &Checkpoint) -> Option<String> {
    let unread = checkpoint.unread();
    (!unread.is_empty()).then(|| format!("not read, since they are not the model's: {}\n", unread.join(", ")))
}

/// Modules of multi-token prediction that are announced and are not there, in words.
fn lacking(checkpoint: &Checkpoint) -> Option<String> {
    (checkpoint.mtp_modules() < checkpoint.config().num_mtp_modules)
        .then(|| format!("{}\n", checkpoint.lacking_modules()))
}
