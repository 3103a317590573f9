//! Steps whose rows behind those of the requests are of nobody: what replays a graph fills a batch up to the graph's size.
//!
//! ```text
//! said        a b c d e f
//! calls       a b c · | d x x x | e x x x | f x x x        x: no token's embedding, the step's own token, or the same in all steps
//! ```
//!
//! Drafts that were all rejected look alike, but for what they are: no draft is what it follows, and no model has the same ones for
//! whatever it follows.

use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::{Call, Segment, Slot};

use super::embedded::Lists;
use super::inferred::{Inferred, all_of, is_unpadded};

/// A slot's token, if it is one's embedding.
type Shown = Option<u32>;

/// The calls, if embeddings show that steps are such.
pub(super) fn graphed(fed: &[Fed], calls: Option<&[Lists]>) -> Option<Inferred> {
    let (lists, [one]) = (calls?, fed) else { return None };
    let rows: Vec<Vec<Shown>> = lists.iter().map(|lists| lists.concat()).collect();
    let are_filled = rows.len() > 1 && rows[1..].iter().all(|rows| rows.len() > 1);
    if !are_filled || !is_unpadded(one) {
        return None;
    }
    let Rows { read, embedded, unread } = Rows::of(&all_of(one), &rows)?;
    let mut position = 0;
    let calls = lists.iter().zip(&read).map(|(lists, tokens)| {
        let slots =
            tokens.iter().enumerate().map(|(i, token)| Some(Slot { token: *token, position: Some(position + i) }));
        let segment = Segment { request: 0, start: 0, slots: slots.collect() };
        position += tokens.len();
        Call::new(lists.len(), lists[0].len(), vec![segment])
    });
    Some(Inferred { calls: calls.collect(), embedded, unread, ..Inferred::default() })
}

/// What one request reads in each call: the prompt, then a token a step.
struct Rows {
    read: Vec<Vec<u32>>,
    embedded: usize,
    unread: usize,
}

impl Rows {
    fn of(said: &[u32], rows: &[Vec<Shown>]) -> Option<Self> {
        let (prompt, steps) = rows.split_first()?;
        let count = said.iter().zip(prompt).take_while(|(said, shown)| Some(**said) == **shown).count();
        let is_prompt = count > 0 && prompt[count..].iter().all(Option::is_none);
        let mut read = vec![said[..count].to_vec()];
        for (step, row) in steps.iter().enumerate() {
            let token = row[0]?;
            if said.get(count + step).is_some_and(|said| *said != token) {
                return None;
            }
            read.push(vec![token]);
        }
        let tails: Vec<&[Shown]> = steps.iter().map(|row| &row[1..]).collect();
        let all = read.concat();
        let unread = said.len().saturating_sub(all.len());
        let is_whole = is_prompt && unread <= 1;
        (is_whole && are_of_nobody(&all, count, &tails)).then_some(Rows {
            embedded: all.len().saturating_sub(said.len()),
            unread,
            read,
        })
    }
}

/// Whether what stands behind each token from one on can be no drafts.
fn are_of_nobody(read: &[u32], first: usize, tails: &[&[Shown]]) -> bool {
    if tails.iter().all(|tail| tail.iter().all(Option::is_none)) {
        return true;
    }
    let own = &read[first..];
    let are_own = own.iter().zip(tails).all(|(own, tail)| tail.iter().all(|row| *row == Some(*own)));
    let are_same = tails.windows(2).all(|pair| pair[0] == pair[1]);
    // What was said before has none of these behind such a token, where it might have been looked up.
    let is_said = |own: u32, next: Shown| read.windows(2).any(|pair| pair[0] == own && Some(pair[1]) == next);
    let are_new = own.iter().zip(tails).all(|(own, tail)| !is_said(*own, tail[0]));
    own.iter().any(|token| *token != own[0]) && (are_own || are_same) && are_new
}
