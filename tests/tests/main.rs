//! Every test, in one binary.

mod cli;
mod device;
mod emulator;
mod fixtures;
mod kernels;
