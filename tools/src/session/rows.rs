//! Whose rows a dump has: its requests, each with its prompt, from the manifest, the prompts that are given, and the shapes.

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::inferred::{self, Fed};
use fixtures::activations::rows::{self, Request, stated};
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::Site;
use reference::site::Extent;

use crate::failure::Failure;
use crate::session::model::Model;
use crate::session::prompt::{HELP, Prompt};
use crate::session::prompts::prompts;

const HELP_ROWS: &str = "give the tokens that the dump was made from with their attention_mask, as the tokenizer wrote them, and \
                         `decode.tokens`; or dump with tools/capture, which writes down what went into each call";

/// A request of a dump.
#[derive(Debug)]
pub struct Asked {
    /// Its rows.
    pub request: Request,
    /// Its prompt, and what the candidate decoded after it, as far as that is known.
    pub prompt: Prompt,
}

/// The requests of a dump.
pub fn requests(
    values: &Sited,
    given: Option<&str>,
    model: &Model,
    manifest: Option<&Manifest>,
) -> Result<Vec<Asked>, Failure> {
    let given = given.map(prompts).transpose()?;
    let known = match (&given, &model.case) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(case)) => {
            let decoded = case.decode.as_ref().map(|decode| decode.tokens.clone()).unwrap_or_default();
            Some(vec![Fed::new(&case.tokens, &decoded)])
        }
        (None, None) => None,
    };
    let listed = manifest.and_then(|manifest| manifest.tokens.as_ref());
    let sizes = values.sizes();
    let misfit = |problem: String| Failure::new(problem).help(HELP_ROWS);
    let stated_calls = manifest.map(|manifest| &manifest.calls[..]).unwrap_or_default();
    // Calls that were given embeddings say no tokens; a capture that began in the middle says nothing of earlier calls, whose
    // tokens are listed.
    let is_whole = sizes.len() <= stated_calls.len() || listed.is_none();
    let is_stated = !stated_calls.is_empty() && stated_calls.iter().all(|call| call.tokens.is_some());
    let calls = if is_stated && is_whole {
        let calls = stated::calls(stated_calls).map_err(|problem| misfit(format!("the dump's manifest: {problem}")))?;
        require_sizes(&calls, &sizes).map_err(misfit)?;
        calls
    } else {
        if let (Some([one]), Some(listed)) = (known.as_deref(), listed) {
            require_same(&[one.tokens(), one.decoded.clone()].concat(), listed)?;
        }
        let longer = |known: &[Fed], listed: &[u32]| match known {
            [one] => one.tokens().len() + one.decoded.len() < listed.len() && one.tokens().len() == one.slots.len(),
            _ => false,
        };
        let fed = match (known.as_deref(), listed) {
            (Some(known), Some(listed)) if longer(known, listed) => vec![Fed::new(listed, &[])],
            (Some(known), _) => known.to_vec(),
            (None, Some(listed)) if !listed.is_empty() => vec![Fed::new(listed, &[])],
            (None, _) => {
                return Err(Failure::new(format!("{}: no tokens are known", model.name)).help(HELP));
            }
        };
        inferred::calls(&fed, &sizes).map_err(misfit)?
    };
    let found = rows::requests(&calls).map_err(misfit)?;
    if let Some(known) = known.as_ref().filter(|known| known.len() != found.len()) {
        let (given, dumped) = (known.len(), found.len());
        return Err(misfit(format!("{given} prompts are given, and the dump has rows of {dumped} requests")));
    }
    let decode = manifest.and_then(|manifest| manifest.decode.as_ref()).filter(|_| found.len() == 1);
    let asked = found.into_iter().enumerate().map(|(i, request)| {
        let fed = request.tokens();
        let prompt = match &known {
            Some(known) => {
                let prompt = known[i].tokens();
                require_same(&prompt, &fed)?;
                prompt
            }
            None => fed[..fed.len() - decoded_count(&request, decode.map(|decode| &decode.tokens[..]))].to_vec(),
        };
        let tail = fed.get(prompt.len()..).unwrap_or_default();
        let own = if known.is_some() { tail } else { &[] };
        let decoded = decode.map_or_else(|| own.to_vec(), |decode| decode.tokens.clone());
        Ok(Asked { request: rotated(values, request)?, prompt: Prompt { tokens: prompt, decoded } })
    });
    asked.collect()
}

/// How many of the tokens that a request was fed were decoded: passes of one token at its end, as far as the decode has them.
fn decoded_count(request: &Request, decode: Option<&[u32]>) -> usize {
    let fed = request.tokens();
    let single = request.passes.iter().skip(1).rev().take_while(|pass| pass.tokens.len() == 1).count();
    let Some(decode) = decode else { return single };
    let is = |count: &usize| *count <= decode.len() && fed[fed.len() - count..] == decode[..*count];
    (0..=single).rev().find(is).unwrap_or(0)
}

/// Demands that the given tokens are those that went in, as far as both are known.
fn require_same(given: &[u32], dumped: &[u32]) -> Result<(), Failure> {
    let Some(at) = (0..given.len().min(dumped.len())).find(|&i| given[i] != dumped[i]) else { return Ok(()) };
    let problem = format!(
        "the dump was made from other tokens: they differ from position {at} (given {}, dumped {})",
        given[at], dumped[at]
    );
    Err(Failure::new(problem).help("give the dump's own tokens, or dump again"))
}

/// Demands that tensors have the rows that the manifest states.
fn require_sizes(calls: &[rows::Call], sizes: &[inferred::Size]) -> Result<(), String> {
    if sizes.len() > calls.len() {
        return Err(format!("the dump has values of step {}, and its manifest {} calls", sizes.len() - 1, calls.len()));
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
