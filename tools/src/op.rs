//! Operators alone: a file holds an operator's inputs, and what a candidate made of them, and no model is needed.

mod activations;
mod attention;
pub mod given;
pub mod judged;
pub mod list;
pub mod made;
mod norms;
pub mod operator;
mod products;
mod routing;
pub mod signature;
