//! Calls that each show their own tokens and the positions of these, as a server's steps do: whose rows they are follows.
//!
//! ```text
//! tokens       a b c d p q r | e s t | f u       segments: as `query_start_loc` says, or where a position does not follow the last
//! positions    0 1 2 3 0 1 2 | 4 3 4 | 5 5       requests: 0 begins one, others go on behind the one that is as long,
//! requests     0 0 0 0 1 1 1 | 0 1 1 | 0 1       or from within one, whose rows from there on were drafts
//! ```

use std::ops::Range;

use fixtures::activations::rows::stated::{Lists, StatedCall};
use fixtures::names::fed::{BEGINS, POSITIONS, TOKENS};
use fixtures::names::sited::Sited;

use super::inputs::of_each_call;
use crate::failure::Failure;

/// The calls; `None` where there is one alone, one has no tokens or no positions, or nothing says whose rows it has.
pub(super) fn calls(values: &Sited) -> Result<Option<Vec<StatedCall>>, Failure> {
    let tokens = of_each_call::<u32>(values, &TOKENS)?;
    let positions = of_each_call::<usize>(values, &POSITIONS)?;
    let Some((tokens, positions)) = tokens.zip(positions) else { return Ok(None) };
    let begins = of_each_call::<usize>(values, &BEGINS)?;
    let mut requests = Requests::default();
    let mut calls = Vec::with_capacity(tokens.len());
    for (call, (tokens, positions)) in tokens.into_iter().zip(positions).enumerate() {
        if tokens.len() != positions.len() {
            return Ok(None);
        }
        let own = begins.as_ref().map(|begins| {
            // A buffer of fixed length is filled up with its end.
            let mut own = begins[call].clone();
            own.dedup();
            own
        });
        let bounds = own.unwrap_or_else(|| bounds(&positions[..read(&tokens, &positions)]));
        let end = bounds.last().copied().unwrap_or_default();
        let mask = (end < tokens.len()).then(|| (0..tokens.len()).map(|slot| u8::from(slot < end)).collect());
        let segments = bounds.windows(2).map(|pair| positions.get(pair[0]..pair[1]).filter(|own| !own.is_empty()));
        let Some(segments) = segments.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let Some(own) = requests.next(&segments) else { return Ok(None) };
        calls.push(StatedCall {
            tokens: Some(Lists::One(tokens)),
            positions: Some(Lists::One(positions)),
            requests: Some(own),
            cu_seqlens: Some(bounds),
            mask: mask.map(Lists::One),
            ..StatedCall::default()
        });
    }
    Ok(Some(calls))
}

/// How many of a call's slots are tokens', where no buffer is longer: those behind may be filled up with token 0 at position 0.
fn read(tokens: &[u32], positions: &[usize]) -> usize {
    let filled = tokens.iter().zip(positions).rev().take_while(|slot| *slot == (&0, &0)).count();
    let own = tokens.len() - filled;
    if own == 0 { tokens.len() } else { own }
}

/// Where positions do not follow one another, with both ends.
fn bounds(positions: &[usize]) -> Vec<usize> {
    let breaks = (1..positions.len()).filter(|i| positions[*i] != positions[i - 1] + 1);
    [0].into_iter().chain(breaks).chain([positions.len()]).collect()
}

/// The positions that requests' last calls have.
#[derive(Default)]
struct Requests(Vec<Range<usize>>);

impl Requests {
    /// The request of each of a call's segments.
    fn next(&mut self, segments: &[&[usize]]) -> Option<Vec<usize>> {
        let mut taken = Vec::with_capacity(segments.len());
        for positions in segments {
            let own = positions[0]..positions.last()? + 1;
            let request = self.of(own.start, &taken)?;
            if request == self.0.len() {
                self.0.push(own);
            } else {
                self.0[request] = own;
            }
            taken.push(request);
        }
        Some(taken)
    }

    /// The request that a segment at a position is of: a new one, that which ends there, or the only one that has the position.
    fn of(&self, position: usize, taken: &[usize]) -> Option<usize> {
        if position == 0 {
            return Some(self.0.len());
        }
        let free = || self.0.iter().enumerate().filter(|(request, _)| !taken.contains(request));
        if let Some((request, _)) = free().find(|(_, last)| last.end == position) {
            return Some(request);
        }
        let mut within = free().filter(|(_, last)| last.contains(&position));
        within.next().filter(|_| within.next().is_none()).map(|(request, _)| request)
    }
}
