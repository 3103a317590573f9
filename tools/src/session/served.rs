//! Requests that a server runs together: their prompts one behind the other in the first call, and a token of each in those behind it.
//!
//! ```text
//! rows of the calls   |A B C| abc abc abc        as of generate_batch
//! tokens              of each request all, of which the last may not be read; or prompts, behind them what embeddings show
//! ```

use fixtures::activations::rows::inferred::{self, Fed, Size};

use super::embedded::{self, Lists};
use super::inferred::{Inferred, is_unpadded};

/// The calls, if requests and rows are such; `shown` are the tokens of each call's rows by their embeddings, if these are shown.
pub(super) fn served(fed: &[Fed], sizes: &[Size], shown: Option<&[Lists]>) -> Option<Inferred> {
    let (prompts, steps) = sizes.split_first()?;
    let is_known = |one: &Fed| is_unpadded(one) && one.decoded.is_empty();
    if fed.len() < 2 || steps.is_empty() || !fed.iter().all(is_known) {
        return None;
    }
    let is_packed = |fed: &[Fed]| prompts.rows == Some(fed.iter().map(|one| one.slots.len()).sum());
    let cut = |unread| cut(fed, steps.len(), unread).and_then(|fed| in_order(&fed, shown));
    let ways = [0, 1].map(|unread| (cut(unread), 0, unread));
    let read = continued(fed, shown, steps.len()).map(|fed| (Some(fed), steps.len(), 0));
    let mut found = ways.into_iter().chain(read).filter_map(|(fed, embedded, unread)| {
        let fed = fed.filter(|fed| is_packed(fed))?;
        let calls = inferred::calls(&fed, sizes).ok()?;
        Some(Inferred { calls, embedded, unread, known: Some(fed), ..Inferred::default() })
    });
    found.next()
}

/// Prompts, and behind each of them a token for each step, of which so many more at the end were not read.
fn cut(fed: &[Fed], steps: usize, unread: usize) -> Option<Vec<Fed>> {
    let of_one = |one: &Fed| {
        let tokens = one.tokens();
        let prompt = tokens.len().checked_sub(steps + unread).filter(|prompt| *prompt > 0)?;
        Some(Fed::new(&tokens[..prompt], &tokens[prompt..prompt + steps]))
    };
    fed.iter().map(of_one).collect()
}

/// The requests as their rows stand in the calls, by embeddings: a server may take them in any order.
fn in_order(fed: &[Fed], shown: Option<&[Lists]>) -> Option<Vec<Fed>> {
    let (prompts, steps) = shown?.split_first()?;
    embedded::as_shown(fed, prompts.first()?, |one, place| {
        let shown = |call: &Lists| *call.first()?.get(place)?;
        one.decoded.iter().zip(steps).all(|(said, call)| shown(call) == Some(*said))
    })
}

/// Prompts with the tokens that embeddings show in the rows behind them.
fn continued(fed: &[Fed], shown: Option<&[Lists]>, steps: usize) -> Option<Vec<Fed>> {
    let steps = shown?.get(1..=steps)?;
    let of_one = |(request, one): (usize, &Fed)| {
        let decoded: Option<Vec<u32>> = steps.iter().map(|call| *call.first()?.get(request)?).collect();
        Some(Fed { decoded: decoded?, ..one.clone() })
    };
    fed.iter().enumerate().map(of_one).collect()
}
