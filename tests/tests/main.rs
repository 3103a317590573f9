//! Every test, in one binary.

mod accumulator;
mod fixtures;
mod rounding;
mod storage;
