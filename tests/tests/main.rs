//! Every test, in one binary.

mod emulator;
mod kernels;
mod ops;
