//! From what is named (a model, a prompt, a dump) to what is judged, run and written, as a library: inputs and reports are
//! values, progress is told to a callback, and nothing is printed.
//!
//! Reading order: [`verify`], [`check`], [`diagnose`] and [`diff`], whole answers; [`run`], what a backend computes,
//! [`ranked`], what ranks of a group do; [`propose`], a prompt; [`asked`], what they are asked; [`work`], the list of what is
//! done, [`units`], parts of it that are done by themselves, [`shard`], those of one machine; [`dumped`] and [`model`], what is
//! opened.

mod alone;
mod answered;
mod aside;
pub mod asked;
pub mod backend;
mod beams;
mod calls;
pub mod check;
mod compared;
mod computed;
pub mod decoding;
pub mod demo;
pub mod diagnose;
pub mod diff;
pub mod dumped;
mod drafted;
mod embedded;
mod generated;
mod graphed;
mod greedy;
mod identity;
mod inferred;
mod inputs;
mod kept;
mod lasts;
mod looped;
pub mod mistakes;
mod meant;
pub mod model;
mod need;
mod normed;
mod outline;
mod padded;
pub mod part;
mod phases;
mod picked;
pub mod pixels;
pub mod precision;
mod prefixed;
pub mod progress;
pub mod prompt;
pub mod propose;
pub mod recorder;
pub mod ranked;
mod resume;
mod room;
mod rotated;
pub mod rows;
pub mod run;
mod scored;
mod served;
pub mod shard;
pub mod speculating;
mod stepped;
mod tokens;
mod teller;
mod told;
pub mod units;
mod understood;
mod unnamed;
mod untold;
pub mod verify;
mod window;
pub mod work;
