//! `reference/src/models/mtp.rs`, `reference/src/speculative/mtp.rs`.

mod by_hand;
mod drafts;
mod golden;
mod on_device;
mod speculated;
