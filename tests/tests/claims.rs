//! `tools/src/claims`: what models' numbers are.

mod laws;
mod released;
