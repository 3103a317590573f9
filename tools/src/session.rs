//! From what is named (a model, a prompt, a dump) to what is judged, run and written, as a library: inputs and reports are
//! values, progress is told to a callback, and nothing is printed.
//!
//! Reading order: [`verify`], [`check`] and [`diagnose`], whole answers; [`run`], what a backend computes; [`propose`], a prompt;
//! [`asked`], what they are asked; [`work`], the list of what is done; [`dumped`] and [`model`], what is opened.

pub mod asked;
pub mod backend;
mod calls;
pub mod check;
pub mod decoding;
pub mod diagnose;
pub mod dumped;
mod embedded;
mod generated;
mod inputs;
pub mod model;
pub mod pixels;
pub mod precision;
pub mod progress;
pub mod prompt;
pub mod propose;
pub mod recorder;
mod rotated;
pub mod rows;
pub mod run;
pub mod speculating;
pub mod verify;
pub mod work;
