//! Every test, in one binary.

mod accumulator;
mod bound;
mod compare;
mod config;
mod decode;
mod fixtures;
mod models;
mod ops;
mod rounding;
mod semantics;
mod site;
mod storage;
mod weights;
