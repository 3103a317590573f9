//! Every test, in one binary.

mod device;
mod emulator;
mod fixtures;
mod kernels;
