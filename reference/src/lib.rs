//! What the documents say: the operators and models of MiniMax-M2.7 and M3, their error bounds, and nothing else.
//!
//! Reading order: [`ops`], one file an operator, each beginning with its equation; [`models`], which compose them as the
//! documents' chapters do; [`semantics`] and [`rounding`], the points on which the documents or implementations differ;
//! [`site`] and [`probe`], how a running model is looked into; [`bound`], how far a correct implementation may be off.
//!
//! Everything is generic over [`Real`]: in f64 it is the truth, in f32 a model of a device's arithmetic.

pub mod abreast;
pub mod accumulator;
pub mod bound;
pub mod compare;
pub mod config;
pub mod contract;
pub mod decode;
pub mod error;
pub mod evolution;
pub mod grid;
pub mod matrix;
pub mod media;
pub mod models;
pub mod ops;
pub mod order;
mod parallel;
pub mod probe;
mod product;
pub mod products;
pub mod profiles;
pub mod ranking;
pub mod ranks;
pub mod real;
pub mod reduction;
pub mod rounding;
pub mod run;
pub mod semantics;
pub mod site;
pub mod speculative;
pub mod storage;
pub mod tracked;
pub mod weights;
mod words;

pub use error::{ContractError, Error};
pub use grid::Grid;
pub use real::Real;
pub use rounding::RoundingContract;
pub use semantics::Semantics;
pub use site::{LayerSite, Site};
pub use storage::{Rounding, Storage};
pub use tracked::Tracked;
