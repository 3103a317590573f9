//! Types that are compared without a copy.

/// A type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// binary64.
    F64,
    /// Anything else, already widened to binary64.
    Widened,
}
