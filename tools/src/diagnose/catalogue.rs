//! Known mistakes of implementations (SPEC F), each a change of what the reference computes.
//!
//! Reading order: [`mistake`], what one is; [`assumption`], the reference with mistakes assumed; [`weights`], mistakes in
//! loading; [`tensors`], what a search finds in single tensors, and [`scales`] in those of quantized ones; then the mistakes themselves, by operator; [`list`], all of them.

pub mod assumption;
mod attention;
mod experts;
mod feed_forward;
mod indexer;
pub mod list;
mod loading;
pub mod mistake;
mod norms;
mod rotary;
mod router;
pub mod scales;
pub mod tensors;
mod vision;
pub mod weights;
