//! Whose rows a dump has: its requests, each with its prompt, from the manifest, the prompts that are given, and the shapes.

use std::path::Path;

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::inferred::{self, Fed};
use fixtures::activations::rows::{self, Call, Request, Slot, stated};
use fixtures::names::sited::Sited;
use fixtures::tokens;
use reference::Semantics;

use crate::failure::Failure;
use crate::report::figures::counted;
use crate::session::alone;
use crate::session::calls::infer;
use crate::session::inferred::{Inferred, first_difference, is_unpadded, misfit, require_same};
use crate::session::inputs;
use crate::session::model::Model;
use crate::session::padded::padded;
use crate::session::picked;
use crate::session::prefixed::with_prefix;
use crate::session::prompt::{Prompt, TYPED, is_json};
use crate::session::rotated::shift;
use crate::session::stepped;

/// A request of a dump.
#[derive(Debug)]
pub struct RequestRows {
    /// Its rows.
    pub request: Request,
    /// Its prompt, and what the candidate decoded after it, as far as that is known.
    pub prompt: Prompt,
    /// Tokens at its end that nobody said, and that are read from their embeddings.
    pub embedded: usize,
    /// Tokens at its end that nobody said, and that are the likeliest by the logits before each.
    pub likeliest: usize,
    /// Tokens at the end of what was said that the dump has no rows of.
    pub unread: usize,
    /// Slots of its list that nobody says are padding, and that are by the values.
    pub padding: usize,
    /// Rows of the dump's calls that are of no request.
    pub filled: usize,
    /// Which row of each call it has, where rows change places.
    pub beam: Option<Vec<usize>>,
}

/// The prompts that are typed: numbers with commas, or `@` and the name of a JSON file, or what such a file holds.
fn prompts(text: &str) -> Result<Vec<Fed>, Failure> {
    if is_json(text) {
        return Ok(tokens::prompts::parse(Path::new(TYPED), text)?);
    }
    match text.strip_prefix('@') {
        Some(file) => Ok(tokens::prompts::load(Path::new(file))?),
        None => Ok(vec![Fed::new(&Prompt::parse(text)?.tokens, &[])]),
    }
}

/// The prompts that are given, or a built-in case's.
pub(super) fn prompts_known(given: Option<&str>, model: &Model) -> Result<Option<Vec<Fed>>, Failure> {
    Ok(match (given, &model.case) {
        (Some(given), _) => Some(prompts(given)?),
        (None, Some(case)) => {
            let decoded = case.decode.as_ref().map(|decode| decode.tokens.clone()).unwrap_or_default();
            Some(vec![Fed::new(&case.tokens, &decoded)])
        }
        (None, None) => None,
    })
}

/// The requests of a dump.
pub fn requests(
    values: &Sited,
    given: Option<&str>,
    (model, semantics): (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Vec<RequestRows>, Failure> {
    let known = prompts_known(given, model)?;
    let packed = match known.as_deref() {
        Some([one]) => inputs::packed(values, one)?,
        _ => None,
    };
    let known = packed.or(known);
    let stated = match calls_stated(values, manifest).map_err(misfit)? {
        None if manifest.is_none_or(|manifest| manifest.tokens.is_none()) => stepped(values)?,
        stated => stated,
    };
    let (inferred, is_padded) = match stated {
        Some(calls) => {
            let calls = with_prefix(calls, known.as_deref(), values);
            (Inferred { calls, known, ..Inferred::default() }, false)
        }
        None => unstated((values, manifest), known.as_deref(), (model, semantics))
            .map_err(|refused| of_pages(values).unwrap_or(refused))?,
    };
    let Inferred { mut calls, known, embedded, likeliest, unread } = inferred;
    if let Some(kept) = picked::rows(values, &calls, (model, semantics))? {
        calls[0].kept = Some(kept);
    }
    let filled = calls.iter().map(Call::unclaimed).sum();
    let found = rows::requests(&calls).map_err(misfit)?;
    let known: Vec<Option<&Fed>> = match &known {
        None => vec![None; found.len()],
        Some(known) => among(known, &found).or_else(|| in_their_order(known, &found)).ok_or_else(|| {
            let (given, dumped) = (counted(known.len(), "prompt"), counted(found.len(), "request"));
            misfit(format!("the dump has rows of {dumped}, and {given} came with it"))
        })?,
    };
    let decode = manifest.and_then(|manifest| manifest.decode.as_ref()).filter(|_| found.len() == 1);
    let decode = decode.map(|decode| &decode.tokens[..]);
    let rows = found.into_iter().enumerate().map(|(i, request)| {
        let prompt = prompt_of(&request, known[i], decode)?;
        let slots = known[i].map_or(0, |fed| fed.slots.iter().filter(|slot| slot.is_none()).count());
        let shift = shift(values, &request, (model, semantics))?;
        let (request, padding) = (Request { shift, ..request }, if is_padded { slots } else { 0 });
        Ok(RequestRows { request, prompt, embedded, likeliest, unread, padding, filled, beam: None })
    });
    rows.collect()
}

/// What is said of a cache whose pages are not in order.
fn of_pages(values: &Sited) -> Option<Failure> {
    let (cache, table) = values.paged()?;
    let problem = format!(
        "{cache} has pages of a cache, and {table} says whose they are, expected each request's slots in order"
    );
    let help = "save cache[block_tables].flatten(1, 2), which is [batch, slots, heads, channels]";
    Some(Failure::new(problem).help(help))
}

/// What follows of calls that are not stated, and whether prompts have padding that nobody says.
fn unstated(
    (values, manifest): (&Sited, Option<&Manifest>),
    known: Option<&[Fed]>,
    (model, semantics): (&Model, &Semantics),
) -> Result<(Inferred, bool), Failure> {
    let reading = (model, semantics);
    let alone = || match inferred_from_own(values, known, reading, manifest)? {
        Some(found) => Ok(found),
        None => infer(values, known, reading, manifest),
    };
    let found = match continued(known, values, model)? {
        // Of a beam search, one of several is returned.
        Some(own) => infer(values, Some(&own), reading, manifest).or_else(|_| alone()),
        None => alone(),
    }?;
    let fed = found.known.as_deref().map(|fed| with_embedded(fed, &found.calls));
    let padded = fed.map(|fed| padded(&fed, values, reading));
    let padded = padded.transpose()?.flatten().map(|fed| infer(values, Some(&fed), reading, manifest));
    let has_padding = |fed: Option<&[Fed]>| fed.is_some_and(|fed| !fed.iter().all(is_unpadded));
    let is_found = has_padding(found.known.as_deref()) && !has_padding(known);
    Ok(if let Some(Ok(padded)) = padded { (padded, true) } else { (found, is_found) })
}

/// What is known of the one prompt of the one call, with the tokens behind it that nobody said.
fn with_embedded(fed: &[Fed], calls: &[Call]) -> Vec<Fed> {
    let ([one], [call]) = (fed, calls) else { return fed.to_vec() };
    let said = one.slots.len() + one.decoded.len();
    let slots = call.segments.iter().flat_map(|segment| &segment.slots).skip(said);
    let rest: Option<Vec<u32>> = slots.map(|slot| slot.map(|slot| slot.token)).collect();
    vec![Fed { decoded: [one.decoded.clone(), rest.unwrap_or_default()].concat(), ..one.clone() }]
}

/// What the dump shows of prompts that are known, where that begins with them and goes on: `generate` returns both.
fn continued(known: Option<&[Fed]>, values: &Sited, model: &Model) -> Result<Option<Vec<Fed>>, Failure> {
    let own = inputs::prompts(values, model.checkpoint.config())?;
    let (Some(known), Some(own)) = (known, own) else { return Ok(None) };
    // Of what is padding in a prompt, it may show any token.
    let goes_on = |(prompt, own): (&Fed, Fed)| {
        let is_same = |(said, own): (&Option<Slot>, &Option<Slot>)| {
            said.is_none_or(|said| own.is_some_and(|own| own.token == said.token))
        };
        let behind = own.slots.get(prompt.slots.len()..).filter(|behind| !behind.is_empty())?;
        let slots = [&prompt.slots, behind].concat();
        prompt.slots.iter().zip(&own.slots).all(is_same).then_some(Fed { slots, masked: prompt.masked, ..own })
    };
    // Of one prompt there may be several.
    let are_all = known.len() == own.len() || known.len() == 1;
    Ok(if are_all { known.iter().cycle().zip(own).map(goes_on).collect() } else { None })
}

/// The prompts of as many requests.
fn in_their_order<'k>(known: &'k [Fed], found: &[Request]) -> Option<Vec<Option<&'k Fed>>> {
    (known.len() == found.len()).then(|| known.iter().map(Some).collect())
}

/// The prompt of each request that has one of those that are known, where each of these is some request's: others were run beside
/// them, as to warm up, and what schedules requests takes them in another order.
fn among<'k>(known: &'k [Fed], found: &[Request]) -> Option<Vec<Option<&'k Fed>>> {
    let of = |request: &Request| {
        let fed = request.tokens();
        known.iter().find(|one| first_difference(&one.tokens(), &fed).is_none())
    };
    let of_each: Vec<Option<&Fed>> = found.iter().map(of).collect();
    let is_there = |one: &Fed| of_each.contains(&Some(one));
    (known.len() <= found.len() && known.iter().all(is_there)).then_some(of_each)
}

/// What follows from the prompts that the dump shows itself, where nothing else says them and they fit.
fn inferred_from_own(
    values: &Sited,
    known: Option<&[Fed]>,
    (model, semantics): (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Option<Inferred>, Failure> {
    if known.is_some() || manifest.is_some_and(|manifest| manifest.tokens.is_some()) {
        return Ok(None);
    }
    let own = match inputs::prompts(values, model.checkpoint.config())? {
        Some(own) => Some(own),
        None => alone::prompts(values, (model, semantics))?,
    };
    Ok(own.and_then(|own| infer(values, Some(&own), (model, semantics), manifest).ok()))
}

/// The calls that the manifest states, if it does; calls that were given embeddings say no tokens.
fn calls_stated(values: &Sited, manifest: Option<&Manifest>) -> Result<Option<Vec<Call>>, String> {
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

/// The calls of which each shows its tokens and their positions, if they fit.
fn stepped(values: &Sited) -> Result<Option<Vec<Call>>, Failure> {
    let stated = stepped::calls(values)?;
    let calls = stated.and_then(|stated| stated::calls(&stated).ok());
    Ok(calls.filter(|calls| require_sizes(calls, &values.sizes()).is_ok() && rows::requests(calls).is_ok()))
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

/// Demands that tensors have the rows that the manifest states.
fn require_sizes(calls: &[Call], sizes: &[inferred::Size]) -> Result<(), String> {
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
