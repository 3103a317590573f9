//! What those of a token's experts have in common that something happened to.

use std::fmt;

/// An expert of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) token: usize,
    /// Its place among the token's experts, the best first.
    pub(super) slot: usize,
    pub(super) expert: usize,
    /// Tokens before this one that were sent there, too.
    pub(super) rank: usize,
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
        vec![
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
    pairs.find(|pair| count(pair) == affected.len()).map(|[one, other]| format!("{one}, {other}"))
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
        }
    }
}
