//! Known mistakes of implementations (SPEC F), each a change of what the reference computes.
//!
//! Reading order: [`mistake`], what one is; [`assumption`], the reference with mistakes assumed; [`instead`], a tensor that
//! holds another site's values; [`weights`], mistakes in loading; [`tensors`], what a search finds in them: a [`part`] times a
//! factor that was [`fit`], another [`order`], another [`grid`], other [`scales`], what is [`taken`] from another; then the
//! mistakes themselves, by operator; [`list`], all of them.

pub mod assumption;
pub mod attention;
mod experts;
mod feed_forward;
pub mod fit;
pub mod fused;
pub mod grid;
mod indexer;
pub mod instead;
pub mod list;
mod loading;
pub mod mistake;
pub(in crate::diagnose) mod names;
mod norms;
pub(in crate::diagnose) mod operator;
pub mod order;
pub mod part;
pub mod residual;
pub mod rotary;
mod router;
pub mod scales;
pub mod taken;
pub mod tensors;
mod vision;
pub mod weights;
