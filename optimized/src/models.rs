//! The models, from the kernels' launches, as `reference/src/models` compose the operators.

pub mod cache;
pub mod capture;
pub mod decoder;
pub mod group;
mod layers;
pub mod mtp;
mod rank;
pub mod vision;
mod weights;
