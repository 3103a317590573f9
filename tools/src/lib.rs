//! The parity program and its library.
//!
//! Reading order: [`candidate`], activations by site, live or from a dump; [`lens`], from which values the reference starts
//! and where it is put next to the candidate; [`verify`], all lenses on their way through a model; [`verdict`], [`spread`]
//! and [`report`], what is said of it; [`decoded`], the same for tokens; [`metrics`], how far two tensors are apart; [`cli`]
//! and [`commands`], the program.

pub mod backend;
pub mod candidate;
pub mod catalogue;
pub mod chosen;
pub mod cli;
pub mod commands;
pub mod decoded;
pub mod decoding;
pub mod diagnose;
pub mod difference;
pub mod dumped;
pub mod failure;
pub mod lens;
pub mod metrics;
pub mod model;
pub mod output;
pub mod pixels;
pub mod precision;
pub mod prompt;
pub mod recorder;
pub mod replay;
pub mod report;
pub mod selection;
pub mod spread;
pub mod verdict;
pub mod verify;
