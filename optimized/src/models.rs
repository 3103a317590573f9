//! The models, from the kernels' launches, as `reference/src/models` compose the operators.

pub mod cache;
pub mod capture;
pub mod decoder;
mod layers;
pub mod mtp;
pub mod vision;
mod weights;
