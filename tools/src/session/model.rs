//! MODEL on the command line: a folder in the hub's format, or a built-in case's name.

use std::fs;
use std::path::{Path, PathBuf};

use fixtures::checkpoint::Checkpoint;
use fixtures::checkpoint::naming::without_suffix;
use fixtures::folder;
use fixtures::golden::{Case, Golden};
use fixtures::remote::{is_url, local};
use fixtures::synth::released::Released;
use reference::Semantics;
use reference::config::{Config, Vision};

use crate::failure::Failure;
use crate::report::figures::counted;

/// A model, and the case that it belongs to if it is a built-in one.
#[derive(Debug)]
pub struct Model {
    /// As it was named.
    pub name: String,
    /// Configuration and weights.
    pub checkpoint: Checkpoint,
    /// Prompt and expected values.
    pub case: Option<Case>,
}

impl Model {
    /// Opens a model.
    pub fn open(name: &str) -> Result<Self, Failure> {
        let path = Path::new(name);
        if path.is_dir() || is_url(path) {
            return Ok(Model { name: name.to_owned(), checkpoint: Checkpoint::open(path)?, case: None });
        }
        let golden = Golden::embedded();
        if golden.names()?.iter().any(|known| known == name) {
            return Model::of_case(golden.case(name)?);
        }
        let known = golden.names()?.join(", ");
        Err(Failure::new(format!("{name} is neither a folder nor a built-in case"))
            .help(format!("name a folder with config.json and .safetensors files, or one of {known}")))
    }

    /// A case's model.
    pub fn of_case(case: Case) -> Result<Self, Failure> {
        Ok(Model { name: case.name.clone(), checkpoint: case.checkpoint()?, case: Some(case) })
    }

    /// The built-in cases' names.
    pub fn built_in() -> Result<Vec<String>, Failure> {
        Ok(Golden::embedded().names()?)
    }

    /// The reading of the documents that it is known to follow: a built-in case's own; a hub folder's is the released model's.
    pub fn semantics(&self) -> Result<Semantics, Failure> {
        let recorded = self.case.as_ref().and_then(|case| case.manifest.semantics.as_deref());
        Ok(recorded.map_or(Ok(Semantics::RELEASED), str::parse)?)
    }

    /// In what the presets of the semantics differ for this model, and how it is read, in words.
    pub fn readings(&self, semantics: &Semantics) -> Option<String> {
        let config = self.checkpoint.config();
        let concerned = |field: &str| Semantics::OPERATORS.iter().find(|(_, fields)| fields.contains(&field));
        let matters = |field: &str| match concerned(field) {
            Some(("swiglu_oai", _)) => config.swiglu_oai.is_some(),
            Some(("indexer" | "block_sparse_attention", _)) => config.index.is_some(),
            _ => true,
        };
        let presets = Semantics::DOCUMENTS.fields().into_iter().zip(Semantics::RELEASED.fields());
        let points: Vec<String> = presets
            .zip(semantics.fields())
            .filter(|((documents, released), _)| documents != released && matters(documents.0))
            .map(|((documents, released), (_, read))| {
                format!("{} {read} (documents {}, released {})", documents.0, documents.1, released.1)
            })
            .collect();
        (!points.is_empty())
            .then(|| format!("where the documents and the released model differ: {}", points.join(", ")))
    }

    /// Layers, heads, experts and parameters, in words.
    pub fn size(&self) -> String {
        let Config { num_hidden_layers, hidden_size, num_attention_heads, num_key_value_heads, .. } =
            *self.checkpoint.config();
        let Config { num_local_experts, num_experts_per_tok, .. } = *self.checkpoint.config();
        let tower =
            |vision: &Vision| format!(", {} vision layers of hidden {}", vision.num_hidden_layers, vision.hidden_size);
        let tower = self.checkpoint.config().vision.as_ref().map(tower).unwrap_or_default();
        let of_weights = self.checkpoint.tensors().filter(|tensor| without_suffix(tensor.name) == tensor.name);
        let parameters: usize = of_weights.map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        format!(
            "{}, hidden {hidden_size}, {num_attention_heads} query and {num_key_value_heads} KV heads, \
             {num_experts_per_tok} of {num_local_experts} experts{tower}, {} parameters",
            counted(num_hidden_layers, "layer"),
            count(parameters)
        )
    }
}

/// The configuration of MODEL, where no weights are needed: a folder's `config.json`, such a file, a built-in case's, or a
/// released model's by its name.
pub fn configuration(name: &str) -> Result<Config, Failure> {
    let path = Path::new(name);
    if is_url(path) || path.is_file() || path.join("config.json").exists() {
        let (path, text) = config_text(path)?;
        return parsed(&path, &text);
    }
    if let Some(released) = Released::named(name) {
        return parsed(path, &released.config().to_string());
    }
    let built_in = Model::built_in()?;
    if built_in.iter().any(|known| known == name) {
        return Ok(Model::open(name)?.checkpoint.config().clone());
    }
    let released = Released::ALL.map(|released| released.name).join(", ");
    Err(Failure::new(format!("{name} is neither a folder with config.json, nor a built-in case, nor a released model"))
        .help(format!("name a folder or a config.json, one of {released}, or one of {}", built_in.join(", "))))
}

/// Where a `config.json` is that is named, or whose folder is, and its text.
pub fn config_text(path: &Path) -> Result<(PathBuf, String), Failure> {
    let path = local(path);
    let is_folder = if is_url(&path) { path.extension() != Some("json".as_ref()) } else { path.is_dir() };
    let path = if is_folder { path.join("config.json") } else { path };
    if is_url(&path) {
        let text = folder::text(&path, &folder::open(&path)?)?;
        return Ok((path, text));
    }
    let text = fs::read_to_string(&path).map_err(|error| {
        Failure::new(format!("{}: cannot be read: {error}", path.display())).help("name a model's config.json")
    })?;
    Ok((path, text))
}

fn parsed(path: &Path, text: &str) -> Result<Config, Failure> {
    Ok(Config::from_json(text).map_err(|source| fixtures::Error::Config { path: path.to_owned(), source })?)
}

/// A number with its magnitude.
pub fn count(n: usize) -> String {
    let n = n as f64;
    match n {
        1e9.. => format!("{:.2} G", n / 1e9),
        1e6.. => format!("{:.2} M", n / 1e6),
        1e3.. => format!("{:.1} k", n / 1e3),
        _ => format!("{n}"),
    }
}
