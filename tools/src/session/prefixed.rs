//! What a stated call behind a cache attended to, where the tokens before it are given, too.

use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::{Call, Segment, Slot};
use fixtures::names::sited::Sited;

use super::inferred::{all_of, is_unpadded};
use super::lasts::shows_inside;

/// The same calls, the first with the tokens before it, of which the dump has no rows; where operators are judged by themselves, or
/// nobody says these tokens, the calls as they are.
pub(super) fn with_prefix(calls: Vec<Call>, known: Option<&[Fed]>, values: &Sited) -> Vec<Call> {
    let prefixed = known.filter(|_| !shows_inside(values)).zip(calls.first());
    match prefixed.and_then(|(known, first)| prefixed_by(known, first)) {
        Some(first) => [first].into_iter().chain(calls.into_iter().skip(1)).collect(),
        None => calls,
    }
}

/// A call of a list of each of these prompts, at one position in all, from their first tokens on.
fn prefixed_by(known: &[Fed], call: &Call) -> Option<Call> {
    let is_list = |(list, segment): (usize, &Segment)| {
        segment.start == list * call.width
            && segment.slots.len() == call.width
            && segment.slots.iter().all(Option::is_some)
    };
    let are_lists = call.segments.len() == call.batch && call.segments.iter().enumerate().all(is_list);
    let first = call.segments.first()?.slots.first()?.as_ref()?.position.filter(|first| *first > 0)?;
    if !are_lists || call.window.is_some() || call.cached == Some(0) || known.len() != call.batch {
        return None;
    }
    let width = first + call.width;
    let whole = |(list, (one, segment)): (usize, (&Fed, &Segment))| {
        let tokens = all_of(one);
        let own: Vec<Slot> = segment.slots.iter().copied().collect::<Option<_>>()?;
        let goes_on = own.iter().zip(tokens.get(first..)?).all(|(slot, token)| slot.token == *token);
        let is_there = is_unpadded(one) && tokens.len() > first && own[0].position == Some(first) && goes_on;
        let before = tokens.into_iter().take(first).enumerate();
        let before = before.map(|(position, token)| Slot { token, position: Some(position) });
        let slots = before.chain(own).map(Some).collect();
        is_there.then_some(Segment { request: segment.request, start: list * width, slots })
    };
    let segments = known.iter().zip(&call.segments).enumerate().map(whole).collect::<Option<_>>()?;
    let kept = call.kept.as_ref().map(|kept| kept.iter().map(|slot| first + slot).collect());
    Some(Call { kept, window: Some(first..width), ..Call::new(call.batch, width, segments) })
}
