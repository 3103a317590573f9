//! `reference/src/models`.

mod decoder;
mod group;
mod legacy;
mod mtp;
mod sharded;
