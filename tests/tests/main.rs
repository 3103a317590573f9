//! Every test, in one binary.

mod accumulator;
mod bound;
mod compare;
mod fixtures;
mod rounding;
mod storage;
