//! The documents' numbers, recomputed: what a model's size, arithmetic and memory are, and which of the numbers that
//! the documents state of them hold.
//!
//! Reading order: [`hyperparameters`], a model as numbers follow from it; [`parameters`], [`flops`] and [`memory`], the
//! equations; [`sizing`], all of them for one model, and [`account`], place by place; [`verdict`] and [`claim`], how a
//! stated number is held to what is recomputed; [`ledger`], every number of the documents.

pub mod account;
pub mod claim;
pub mod document;
pub mod flops;
pub mod hyperparameters;
pub mod ledger;
pub mod memory;
pub mod parameters;
pub mod sizing;
pub mod unit;
pub mod verdict;
