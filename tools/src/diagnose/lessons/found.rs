//! What is told of what a search finds: it is no entry of the catalogue, since its numbers follow from the dump.
//!
//! Reading order: [`told`], what is told of a kind; `weights`, of tensors and of numbers of the configuration; `attention`, of
//! queries, keys and the cache; `indexer`, of blocks.

mod attention;
mod indexer;
pub mod told;
mod weights;

use told::Found;

/// All kinds.
pub fn all() -> impl Iterator<Item = &'static Found> {
    [weights::FOUND, attention::FOUND, indexer::FOUND].into_iter().flatten()
}

/// That of a name.
pub fn of(name: &str) -> Option<&'static Found> {
    all().find(|found| found.kind.name == name)
}
