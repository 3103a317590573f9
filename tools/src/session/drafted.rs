//! One prompt with drafts of tokens, of which some were rejected: what was said tells which, where nobody says the positions of calls.
//!
//! ```text
//! said        a b c d e f g
//! calls       a b c | d e x x | f g        e is followed by f, and the third call begins where the second is another
//! ```

use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::{Call, Segment, Slot};

use super::embedded::Lists;
use super::inferred::{Inferred, all_of, is_unpadded};

/// The calls, if each begins with the token that was said where what the one before it read is another, or at its end; `shown` are the
/// tokens of each call's rows. Nothing, where none was rejected.
pub(super) fn drafted(fed: &[Fed], shown: &[Lists]) -> Option<Inferred> {
    let [one] = fed else { return None };
    let said = all_of(one);
    if !is_unpadded(one) || said.is_empty() {
        return None;
    }
    let (mut start, mut is_any_rejected) = (0, false);
    let mut found = Inferred { calls: Vec::new(), known: None, embedded: 0, unread: 0 };
    for (number, call) in shown.iter().enumerate() {
        let [list] = &call[..] else { return None };
        let tokens = list.iter().copied().collect::<Option<Vec<u32>>>()?;
        let rest = said.get(start..)?;
        let kept = rest.iter().zip(&tokens).take_while(|(said, token)| said == token).count();
        if kept == 0 {
            return None;
        }
        // What the last call has otherwise may be other tokens than were said.
        is_any_rejected |= number + 1 < shown.len() && kept < tokens.len();
        let (width, slot) = (tokens.len(), |(i, token)| Some(Slot { token, position: Some(start + i) }));
        let slots = tokens.into_iter().enumerate().map(slot).collect();
        let segments = vec![Segment { request: 0, start: 0, slots }];
        found.calls.push(Call { batch: 1, width, segments, cached: None, kept: None });
        start += kept;
    }
    found.unread = said.len() - start;
    // Of all that was decoded, the last token was never read.
    (is_any_rejected && found.unread <= 1).then_some(found)
}
