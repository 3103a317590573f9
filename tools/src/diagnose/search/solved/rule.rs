//! What those of a token's experts have in common that something happened to.

use std::collections::BTreeSet;
use std::fmt;

/// Tokens of a tile.
const TILES: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];

/// How likely it is at most that tokens are an expert's last by chance.
const CHANCE: f64 = 1e-4;

/// An expert of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) token: usize,
    /// Its place among the token's experts, the best first.
    pub(super) slot: usize,
    pub(super) expert: usize,
    /// Tokens before this one that were sent there, too.
    pub(super) rank: usize,
    /// Tokens that were sent there in all.
    pub(super) count: usize,
    /// Whether the other of experts 2j and 2j + 1 was chosen with it.
    pub(super) is_paired: bool,
}

/// A property that some entries have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    All,
    Slot(usize),
    Expert(usize),
    Token(usize),
    Parity(usize),
    FromToken(usize),
    BeforeToken(usize),
    FromRank(usize),
    BeforeRank(usize),
    /// Even or odd ones whose neighbour was chosen, too.
    Paired(usize),
    FromExpert(usize),
    BeforeExpert(usize),
    /// The last of an expert's tokens, those that fill no tile of so many; where they are more than one tile, or always.
    Tail(usize, bool),
}

impl Rule {
    fn has(self, entry: &Entry) -> bool {
        match self {
            Rule::All => true,
            Rule::Slot(slot) => entry.slot == slot,
            Rule::Expert(expert) => entry.expert == expert,
            Rule::Token(token) => entry.token == token,
            Rule::Parity(parity) => entry.token % 2 == parity,
            Rule::FromToken(token) => entry.token >= token,
            Rule::BeforeToken(token) => entry.token < token,
            Rule::FromRank(rank) => entry.rank >= rank,
            Rule::BeforeRank(rank) => entry.rank < rank,
            Rule::Paired(parity) => entry.is_paired && entry.expert % 2 == parity,
            Rule::FromExpert(expert) => entry.expert >= expert,
            Rule::BeforeExpert(expert) => entry.expert < expert,
            Rule::Tail(tile, always) => entry.rank >= entry.count / tile * tile && (always || entry.count > tile),
        }
    }

    /// Those that the affected might have in common, with the bounds that they have.
    fn of(affected: &[Entry]) -> Vec<Rule> {
        let bounds = |of: fn(&Entry) -> usize| {
            let values = affected.iter().map(of);
            values.fold((usize::MAX, 0), |(least, end), value| (least.min(value), end.max(value + 1)))
        };
        let (slot, _) = bounds(|entry| entry.slot);
        let (token, token_end) = bounds(|entry| entry.token);
        let (rank, rank_end) = bounds(|entry| entry.rank);
        let (expert, expert_end) = bounds(|entry| entry.expert);
        [
            Rule::All,
            Rule::Slot(slot),
            Rule::Expert(expert),
            Rule::Token(token),
            Rule::Parity(0),
            Rule::Parity(1),
            Rule::FromRank(rank),
            Rule::BeforeRank(rank_end),
            Rule::Paired(0),
            Rule::Paired(1),
            Rule::FromToken(token),
            Rule::BeforeToken(token_end),
            Rule::FromExpert(expert),
            Rule::BeforeExpert(expert_end),
        ]
        .into_iter()
        .chain(TILES.into_iter().flat_map(|tile| [Rule::Tail(tile, false), Rule::Tail(tile, true)]))
        .collect()
    }
}

/// One rule, or two, that the affected follow, and no other.
pub(super) fn common(all: &[Entry], affected: &[Entry]) -> Option<String> {
    if affected.is_empty() {
        return None;
    }
    let of: Vec<Rule> = Rule::of(affected).into_iter().filter(|rule| affected.iter().all(|e| rule.has(e))).collect();
    let count = |rules: &[Rule]| all.iter().filter(|entry| rules.iter().all(|rule| rule.has(entry))).count();
    if let Some(rule) = of.iter().find(|rule| count(&[**rule]) == affected.len()) {
        return Some(rule.to_string());
    }
    let mut pairs = of.iter().enumerate().flat_map(|(i, one)| of[i + 1..].iter().map(move |other| [*one, *other]));
    if let Some([one, other]) = pairs.find(|pair| count(pair) == affected.len()) {
        return Some(format!("{one}, {other}"));
    }
    last(all, affected)
        .map(|experts| format!("the last tokens of each of {experts} experts, as where others took their places"))
}

/// Experts, if of each the affected are the last of its tokens, where most have several or leave others.
fn last(all: &[Entry], affected: &[Entry]) -> Option<usize> {
    let experts: BTreeSet<usize> = affected.iter().map(|entry| entry.expert).collect();
    let first = |expert: usize| affected.iter().filter(|e| e.expert == expert).map(|e| e.rank).min();
    let of = |expert: usize| all.iter().filter(move |entry| entry.expert == expert);
    let is_last = |expert: &usize| {
        let behind = of(*expert).filter(|entry| first(*expert).is_some_and(|first| entry.rank >= first));
        behind.count() == affected.iter().filter(|entry| entry.expert == *expert).count()
    };
    // Of tokens drawn at random, the last of an expert are those that are affected in one of so many cases.
    let chance = experts.iter().map(|expert| {
        let own = affected.iter().filter(|entry| entry.expert == *expert).count();
        (0..own).map(|i| (own - i) as f64 / (of(*expert).count() - i) as f64).product::<f64>()
    });
    (chance.product::<f64>() < CHANCE && experts.iter().all(is_last)).then_some(experts.len())
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::All => write!(f, "of every token"),
            Rule::Slot(slot) => write!(f, "the choice {} of each token", slot + 1),
            Rule::Expert(expert) => write!(f, "expert {expert}"),
            Rule::Token(token) => write!(f, "at token {token}"),
            Rule::Parity(0) => write!(f, "of even tokens"),
            Rule::Parity(_) => write!(f, "of odd tokens"),
            Rule::FromToken(token) => write!(f, "from token {token} on"),
            Rule::BeforeToken(token) => write!(f, "before token {token}"),
            Rule::FromRank(rank) => write!(f, "for the tokens of an expert behind its first {rank}"),
            Rule::BeforeRank(rank) => write!(f, "for the first {rank} tokens of an expert"),
            Rule::Paired(0) => write!(f, "an even expert where the next one was chosen, too"),
            Rule::Paired(_) => write!(f, "an odd expert where the one before it was chosen, too"),
            Rule::FromExpert(expert) => write!(f, "from expert {expert} on"),
            Rule::BeforeExpert(expert) => write!(f, "before expert {expert}"),
            Rule::Tail(tile, false) => {
                write!(
                    f,
                    "for the tokens of an expert that fill no whole tile of {tile}, where it has more than one tile"
                )
            }
            Rule::Tail(tile, true) => write!(f, "for the tokens of an expert that fill no whole tile of {tile}"),
        }
    }
}
