//! Whose rows a dump has: its requests, each with its prompt, from the manifest, the prompts that are given, and the shapes.

use std::path::Path;

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::inferred::{self, Fed};
use fixtures::activations::rows::{self, Request, stated};
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use fixtures::tokens;
use reference::Site;
use reference::site::Extent;

use crate::failure::Failure;
use crate::report::figures::counted;
use crate::session::embedded;
use crate::session::model::Model;
use crate::session::prompt::{HELP, Prompt};

const HELP_ROWS: &str = "give the tokens that the dump was made from with their attention_mask, as the tokenizer wrote them, and \
                         `decode.tokens`; or dump with tools/capture, which writes down what went into each call";

/// A request of a dump.
#[derive(Debug)]
pub struct RequestRows {
    /// Its rows.
    pub request: Request,
    /// Its prompt, and what the candidate decoded after it, as far as that is known.
    pub prompt: Prompt,
    /// Tokens at its end that nobody said, and that are read from their embeddings.
    pub embedded: usize,
}

/// The prompts that are typed: numbers with commas, or `@` and the name of a JSON file.
fn prompts(text: &str) -> Result<Vec<Fed>, Failure> {
    match text.strip_prefix('@') {
        Some(file) => Ok(tokens::prompts::load(Path::new(file))?),
        None => Ok(vec![Fed::new(&Prompt::parse(text)?.tokens, &[])]),
    }
}

/// The requests of a dump.
pub fn requests(
    values: &Sited,
    given: Option<&str>,
    model: &Model,
    manifest: Option<&Manifest>,
) -> Result<Vec<RequestRows>, Failure> {
    let known = match (given, &model.case) {
        (Some(given), _) => Some(prompts(given)?),
        (None, Some(case)) => {
            let decoded = case.decode.as_ref().map(|decode| decode.tokens.clone()).unwrap_or_default();
            Some(vec![Fed::new(&case.tokens, &decoded)])
        }
        (None, None) => None,
    };
    let (calls, embedded) = match calls_stated(values, manifest).map_err(misfit)? {
        Some(calls) => (calls, 0),
        None => calls_inferred(values, known.as_deref(), model, manifest)?,
    };
    let found = rows::requests(&calls).map_err(misfit)?;
    if let Some(known) = known.as_ref().filter(|known| known.len() != found.len()) {
        let (given, dumped) = (counted(known.len(), "prompt"), counted(found.len(), "request"));
        return Err(misfit(format!("the dump has rows of {dumped}, and {given} came with it")));
    }
    let decode = manifest.and_then(|manifest| manifest.decode.as_ref()).filter(|_| found.len() == 1);
    let decode = decode.map(|decode| &decode.tokens[..]);
    let rows = found.into_iter().enumerate().map(|(i, request)| {
        let prompt = prompt_of(&request, known.as_ref().map(|known| &known[i]), decode)?;
        Ok(RequestRows { request: rotated(values, request)?, prompt, embedded })
    });
    rows.collect()
}

fn misfit(problem: String) -> Failure {
    Failure::new(problem).help(HELP_ROWS)
}

/// The calls that the manifest states, if it does; calls that were given embeddings say no tokens.
fn calls_stated(values: &Sited, manifest: Option<&Manifest>) -> Result<Option<Vec<rows::Call>>, String> {
    let calls = manifest.map(|manifest| &manifest.calls[..]).unwrap_or_default();
    let sizes = values.sizes();
    // A capture that began in the middle says nothing of earlier calls, whose tokens are listed.
    let begins_later = sizes.len() > calls.len() && manifest.is_some_and(|manifest| manifest.tokens.is_some());
    if calls.is_empty() || calls.iter().any(|call| call.tokens.is_none()) || begins_later {
        return Ok(None);
    }
    let calls = stated::calls(calls).map_err(|problem| format!("the dump's manifest: {problem}"))?;
    require_sizes(&calls, &sizes)?;
    Ok(Some(calls))
}

/// The calls that follow from the prompts that are known, from all tokens that the manifest lists, or where these are too few, from
/// what is shown of the tokens' embeddings; and how many tokens are known from there alone.
fn calls_inferred(
    values: &Sited,
    known: Option<&[Fed]>,
    model: &Model,
    manifest: Option<&Manifest>,
) -> Result<(Vec<rows::Call>, usize), Failure> {
    let listed = manifest.and_then(|manifest| manifest.tokens.as_deref()).filter(|listed| !listed.is_empty());
    let fed = match (known, listed) {
        (Some([one]), Some(listed)) => {
            let given = [one.tokens(), one.decoded.clone()].concat();
            require_same(&given, listed)?;
            if is_unpadded(one) && given.len() < listed.len() { vec![Fed::new(listed, &[])] } else { vec![one.clone()] }
        }
        (Some(known), _) => known.to_vec(),
        (None, Some(listed)) => vec![Fed::new(listed, &[])],
        (None, None) => Vec::new(),
    };
    let of_fed = |fed: &[Fed]| inferred::calls(fed, &values.sizes()).map_err(misfit);
    let (said, problem) = match &fed[..] {
        [] => (Fed::default(), Failure::new(format!("{}: no tokens are known", model.name)).help(HELP)),
        [one] if is_unpadded(one) => match of_fed(&fed) {
            Ok(calls) => return Ok((calls, 0)),
            Err(problem) => (one.clone(), problem),
        },
        all => return Ok((of_fed(all)?, 0)),
    };
    calls_embedded(values, &said, model)?.ok_or(problem)
}

/// The calls by what is shown of the tokens' embeddings, where these are more than the tokens that are known; and how many more.
fn calls_embedded(values: &Sited, said: &Fed, model: &Model) -> Result<Option<(Vec<rows::Call>, usize)>, Failure> {
    let prompt = said.tokens();
    let known = [&prompt[..], &said.decoded].concat();
    let Some(shown) = embedded::tokens(values, model)? else { return Ok(None) };
    let all = shown.concat();
    if all.len() <= known.len() {
        return Ok(None);
    }
    require_same(&known, &all)?;
    let prompt = if prompt.is_empty() { shown[0].len() } else { prompt.len() };
    let calls = inferred::calls(&[Fed::new(&all[..prompt], &all[prompt..])], &values.sizes()).map_err(misfit)?;
    Ok(Some((calls, all.len() - known.len())))
}

fn is_unpadded(fed: &Fed) -> bool {
    fed.slots.iter().all(Option::is_some)
}

/// The prompt of a request: the one that is known, or what it was fed before it decoded. What it decoded is what its manifest
/// says, or what it was fed after the known prompt.
fn prompt_of(request: &Request, known: Option<&Fed>, decode: Option<&[u32]>) -> Result<Prompt, Failure> {
    let fed = request.tokens();
    let (tokens, own) = match known {
        Some(known) => {
            let all = known.tokens();
            // Of a prompt whose beginning came from a cache, all may be given, too.
            let later =
                all.get(request.absent..).filter(|later| !later.is_empty() && first_difference(later, &fed).is_none());
            let prompt = later.unwrap_or(&all).to_vec();
            require_same(&prompt, &fed)?;
            let own = fed.get(prompt.len()..).unwrap_or_default().to_vec();
            (prompt, own)
        }
        None => (fed[..fed.len() - decoded_count(request, decode)].to_vec(), Vec::new()),
    };
    Ok(Prompt { tokens, decoded: decode.map_or(own, <[u32]>::to_vec) })
}

/// How many of the tokens that a request was fed were decoded: passes of one token at its end, as far as the decode has them.
fn decoded_count(request: &Request, decode: Option<&[u32]>) -> usize {
    let fed = request.tokens();
    let single = request.passes.iter().skip(1).rev().take_while(|pass| pass.tokens.len() == 1).count();
    let Some(decode) = decode else { return single };
    let is = |count: &usize| *count <= decode.len() && fed[fed.len() - count..] == decode[..*count];
    (0..=single).rev().find(is).unwrap_or(0)
}

/// The first position at which tokens differ, as far as both are known.
fn first_difference(one: &[u32], other: &[u32]) -> Option<usize> {
    one.iter().zip(other).position(|(one, other)| one != other)
}

/// Demands that the given tokens are those that went in, as far as both are known.
fn require_same(given: &[u32], dumped: &[u32]) -> Result<(), Failure> {
    let Some(at) = first_difference(given, dumped) else { return Ok(()) };
    let problem = format!(
        "the dump was made from other tokens: they differ from position {at} (given {}, dumped {})",
        given[at], dumped[at]
    );
    Err(Failure::new(problem).help("give the dump's own tokens, or dump again"))
}

/// Demands that tensors have the rows that the manifest states.
fn require_sizes(calls: &[rows::Call], sizes: &[inferred::Size]) -> Result<(), String> {
    if sizes.len() > calls.len() {
        let stated = counted(calls.len(), "call");
        return Err(format!("the dump has values of step {}, and its manifest states {stated}", sizes.len() - 1));
    }
    for (number, (call, size)) in calls.iter().zip(sizes).enumerate() {
        let stated = call.batch * call.width;
        if let Some(found) = size.rows.filter(|&found| found > stated) {
            return Err(format!("call {number} has tensors of {found} rows, and its manifest states {stated} tokens"));
        }
    }
    Ok(())
}

/// The request with the shift of its positions: where nobody says by which position its first token was rotated, the rotation
/// table does. Position 0 is not rotated; where the first token is, the slots before it were counted.
fn rotated(values: &Sited, mut request: Request) -> Result<Request, Failure> {
    if request.positioned || request.padding == 0 {
        return Ok(request);
    }
    let tokens = request.passes[0].tokens.len();
    let view = values.of(request.clone());
    let at = At { step: 0, site: Site::RopeCos };
    if view.has(at) && view.shown(at, Extent::new(tokens, tokens))?.is_none() {
        let cos = view.matrix::<f64>(at, Extent::new(tokens, tokens))?;
        if cos.row(0).iter().any(|&cos| cos != 1.0) {
            request.shift = request.padding;
        }
    }
    Ok(request)
}
