//! What was found, as a whole, and how it is told: on a terminal, as a page, as JSON, as `JUnit` XML.

pub mod claims;
pub mod content;
pub mod coverage;
pub mod demands;
pub mod demo;
mod detection;
pub mod diagnosis;
pub mod differences;
mod exactness;
pub mod files;
pub(crate) mod figures;
pub(crate) mod finding;
mod gains;
pub mod header;
pub mod html;
pub mod json;
pub mod junit;
mod logits;
pub mod mistakes;
pub mod output;
pub mod pictures;
pub mod place;
mod roundings;
pub mod speculation;
pub mod table;
pub mod terminal;
mod wrapped;
