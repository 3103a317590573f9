//! What follows from prompts and rows, where no manifest says whose these are.

use fixtures::activations::rows::Call;
use fixtures::activations::rows::inferred::Fed;

/// The calls of a dump, and what is known of its requests.
pub(super) struct Inferred {
    /// The calls.
    pub calls: Vec<Call>,
    /// Each request's prompt, where it is known.
    pub known: Option<Vec<Fed>>,
    /// Tokens that nobody said, and that are read from their embeddings.
    pub embedded: usize,
    /// Tokens at the end of what was said that the dump has no rows of.
    pub unread: usize,
}

/// Whether each of a list's slots is a token.
pub(super) fn is_unpadded(fed: &Fed) -> bool {
    fed.slots.iter().all(Option::is_some)
}

/// The prompt, and what was decoded after it.
pub(super) fn all_of(fed: &Fed) -> Vec<u32> {
    [fed.tokens(), fed.decoded.clone()].concat()
}
