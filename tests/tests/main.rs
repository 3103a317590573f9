//! Every test, in one binary.

mod fixtures;
mod storage;
