//! `reference/src/models`.

mod decoder;
mod mtp;
