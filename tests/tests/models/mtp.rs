//! `reference/src/models/mtp.rs`.

mod by_hand;
