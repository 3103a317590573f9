//! The parity program and its library, from the top floor down.
//!
//! [`commands`] is the program: what is typed, what is printed, the exit code. [`session`] opens what is named. [`report`]
//! tells what was found. [`diagnose`] names mistakes. [`judge`] puts a candidate next to the reference. [`compare`] puts two
//! dumps side by side. [`op`] judges an operator alone. [`probe`] asks a function how it adds and rounds. [`mod@bench`] measures
//! the CUDA path on a device, [`tune`] changes its kernels' launch parameters. [`claims`] recomputes the documents' numbers.

pub mod bench;
pub mod claims;
pub mod commands;
pub mod compare;
pub mod diagnose;
pub mod failure;
pub mod judge;
pub(crate) mod kept;
pub mod op;
pub mod probe;
pub mod report;
pub mod session;
pub mod tune;
