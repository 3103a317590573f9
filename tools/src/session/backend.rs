//! The two implementations that the program has itself.

use fixtures::activations::manifest::Manifest;
use optimized::communicator::members::open;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::models::decoder::Decoder as Optimized;
use optimized::models::group::Group;
use reference::config::Config;
use reference::ranks::Ranks;
use reference::{RoundingContract, Semantics};

use crate::failure::Failure;
use crate::session::model::Model;
use crate::session::precision::named;
use crate::session::progress::{Progress, Watcher};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// The documents' equations, on the processor.
    Reference,
    /// The CUDA path.
    Optimized,
}

/// One of them, and how it computes.
#[derive(Debug, Clone)]
pub enum Computing {
    /// The reference: in f64, in f32, or with a profile's roundings.
    Reference(String),
    /// The CUDA path, on a device.
    Optimized(DeviceChoice),
}

impl Backend {
    /// With what `--precision` and `--device` say of it.
    pub fn computing(self, precision: &str, on: &str) -> Result<Computing, Failure> {
        Ok(match self {
            Backend::Reference => Computing::Reference(precision.to_owned()),
            Backend::Optimized => Computing::Optimized(device(on)?),
        })
    }
}

impl Computing {
    /// What is rounded, and where.
    pub(super) fn contract(&self) -> Result<RoundingContract, Failure> {
        match self {
            Computing::Reference(precision) => named(precision),
            Computing::Optimized(_) => Ok(RoundingContract::PARITY),
        }
    }
}

/// `--device`.
pub fn device(text: &str) -> Result<DeviceChoice, Failure> {
    let bad = || {
        Failure::new(format!("--device {text}: there is no such device"))
            .help("expected auto, cuda, cuda:N, emulated or checked")
    };
    Ok(match text {
        "auto" => DeviceChoice::Auto,
        "cuda" => DeviceChoice::Cuda(0),
        "emulated" => DeviceChoice::Emulated(Form::Fast),
        "checked" => DeviceChoice::Emulated(Form::Checked),
        _ => DeviceChoice::Cuda(text.strip_prefix("cuda:").and_then(|n| n.parse().ok()).ok_or_else(bad)?),
    })
}

/// Whether the CUDA path that wrote a dump ran on the emulated device; `None` of a dump by anything else.
pub fn ran_on_emulated(manifest: Option<&Manifest>) -> Option<bool> {
    let producer = manifest?.producer.as_ref()?;
    let ours = producer.get("library")? == "parity" && producer.get("backend")? == "optimized";
    ours.then(|| producer.get("emulated").is_some_and(|emulated| emulated == true))
}

/// Copies a model to a device.
pub fn load_optimized(
    model: &Model,
    semantics: &Semantics,
    choice: DeviceChoice,
    watch: &mut Watcher<'_>,
) -> Result<Optimized, Failure> {
    let config = model.checkpoint.config();
    let tower = config.vision.as_ref().map_or(0, |vision| vision.num_hidden_layers);
    watch(Progress::Begins { what: "copying to the device", steps: config.num_hidden_layers + tower });
    let gpu = Gpu::open(choice)?;
    let loaded = Optimized::load(gpu, config, semantics, &model.checkpoint, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(loaded)
}

/// Copies a model to devices, each of R ranks with its part.
pub fn load_ranks(
    model: &Model,
    semantics: &Semantics,
    (choice, count): (DeviceChoice, usize),
    watch: &mut Watcher<'_>,
) -> Result<Group, Failure> {
    let config = model.checkpoint.config();
    let ranks = sharing(config, count)?;
    watch(Progress::Begins { what: "copying to the devices", steps: count * config.num_hidden_layers });
    let members = open(choice, count)?;
    let loaded = Group::load(members, ranks, (config, semantics), &model.checkpoint, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(loaded)
}

/// R ranks that share a model.
pub fn sharing(config: &Config, count: usize) -> Result<Ranks, Failure> {
    let help = "give --tp a number of ranks that can share the model";
    Ranks::of(config, count).map_err(|error| Failure::new(error.to_string()).help(help))
}
