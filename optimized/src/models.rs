//! The models, from the kernels' launches, as `reference/src/models` compose the operators.

pub mod capture;
pub mod decoder;
pub mod vision;
mod weights;
