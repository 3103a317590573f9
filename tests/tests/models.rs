//! `reference/src/models`.

mod decoder;
mod group;
mod mtp;
