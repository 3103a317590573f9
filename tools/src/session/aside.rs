//! Calls at the beginning of a dump that are not of what was asked: a server's profile run, or one to warm up.
//!
//! ```text
//! call 0      0 0 0 0 0 0 0 0        one token over and over, or another prompt's: left out
//! call 1 …    the prompt's tokens, as they are said; where nobody says them, the first that are not all one
//! ```
//!
//! What a profile run computes is no model's: its attention reads nothing.

use fixtures::activations::rows::inferred::Fed;
use fixtures::names::sited::Sited;

use super::embedded;
use super::model::Model;
use crate::failure::Failure;

/// How many calls come before those of the one prompt, by the tokens that embeddings show.
pub(super) fn calls(values: &Sited, known: Option<&[Fed]>, model: &Model) -> Result<usize, Failure> {
    if values.sizes().len() < 2 || known.is_some_and(|known| known.len() != 1) {
        return Ok(0);
    }
    let Some(lists) = embedded::tokens(values, model)? else { return Ok(0) };
    let said = known.map(|known| known[0].tokens());
    let is_asked = |call: &embedded::Lists| {
        let [list] = &call[..] else { return false };
        let is_prompt = |said: &Vec<u32>| said.iter().zip(list).all(|(said, shown)| Some(*said) == *shown);
        list.len() > 1 && said.as_ref().map_or_else(|| list.iter().any(|token| *token != list[0]), is_prompt)
    };
    Ok(lists.iter().position(is_asked).unwrap_or(0))
}
