//! The models: operators composed as the documents' chapters compose them.

pub mod decoder;
mod experts;
