//! A server's answer as a dump: in each row the log-probabilities of the tokens that it shows, in f32, in which servers compute them, and
//! −∞ in place of others.
//!
//! ```text
//! some_log_probs          [P, V]   of a prompt of P tokens, or [1, V] of its last
//! step.i.some_log_probs   [1, V]   of what comes behind the ith token that was decoded
//! ```

use std::ffi::OsStr;
use std::path::Path;

use fixtures::Dtype;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::stated::{Lists, StatedCall};
use fixtures::activations::source::HeldTensor;
use fixtures::bytes::Held;
use fixtures::folder;
use fixtures::formats::answer::{Answer, Entry};

use crate::failure::Failure;
use crate::session::prompt::Prompt;

/// Values of all rows that are held at most, shown or not.
const MOST: usize = 1 << 29;

/// Bytes of a file that may be an answer, at most: what is larger has values of all tokens.
const LARGEST: usize = 1 << 26;

const HELP: &str = "ask the server for ids: vLLM gives them with `return_token_ids` and `return_tokens_as_token_ids`, SGLang, llama.cpp and \
                    TGI by themselves; or keep the logits";

/// The dump that a JSON file is, if it is an answer, of a prompt that it says, or that is given.
pub(super) fn opened(path: &Path, given: Option<&str>, vocabulary: usize) -> Result<Option<Dump>, Failure> {
    if path.extension() != Some(OsStr::new("json")) || path.is_dir() {
        return Ok(None);
    }
    let bytes = folder::open(path)?;
    if bytes.len() > LARGEST {
        return Ok(None);
    }
    let answer = serde_json::from_slice(bytes.all()?).ok().and_then(|json| Answer::find(&json));
    answer.map(|answer| dump(path, &answer, given, vocabulary)).transpose()
}

fn dump(path: &Path, answer: &Answer, given: Option<&str>, vocabulary: usize) -> Result<Dump, Failure> {
    let refused = |problem: String| Failure::new(format!("{}: {problem}", path.display())).help(HELP);
    if !answer.has_ids() {
        return Err(refused("tells log-probabilities by texts, expected ids of tokens".to_owned()));
    }
    let (all, decoded) = (answer.decoded.len(), answer.tokens());
    if decoded.len() + 1 < all {
        let number = decoded.len() + 1;
        return Err(refused(format!("decoded {all} tokens, of which the id of number {number} is not said")));
    }
    if answer.others > 0 {
        let problem =
            format!("{}: answers {} times, expected one request and one choice", path.display(), answer.others + 1);
        return Err(Failure::new(problem).help("keep each in a file of its own, and verify them one by one"));
    }
    let prompt = match given.filter(|_| answer.prompt.is_empty()) {
        Some(given) => before(&Prompt::parse(given)?.tokens, &decoded).to_vec(),
        None => answer.prompt.clone(),
    };
    let nothing = Entry::default();
    let first: Vec<&Entry> = match (&answer.of_prompt[..], answer.decoded.first()) {
        (of_prompt, Some(first)) => of_prompt.iter().chain([first]).collect(),
        (of_prompt, None) => of_prompt.iter().chain([&nothing]).collect(),
    };
    let rows = first.len() + all;
    if rows.saturating_mul(vocabulary) > MOST {
        return Err(refused(format!("shows {rows} tokens of a vocabulary of {vocabulary}: too many at once")));
    }
    let mut tensors = vec![rows_of("some_log_probs", &first, vocabulary).map_err(refused)?];
    for (i, entry) in answer.decoded.iter().enumerate().skip(1) {
        tensors.push(rows_of(&format!("step.{i}.some_log_probs"), &[entry], vocabulary).map_err(refused)?);
    }
    let call = |tokens: &[u32], first: usize| StatedCall {
        tokens: Some(Lists::One(tokens.to_vec())),
        first: Some(first),
        ..StatedCall::default()
    };
    let later = decoded.iter().take(all.saturating_sub(1)).enumerate();
    let later = later.map(|(i, token)| call(&[*token], prompt.len() + i));
    let calls = if prompt.is_empty() { Vec::new() } else { [call(&prompt, 0)].into_iter().chain(later).collect() };
    // Whether tokens were decoded greedily is not said, and the numbers of those that were tell more.
    let manifest = Manifest { calls, ..Manifest::default() };
    Ok(Dump::of_tensors(&path.to_string_lossy(), tensors, Some(manifest))?)
}

/// The prompt of tokens behind which those may stand that were decoded, all of them or all but the last, which was not read.
fn before<'t>(tokens: &'t [u32], decoded: &[u32]) -> &'t [u32] {
    let read = &decoded[..decoded.len().saturating_sub(1)];
    let prompt = [decoded, read].into_iter().find_map(|behind| tokens.strip_suffix(behind));
    prompt.filter(|prompt| !prompt.is_empty()).unwrap_or(tokens)
}

/// A row each entry.
fn rows_of(name: &str, entries: &[&Entry], vocabulary: usize) -> Result<HeldTensor, String> {
    let mut rows = vec![f32::NEG_INFINITY; entries.len() * vocabulary];
    for (row, entry) in rows.chunks_mut(vocabulary).zip(entries) {
        for (token, log) in &entry.shown {
            let place = row.get_mut(*token as usize);
            let place =
                place.ok_or_else(|| format!("shows token {token}, expected below vocab_size = {vocabulary}"))?;
            *place = reference::Real::of(*log);
        }
    }
    let bytes: Vec<u8> = rows.iter().flat_map(|log| log.to_le_bytes()).collect();
    let shape = vec![entries.len(), vocabulary];
    Ok(HeldTensor { name: name.to_owned(), dtype: Dtype::F32, shape, bytes: Held::new(bytes) })
}
