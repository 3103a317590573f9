//! Several prompts that were run one after another, each with what was decoded behind it, as a loop over `generate` runs them.
//!
//! ```text
//! rows of the calls   |A| 1 1 1 |B| 1 1        a call of more than one row begins the next prompt
//! tokens              as they are said; where nobody says them, as embeddings show them
//! ```

use fixtures::activations::rows::inferred::{Fed, Size};
use fixtures::activations::rows::{Call, Segment, Slot};

use super::embedded::Lists;
use super::inferred::{Inferred, all_of, is_unpadded};

/// The calls, if prompts and rows are such; `shown` are the tokens of each call's rows by their embeddings, if these are shown.
pub(super) fn looped(fed: &[Fed], sizes: &[Size], shown: Option<&[Lists]>) -> Option<Inferred> {
    let is_single = |size: &Size| size.rows.is_some() && size.batch.unwrap_or(1) == 1;
    let is_long = |one: &Fed| is_unpadded(one) && one.slots.len() > 1;
    if fed.len() < 2 || !fed.iter().all(is_long) || !sizes.iter().all(is_single) {
        return None;
    }
    let rows: Vec<usize> = sizes.iter().filter_map(|size| size.rows).collect();
    let begins: Vec<usize> = (0..rows.len()).filter(|&call| rows[call] > 1).collect();
    if begins.len() != fed.len() || begins.first() != Some(&0) {
        return None;
    }
    let ends = begins.iter().skip(1).copied().chain([rows.len()]);
    let mut found = Inferred { calls: Vec::new(), known: Some(Vec::new()), ..Inferred::default() };
    for (request, (one, (begin, end))) in fed.iter().zip(begins.iter().copied().zip(ends)).enumerate() {
        let said = all_of(one);
        let mut position = 0;
        for (call, &width) in (begin..end).zip(&rows[begin..end]) {
            let mut slots = Vec::with_capacity(width);
            for row in 0..width {
                let shown = shown.and_then(|calls| *calls.get(call)?.first()?.get(row)?);
                let token = said.get(position).copied().or(shown)?;
                if shown.is_some_and(|shown| shown != token) {
                    return None;
                }
                found.embedded += usize::from(position >= said.len());
                slots.push(Some(Slot { token, position: Some(position) }));
                position += 1;
            }
            found.calls.push(Call::new(1, width, vec![Segment { request, start: 0, slots }]));
        }
        // Of all that was decoded, the last token was never read.
        let unread = said.len().saturating_sub(position);
        if unread > 1 {
            return None;
        }
        let read = one.tokens();
        found.known.as_mut()?.push(Fed::new(&read[..read.len().min(position)], &one.decoded));
        found.unread = found.unread.max(unread);
    }
    Some(found)
}
