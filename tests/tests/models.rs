//! `reference/src/models`.

mod m2;
