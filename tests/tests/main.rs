//! Every test, in one binary.

mod fixtures;
