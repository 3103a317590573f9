//! What a report is about: model, candidate, precision, reading, prompt.

use std::iter;

use reference::{RoundingContract, Semantics};
use serde::{Deserialize, Serialize};

use super::figures::counted;
use super::pictures::TowerPass;
use crate::kept::as_text;

/// What is compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    /// The model's name or folder.
    pub model: String,
    /// Its size, in words.
    pub size: String,
    /// The candidate, and who made it.
    pub candidate: String,
    /// How the candidate rounds.
    #[serde(with = "as_text")]
    pub precision: RoundingContract,
    /// From where that is known.
    pub precision_from: String,
    /// The reading of the documents.
    #[serde(with = "as_text")]
    pub semantics: Semantics,
    /// Tokens of each forward pass.
    pub steps: Vec<usize>,
    /// What the prompt shows, pass by pass through the vision tower.
    pub shown: Vec<TowerPass>,
    /// Layers of the model.
    pub layers: usize,
    /// Channels of an attention head.
    pub head_dim: usize,
    /// What else the reader should know, a sentence each.
    pub notes: Vec<String>,
    /// Why nothing can be concluded, though no comparison finds a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsure: Option<String>,
    /// How many of the candidate's tensors were not compared, since nobody knows what their names mean.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unread: usize,
    /// The command that was run, or the call that was made in Python, without what restricts it to sites.
    pub command: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "that is how serde asks")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Header {
    /// What was read, in words.
    pub(super) fn prompt(&self) -> String {
        let tokens = match self.steps[..] {
            [one] => counted(one, "token"),
            _ => format!("{} tokens in {} passes", self.steps.iter().sum::<usize>(), self.steps.len()),
        };
        iter::once(tokens).chain(self.shown.iter().map(TowerPass::told)).collect::<Vec<_>>().join(", ")
    }
}
