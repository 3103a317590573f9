//! What is told of what a search finds: it is no entry of the catalogue, since its numbers follow from the dump.
//!
//! Reading order: [`weights`], of tensors and of numbers of the configuration; [`attention`], of queries, keys and the cache;
//! [`indexer`], of blocks.

mod attention;
mod indexer;
mod weights;

use crate::diagnose::catalogue::mistake::Mistake;

/// What is told of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// How it is told in a diagnosis.
    pub kind: &'static Mistake,
    /// What it does to the numbers.
    pub numbers: &'static str,
    /// How to mend it.
    pub mend: &'static str,
}

/// All kinds.
pub fn all() -> impl Iterator<Item = &'static Found> {
    [weights::FOUND, attention::FOUND, indexer::FOUND].into_iter().flatten()
}

/// That of a name.
pub fn of(name: &str) -> Option<&'static Found> {
    all().find(|found| found.kind.name == name)
}

const fn found(kind: &'static Mistake, numbers: &'static str, mend: &'static str) -> Found {
    Found { kind, numbers, mend }
}
