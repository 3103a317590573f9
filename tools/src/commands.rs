//! The subcommands, a file each: what is typed, and what is done.

pub mod account;
pub mod check;
pub mod claims;
pub mod cli;
pub mod completions;
pub mod convert;
pub mod decode;
pub mod demo;
pub mod diagnose;
pub mod diff;
pub mod fixtures;
mod github;
pub mod interrupt;
pub mod kernels;
pub mod man;
pub mod memory;
pub mod merge;
pub mod mistakes;
pub mod op;
pub mod options;
pub mod outcome;
mod progress;
pub mod prompt;
pub mod run;
pub mod show;
pub mod synth;
pub mod verify;
