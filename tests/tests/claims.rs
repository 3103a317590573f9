//! `tools/src/claims`: what models' numbers are, and which of the documents' hold.

mod laws;
mod ledger;
mod released;
mod verdict;
