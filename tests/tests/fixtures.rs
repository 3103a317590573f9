//! The `fixtures` crate.

mod activations;
mod arbitrary;
mod checkpoint;
mod convert;
mod damaged;
mod empty;
mod forms;
mod golden;
mod habits;
mod images;
mod json;
mod megatron;
mod modules;
mod names;
mod onnx;
mod quantized;
mod ranks;
mod refused;
mod round_trip;
mod sample;
mod synth;
mod tokens;
mod torch;
mod whole;
mod written;
