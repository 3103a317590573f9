//! What tokens have in common in how they weigh keys.

use std::collections::BTreeSet;
use std::fmt;

use super::way::{Merge, Run, Way};
use crate::diagnose::search::solved::listed;

/// Things said at most.
const STATEMENTS: usize = 3;

/// Tokens for each that has a way in common with others, at most, where the way is told.
const SHARE: usize = 3;

/// A token's place, the keys that it has to see, and how it weighs them.
#[derive(Debug, Clone, Copy)]
pub(in crate::diagnose) struct Weighed {
    pub(in crate::diagnose) row: usize,
    /// The row that its call begins with.
    pub(in crate::diagnose) call: usize,
    pub(in crate::diagnose) span: Run,
    pub(in crate::diagnose) way: Way,
}

/// Where a run of keys begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// With what the token has to see.
    Span,
    /// At a key.
    At(usize),
    /// So many behind the token; before it, if negative.
    Off(isize),
    /// So many behind the token's place in its call.
    InCall(usize),
}

/// What is done with a run of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Without,
    Zeroed,
    Ahead,
    Only,
}

/// What several tokens have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Keys(What, Edge, Edge),
    Zeros(usize),
    Split(Merge, usize),
}

impl Edge {
    /// The key, as the first or the end of a run.
    fn of(self, (row, call): (usize, usize), own: usize) -> usize {
        match self {
            Edge::Span => own,
            Edge::At(key) => key,
            Edge::Off(by) => row.saturating_add_signed(by),
            Edge::InCall(by) => row - call + by,
        }
    }
}

impl Weighed {
    fn run(&self) -> Option<(What, Run)> {
        match self.way {
            Way::Without(run) => Some((What::Without, run)),
            Way::Zeroed(run) => Some((What::Zeroed, run)),
            Way::Ahead(key) => Some((What::Ahead, Run::one(key))),
            // With the next key it is that one more.
            Way::Only(run) if run == (Run { to: self.span.to + 1, ..self.span }) => {
                Some((What::Ahead, Run::one(self.span.to)))
            }
            Way::Only(run) => Some((What::Only, run)),
            Way::Zeros(_) | Way::Split(..) => None,
        }
    }

    /// The keys that it sees, and how many are zeros; a key that it sees beside its own apart.
    fn seen(&self, what: What, run: Run) -> (Vec<Run>, usize) {
        let span = self.span;
        let rest = || {
            let parts = [Run { to: run.from.max(span.from), ..span }, Run { from: run.to.min(span.to), ..span }];
            parts.into_iter().filter(|part| part.len() > 0).collect()
        };
        match what {
            What::Without => (rest(), 0),
            What::Zeroed => (rest(), run.len()),
            What::Ahead => (vec![span, run], 0),
            What::Only => (vec![run], 0),
        }
    }

    /// Whether what is alike is how this token weighs its keys.
    fn is(&self, alike: Alike) -> bool {
        match (alike, self.way) {
            (Alike::Zeros(count), Way::Zeros(own)) => count == own,
            (Alike::Split(merge, size), Way::Split(own, of)) => (merge, size) == (own, of),
            (Alike::Keys(what, from, to), _) => {
                let Some((own, run)) = self.run() else { return false };
                let place = (self.row, self.call);
                let alike = Run { from: from.of(place, self.span.from), to: to.of(place, self.span.to) };
                let is = |alike| self.seen(own, run) == self.seen(what, alike);
                is(alike.within(self.span)) || !matches!(what, What::Without | What::Zeroed) && is(alike)
            }
            _ => false,
        }
    }

    /// What it may have in common with others.
    fn alikes(&self) -> Vec<Alike> {
        let (what, run) = match self.way {
            Way::Zeros(count) => return vec![Alike::Zeros(count)],
            Way::Split(merge, size) => return vec![Alike::Split(merge, size)],
            _ => self.run().expect("the others have runs"),
        };
        let off = |key: usize| Edge::Off(key.cast_signed() - self.row.cast_signed());
        let edges = |key: usize, own: usize| if key == own { vec![Edge::Span] } else { Vec::new() };
        let from = [edges(run.from, self.span.from), vec![Edge::At(run.from), off(run.from)]].concat();
        let mut to = [edges(run.to, self.span.to), vec![Edge::At(run.to), off(run.to)]].concat();
        let place = self.row - self.call;
        to.extend((self.call > 0 && run.to >= place).then(|| Edge::InCall(run.to - place)));
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        // A length that another request had: what stands between it and the token.
        let is_between = |(from, to): &(Edge, Edge)| {
            let is_up_to = matches!((from, to), (Edge::At(_), Edge::Off(by)) if *by <= 0);
            matches!((from, to), (Edge::At(_), Edge::Off(_))) && !(is_up_to && what == What::Without)
        };
        let mixed = |(from, to): &(Edge, Edge)| {
            matches!(
                (from, to),
                (Edge::Off(_), Edge::At(_)) | (Edge::Span, Edge::Span) | (Edge::At(_) | Edge::Off(_), Edge::InCall(_))
            )
        };
        pairs.filter(|pair| !mixed(pair) && !is_between(pair)).map(|(from, to)| Alike::Keys(what, from, to)).collect()
    }
}

/// What most of the tokens have in common, then what most of the others have; and the tokens of which that is said.
pub(in crate::diagnose) fn tell(found: &[Weighed], tried: usize, off: usize) -> (Vec<String>, BTreeSet<usize>) {
    let mut left = found.to_vec();
    let (mut said, mut told) = (Vec::new(), BTreeSet::new());
    while !left.is_empty() && said.len() < STATEMENTS {
        let alikes: BTreeSet<Alike> = left.iter().flat_map(Weighed::alikes).collect();
        let rows_of = |alike: Alike| -> BTreeSet<usize> {
            left.iter().filter(|weighed| weighed.is(alike)).map(|weighed| weighed.row).collect()
        };
        // Of several that as many have in common, the plainest, which is the first.
        let each = alikes.into_iter().map(|alike| (rows_of(alike), alike));
        let most = each.reduce(|most, next| if next.0.len() > most.0.len() { next } else { most });
        let Some((rows, alike)) = most else { break };
        if SHARE * rows.len() < tried {
            break; // by chance one way or another comes near a few
        }
        left.retain(|weighed| !weighed.is(alike));
        let rows: Vec<usize> = rows.into_iter().collect();
        said.push(format!("{alike}: {}", listed::tokens(&rows, tried, off)));
        told.extend(rows);
    }
    (said, told)
}

/// One key.
fn key(edge: Edge) -> String {
    match edge {
        Edge::Span => "its first key".to_owned(),
        Edge::At(key) => format!("key {key}"),
        Edge::Off(0) => "the token's own key".to_owned(),
        Edge::Off(by) if by < 0 => format!("the key {} before the token", -by),
        Edge::Off(by) => format!("the key {by} behind the token"),
        Edge::InCall(by) => format!("the key {by} behind the token's place in its call"),
    }
}

/// Whether a run is one key.
fn is_one(from: Edge, to: Edge) -> bool {
    match (from, to) {
        (Edge::At(from), Edge::At(to)) => from + 1 == to,
        (Edge::Off(from), Edge::Off(to)) => from + 1 == to,
        _ => false,
    }
}

/// The last of a run that ends before an edge.
fn last(to: Edge) -> Edge {
    match to {
        Edge::Span => Edge::Off(0),
        Edge::At(key) => Edge::At(key.saturating_sub(1)),
        Edge::Off(by) => Edge::Off(by - 1),
        Edge::InCall(by) => Edge::InCall(by.saturating_sub(1)),
    }
}

fn keys(from: Edge, to: Edge) -> String {
    match (from, to) {
        _ if is_one(from, to) => key(from),
        (Edge::At(from), Edge::At(to)) => format!("keys {from} to {}", to - 1),
        (Edge::Span, to) => format!("the keys before {}", key(to)),
        (from, Edge::Span) => format!("the keys from {} on", key(from)),
        (from, to) => format!("the keys from {} to {}", key(from), key(last(to))),
    }
}

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Alike::Keys(What::Without, from, to) => write!(f, "attention does not see {}", keys(from, to)),
            Alike::Keys(What::Zeroed, from, to) => {
                let values = if is_one(from, to) { "its value" } else { "their values" };
                write!(f, "attention has zeros for {} and {values}", keys(from, to))
            }
            Alike::Keys(What::Ahead, from, to) => write!(f, "attention sees {}, too", keys(from, to)),
            Alike::Keys(What::Only, from, Edge::Span) => write!(f, "attention sees no key before {}", key(from)),
            Alike::Keys(What::Only, Edge::Span, Edge::InCall(1)) => {
                let how = "as many as its call has tokens up to it: a causal mask that begins at the call's first key";
                write!(f, "attention sees the first keys alone, {how}")
            }
            Alike::Keys(What::Only, from, to) => write!(f, "attention sees {} alone", keys(from, to)),
            Alike::Zeros(1) => {
                write!(f, "attention sees one key and value of zeros more, as of a slot that nothing filled")
            }
            Alike::Zeros(count) => write!(f, "attention sees {count} keys and values of zeros more"),
            Alike::Split(merge, size) => {
                let how = match merge {
                    Merge::Unsummed => "put together by their largest scores, without their sums",
                    Merge::Averaged => "averaged, each for as much as every other, without their sums",
                    Merge::ValuesKept => "added without scaling the sum of values again where a larger score comes",
                    Merge::WeightsKept => "added without scaling the sum of weights again where a larger score comes",
                    Merge::BothKept => "added without scaling the sums again where a larger score comes",
                };
                write!(f, "attention's splits of {size} keys are {how}")
            }
        }
    }
}
