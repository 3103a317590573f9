//! Where calls with drafts begin, of which some were rejected, where no table shows it: what was said tells.
//!
//! ```text
//! said        a b c d e f g
//! calls       a b c | d e x x | f g        e is followed by f, and the third call begins where the second is another
//! ```

/// The position of each call, if each begins with the token that was said where what the one before it read is another, or at its end.
/// Nothing, where none was rejected. Of all that was decoded, the last token was never read.
pub(super) fn positions(said: &[u32], calls: &[Vec<u32>]) -> Option<Vec<usize>> {
    let (mut positions, mut start) = (Vec::with_capacity(calls.len()), 0);
    for tokens in calls {
        let kept = said.get(start..)?.iter().zip(tokens).take_while(|(said, token)| said == token).count();
        if kept == 0 {
            return None;
        }
        positions.push(start);
        start += kept;
    }
    // What the last call has otherwise may be other tokens than were said.
    let is_rejected = |(pair, call): (&[usize], &Vec<u32>)| pair[1] - pair[0] < call.len();
    (positions.windows(2).zip(calls).any(is_rejected) && said.len() - start <= 1).then_some(positions)
}
