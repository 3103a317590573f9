//! The CUDA path: kernels, the host code that mirrors the reference, the emulated device.
//!
//! In reading order:
//! - [`device`] opens a GPU, or the emulated device that stands in for one.
//! - [`tensor`] holds matrices there, [`weight`] weights of products as they are stored.
//! - [`ops`] launches the kernels, an operator a file.
//! - [`communicator`] adds up what ranks of a group have.
//! - [`models`] compose them, as the reference's models do.
//! - [`kernel`] lists the kernels with their constants, and turns their sources into what a device runs.
//! - [`nvrtc`] compiles them for GPUs, [`emulated`] for the emulated device, whose findings are a [`report`].
//! - [`timing`] says how long work takes there, [`conformance`] what each instruction gives; [`tuning`] launches kernels with
//!   other constants, and tells launches apart.

pub mod communicator;
pub mod conformance;
mod cubin;
pub mod device;
pub mod emulated;
pub mod error;
pub mod kernel;
pub mod models;
pub mod nvrtc;
pub mod ops;
pub mod report;
pub mod shared_memory;
pub mod tensor;
pub mod tiles;
pub mod timing;
pub mod tuning;
pub mod weight;
