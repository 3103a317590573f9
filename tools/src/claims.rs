//! The documents' numbers, recomputed: what a model's size, arithmetic and memory are.
//!
//! Reading order: [`hyperparameters`], a model as numbers follow from it; [`parameters`], [`flops`] and [`memory`], the
//! equations; [`sizing`], all of them for one model.

pub mod flops;
pub mod hyperparameters;
pub mod memory;
pub mod parameters;
pub mod sizing;
