//! The models: operators composed as the documents' chapters compose them.

pub mod m2;
mod experts;
