//! The parity program's library: [`candidate`]s, the [`lens`]es through which they are looked at, the [`verdict`]s.

pub mod candidate;
pub mod decoded;
pub mod failure;
pub mod lens;
pub mod metrics;
pub mod output;
pub mod report;
pub mod verdict;
pub mod verify;
