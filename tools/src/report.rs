//! What was found, as a whole, and how it is told: on a terminal, as a page, as JSON, as `JUnit` XML.

pub mod claims;
pub mod content;
pub mod coverage;
pub mod demands;
mod detection;
pub(crate) mod diagnosis;
pub mod differences;
mod exactness;
pub mod files;
pub(crate) mod figures;
pub(crate) mod finding;
mod gains;
pub mod github;
pub mod header;
pub mod html;
pub mod json;
pub mod junit;
mod logits;
pub mod output;
pub mod pictures;
pub(crate) mod place;
mod roundings;
pub mod speculation;
pub mod table;
pub mod terminal;
