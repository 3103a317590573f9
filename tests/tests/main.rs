//! Every test, in one binary.

mod accumulator;
mod bound;
mod cli;
mod compare;
mod config;
mod decode;
mod device;
mod emulator;
mod exact_grid;
mod fixtures;
mod generic_faults;
mod golden;
mod harness_mutants;
mod invariance;
mod kernel_faults;
mod kernels;
mod layering;
mod mirror;
mod models;
mod ops;
mod rounding;
mod semantics;
mod site;
mod storage;
mod weights;
