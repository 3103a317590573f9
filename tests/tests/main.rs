//! Every test, in one binary.

mod ops;
