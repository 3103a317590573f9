//! The parity program.

fn main() {}
