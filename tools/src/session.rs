//! From what is named (a model, a prompt, a dump) to what is judged, run and written.

pub mod backend;
pub mod decoding;
pub mod dumped;
pub mod model;
pub mod pixels;
pub mod precision;
pub mod prompt;
pub mod prompts;
pub mod recorder;
pub mod rows;
