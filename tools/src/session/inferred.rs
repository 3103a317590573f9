//! What follows from prompts and rows, where no manifest says whose these are.

use fixtures::activations::rows::Call;
use fixtures::activations::rows::inferred::{self, Fed, Size};

use crate::failure::Failure;

const HELP_ROWS: &str = "give the tokens that the dump was made from with their attention_mask, as the tokenizer wrote them, and \
                         `decode.tokens`; or dump with tools/capture, which writes down what went into each call";

/// What does not fit, with what to do.
pub(super) fn misfit(problem: String) -> Failure {
    Failure::new(problem).help(HELP_ROWS)
}

/// The calls of a dump, and what is known of its requests.
#[derive(Default)]
pub(super) struct Inferred {
    /// The calls.
    pub calls: Vec<Call>,
    /// Each request's prompt, where it is known.
    pub known: Option<Vec<Fed>>,
    /// Tokens that nobody said, and that are read from their embeddings.
    pub embedded: usize,
    /// Tokens that nobody said, and that are the likeliest by the logits before each.
    pub likeliest: usize,
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

/// Of prompts and all that was decoded after them, the last token was never read: a dump that has rows of all others is of these.
pub(super) fn without_last(fed: &[Fed], sizes: &[Size]) -> Option<Inferred> {
    let width = fed.first()?.slots.len();
    let rows: usize = sizes.iter().map(|size| size.rows).sum::<Option<usize>>()?;
    let are_whole = fed.iter().all(|one| one.slots.len() == width && one.decoded.is_empty());
    let is_token = fed.iter().any(|one| one.slots.last().is_some_and(Option::is_some));
    if !are_whole || !is_token || rows == 0 || rows != fed.len() * (width - 1) {
        return None;
    }
    let read = |one: &Fed| Fed { slots: one.slots[..width - 1].to_vec(), ..one.clone() };
    let read: Vec<Fed> = fed.iter().map(read).collect();
    let calls = inferred::calls(&read, sizes).ok()?;
    Some(Inferred { calls, known: Some(read), unread: 1, ..Inferred::default() })
}

/// The first position at which tokens differ, as far as both are known.
pub(super) fn first_difference(one: &[u32], other: &[u32]) -> Option<usize> {
    one.iter().zip(other).position(|(one, other)| one != other)
}

/// Demands that the given tokens are those that went in, as far as both are known.
pub(super) fn require_same(given: &[u32], dumped: &[u32]) -> Result<(), Failure> {
    require_same_from(0, given, dumped)
}

/// The same from a position on.
pub(super) fn require_same_from(first: usize, given: &[u32], dumped: &[u32]) -> Result<(), Failure> {
    let Some(at) = first_difference(given, dumped) else { return Ok(()) };
    let problem = format!(
        "the dump was made from other tokens: they differ from position {} (given {}, dumped {})",
        first + at,
        given[at],
        dumped[at]
    );
    Err(Failure::new(problem).help("give the dump's own tokens, or dump again"))
}
