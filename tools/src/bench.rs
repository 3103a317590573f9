//! How well the CUDA path does on a device: operators, layers and a step of decoding at a model's shapes, beside what no
//! implementation can do without.
//!
//! [`floor`](mod@floor) says what that is, of each of the [`operators`], whose weights may be quantized. [`device`] has their
//! inputs on a device and runs them, [`mod@reference`] times the reference's own; [`measuring`] does it all, [`instructions`]
//! compares what instructions give.

pub mod floor;
pub mod operators;
pub mod pattern;
pub mod device;
pub mod instructions;
pub mod measuring;
pub mod reference;
mod weights;
