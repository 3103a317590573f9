//! Every test, in one binary.
