//! The models: operators composed as the documents' chapters compose them.

mod attention;
mod blocks;
pub mod decoder;
mod experts;
mod feed_forward;
pub mod group;
mod inputs;
pub mod mtp;
mod norms;
mod stream;
mod summed;
pub mod vision;
mod written;
