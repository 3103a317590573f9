//! What is told of a kind of what a search finds.

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

/// That of a kind.
pub(super) const fn found(kind: &'static Mistake, numbers: &'static str, mend: &'static str) -> Found {
    Found { kind, numbers, mend }
}
