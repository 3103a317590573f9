//! The two implementations that the program has itself.

use fixtures::checkpoint::rounded::HeldWeights;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::models::decoder::Decoder as Optimized;
use reference::{RoundingContract, Semantics};

use crate::failure::Failure;
use crate::report::output::Output;
use crate::session::model::Model;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The documents' equations, on the processor.
    Reference,
    /// The CUDA path.
    Optimized,
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

/// The weights as the CUDA path holds them.
pub fn weights_of_optimized(model: &Model) -> HeldWeights<'_> {
    HeldWeights::under(&RoundingContract::PARITY, &model.checkpoint)
}

/// Copies a model to a device.
pub fn load_optimized(
    model: &Model,
    semantics: &Semantics,
    choice: DeviceChoice,
    output: Output,
) -> Result<Optimized, Failure> {
    let config = model.checkpoint.config();
    let tower = config.vision.as_ref().map_or(0, |vision| vision.num_hidden_layers);
    let bar = output.progress(config.num_hidden_layers + tower, "copying to the device");
    let gpu = Gpu::open(choice)?;
    let loaded = Optimized::load(gpu, config, semantics, &model.checkpoint, || bar.inc(1))?;
    bar.finish_and_clear();
    Ok(loaded)
}
