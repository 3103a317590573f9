//! The documents, by the names that the specification cites them with.

use clap::ValueEnum;
use serde::Serialize;
use strum::Display;

/// Where a number is stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Display, ValueEnum)]
pub enum Document {
    /// Teardown of MiniMax-M2.7 (document 000).
    #[value(name = "S0", alias = "000")]
    S0,
    /// Teardown of MiniMax-M3 (document 001).
    #[value(name = "S1", alias = "001")]
    S1,
    /// MiniMax-M2 on Neuron (document 002).
    #[value(name = "S2", alias = "002")]
    S2,
    /// Newsletter on MiniMax-M2.7 (document 003).
    #[value(name = "S3", alias = "003")]
    S3,
    /// Analysis of MiniMax-M2's architecture (document 004).
    #[value(name = "S4", alias = "004")]
    S4,
    /// MiniMax's own model card of M2.7.
    #[value(name = "card")]
    #[serde(rename = "card")]
    #[strum(to_string = "card")]
    Card,
}

impl Document {
    /// What it is, in words.
    pub fn title(self) -> &'static str {
        match self {
            Document::S0 => "teardown of MiniMax-M2.7",
            Document::S1 => "teardown of MiniMax-M3",
            Document::S2 => "MiniMax-M2 on Neuron",
            Document::S3 => "newsletter on MiniMax-M2.7",
            Document::S4 => "analysis of MiniMax-M2's architecture",
            Document::Card => "model card of MiniMax-M2.7",
        }
    }
}
