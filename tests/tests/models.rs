//! `reference/src/models`.

mod decoder;
