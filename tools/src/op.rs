//! Operators alone: a file holds an operator's inputs, and what a candidate made of them, and no model is needed.
//!
//! Reading order: [`signature`], what an operator reads and makes; [`given`], a file of that; [`made`], what the
//! reference makes of it, and by what names it is refused; [`judged`], a candidate's next to that; [`list`], all operators.

mod activations;
mod attention;
mod blocks;
pub mod given;
pub mod judged;
pub mod list;
pub mod made;
mod misfit;
mod norms;
pub mod operator;
mod products;
mod routing;
pub mod signature;
mod training;
mod vision;
