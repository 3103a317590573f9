//! Whose keys or values heads may read in the place of their own.

use std::ops::RangeInclusive;

use ndarray::Array2;
use reference::config::Config;

use crate::diagnose::search::solved::turned;
use crate::diagnose::search::solved::weighing::heads::Heads;
use crate::diagnose::search::solved::weighing::way::Run;

/// Positions by which a rotation is off, and tokens by which others are read, at most.
const FURTHEST: RangeInclusive<isize> = 1..=64;

/// What reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Of {
    /// Every head.
    All,
    /// The query heads of a key head.
    Group(usize),
    /// One query head.
    Query(usize),
}

/// Positions by which one head's rotation is off, at most.
const NEAR: RangeInclusive<isize> = 1..=8;

/// How often keys are turned on by the query's position and by their own, and what is rotated then.
pub(in crate::diagnose) const ANGLES: [((isize, isize), &str); 9] = [
    ((1, 0), "queries were not rotated"),
    ((0, -1), "keys were not rotated"),
    ((1, -1), "neither queries nor keys were rotated"),
    ((2, -2), "queries and keys were rotated the other way"),
    ((2, 0), "queries were rotated the other way"),
    ((0, -2), "keys were rotated the other way"),
    ((-1, 0), "queries were rotated twice"),
    ((0, 1), "keys were rotated twice"),
    ((-1, 1), "queries and keys were rotated twice"),
];

/// By how many tokens a query's own is another, at most.
const NEWEST: usize = 8;

/// Slots of a ring, at most.
const SLOTS: usize = 512;

/// Whose keys or values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Whose {
    /// Those of the token so many behind; of the first or last their own.
    Token(isize),
    /// Those of the token so many behind, whose own are read here.
    Exchanged(isize),
    /// Another key head's.
    Group(usize),
    /// Those of the key heads in turn, one query head after the other.
    Turn,
    /// For a query's own token, those of the token so many before.
    Newest(usize),
    /// Of two key heads, the other's.
    Pair(usize, usize),
    /// Their own, rotated by so many positions more.
    Turned(isize),
    /// Their own, rotated by their own position once more.
    Twice,
    /// Their own, not rotated.
    Back,
    /// Their own, turned on by the query's position so many times, and by their own: what it takes for queries and keys that are
    /// rotated otherwise than by their positions.
    Angles(isize, isize),
    /// Those of a ring of so many slots, which later ones overwrite.
    Ring(usize),
    /// Zeros.
    Zeros,
}

impl Of {
    /// Whether a query head is one of them.
    pub(super) fn is_of(self, heads: &Heads, head: usize) -> bool {
        match self {
            Of::All => true,
            Of::Group(group) => heads.group(head) == group,
            Of::Query(own) => own == head,
        }
    }
}

impl Whose {
    /// Those that a head, or all, may read for all of its keys.
    pub(super) fn of_heads(of: Of, groups: usize) -> Vec<Self> {
        let others = (0..groups).map(Whose::Group);
        let pairs = (0..groups).flat_map(|a| (a + 1..groups).map(move |b| Whose::Pair(a, b)));
        let alone = NEAR.flat_map(|by| [Whose::Turned(by), Whose::Turned(-by)]).filter(|_| of != Of::All);
        let plain = [Whose::Token(-1), Whose::Token(1), Whose::Turn].into_iter().chain(others).chain(pairs);
        plain.chain(Whose::angles()).chain(alone).collect()
    }

    /// Those that are rotated by other angles, but for what has a name of its own.
    fn angles() -> impl Iterator<Item = Self> {
        ANGLES.into_iter().map(|((query, own), _)| Whose::Angles(query, own))
    }

    /// Those that one query head may read for all of its keys: where its query is rotated otherwise, all keys are the other way.
    pub(super) fn of_queries(groups: usize) -> Vec<Self> {
        let turned = NEAR.flat_map(|by| [Whose::Turned(by), Whose::Turned(-by)]);
        let others = (0..groups).map(Whose::Group).chain([Whose::Token(-1), Whose::Token(1)]);
        others.chain(Whose::angles()).chain(turned).collect()
    }

    /// Those that all may read for some of so many keys.
    pub(super) fn of_tokens(keys: usize) -> Vec<Self> {
        let ways = |of: fn(isize) -> Whose| FURTHEST.flat_map(move |by| [of(-by), of(by)]);
        let tokens =
            ways(Whose::Token).filter(move |whose| matches!(whose, Whose::Token(by) if by.unsigned_abs() < keys));
        let newest = (1..keys.min(SLOTS)).take(NEWEST).map(Whose::Newest);
        [Whose::Zeros, Whose::Twice, Whose::Back]
            .into_iter()
            .chain(newest)
            .chain(tokens)
            .chain(ways(Whose::Turned))
            .collect()
    }

    /// Rings of so few slots that some of so many keys overwrite others.
    pub(super) fn rings(keys: usize) -> Vec<Self> {
        (1..keys.min(SLOTS)).rev().map(Whose::Ring).collect()
    }

    /// Whether it is another than one's own, and values have it, if they are read.
    pub(super) fn is_possible(self, of: Of, values: bool) -> bool {
        match self {
            // All key heads do not read one of theirs, and none reads its own in another's place.
            Whose::Group(group) => of != Of::All && of != Of::Group(group),
            Whose::Turn | Whose::Pair(..) => of == Of::All,
            // Values do not rotate, and keys of zeros with values of zeros are found by what tokens see.
            Whose::Turned(_) | Whose::Twice | Whose::Back | Whose::Angles(..) => !values,
            Whose::Token(_) | Whose::Newest(_) | Whose::Exchanged(_) | Whose::Ring(_) | Whose::Zeros => true,
        }
    }

    /// The key head that a query head reads.
    pub(super) fn group(self, heads: &Heads, head: usize) -> usize {
        match self {
            Whose::Group(other) => other,
            Whose::Turn => head % heads.groups,
            Whose::Pair(a, b) if heads.group(head) == a => b,
            Whose::Pair(a, b) if heads.group(head) == b => a,
            _ => heads.group(head),
        }
    }

    /// Whether a query head reads it in the place of its own.
    pub(super) fn is_read_by(self, heads: &Heads, head: usize, of: Of) -> bool {
        match self {
            Whose::Turn | Whose::Pair(..) => self.group(heads, head) != heads.group(head),
            _ => of.is_of(heads, head),
        }
    }

    /// A key head's rows, of which a run is read otherwise for a query.
    pub(super) fn read(self, of: &Array2<f64>, query: usize, run: Run, config: &Config) -> Array2<f64> {
        let last = of.nrows().saturating_sub(1);
        let row = |row: usize| {
            let own = of.row(row).to_owned();
            match self {
                Whose::Token(by) | Whose::Exchanged(by) => of.row(row.saturating_add_signed(by).min(last)).to_owned(),
                Whose::Newest(by) if row == query => of.row(row.saturating_sub(by)).to_owned(),
                Whose::Turned(by) => turned::on(&own, by, config),
                Whose::Twice => turned::on(&own, row.cast_signed(), config),
                Whose::Back => turned::on(&own, -row.cast_signed(), config),
                Whose::Angles(of_query, of_own) => {
                    let by = of_query * query.cast_signed() + of_own * row.cast_signed();
                    turned::on(&own, by, config)
                }
                Whose::Ring(slots) if row + slots <= query => of.row(row + slots).to_owned(),
                Whose::Group(_) | Whose::Turn | Whose::Pair(..) | Whose::Ring(_) | Whose::Newest(_) => own,
                Whose::Zeros => own * 0.0,
            }
        };
        let mut all = of.clone();
        for own in run.from..run.to {
            all.row_mut(own).assign(&row(own));
            if let Whose::Exchanged(by) = self {
                all.row_mut(own.saturating_add_signed(by).min(last)).assign(&of.row(own));
            }
        }
        all
    }

    /// A sentence on a run of so many keys.
    pub(super) fn told(self, of: Of, what: &str, run: Run, keys: usize) -> String {
        let reader = match of {
            Of::All => "every key head".to_owned(),
            Of::Group(group) => format!("key head {group}"),
            Of::Query(head) => format!("query head {head}"),
        };
        let tokens = match run.len() {
            len if len == keys => String::new(),
            1 => format!(", of token {},", run.from),
            _ => format!(", of tokens {} to {},", run.from, run.to - 1),
        };
        let reads = format!("attention reads for {reader}{tokens}");
        let side = |by: isize| if by < 0 { "before" } else { "behind" };
        match self {
            Whose::Token(-1) => format!("{reads} the token before's {what}"),
            Whose::Token(1) => format!("{reads} the next token's {what}"),
            Whose::Token(by) => format!("{reads} the {what} of the token {} {} each", by.abs(), side(by)),
            Whose::Exchanged(by) => {
                let (from, to) = (run.from.saturating_add_signed(by), run.to.saturating_add_signed(by));
                format!(
                    "attention reads the {what} of tokens {} to {} and of {from} to {} in each other's place",
                    run.from,
                    run.to - 1,
                    to - 1
                )
            }
            Whose::Group(group) => format!("{reads} key head {group}'s {what}"),
            Whose::Turn => format!("query heads read the {what} of the key heads in turn, one after the other"),
            Whose::Newest(by) => {
                format!(
                    "{reads} for a token's own place the {what} of the token {by} before it, as of a row that is not written yet"
                )
            }
            Whose::Pair(a, b) => format!("attention reads the {what} of key heads {a} and {b} in each other's place"),
            Whose::Ring(slots) => {
                format!(
                    "attention reads the {what} of a ring of {slots} slots: from token {slots} on, those of a later token in the \
                     place of that {slots} before it"
                )
            }
            Whose::Turned(by) if matches!(of, Of::Query(_)) => {
                format!(
                    "{reads} keys as if its queries were rotated by the position {} {} their own",
                    by.abs(),
                    side(-by)
                )
            }
            Whose::Turned(by) => {
                format!("{reads} keys that are rotated by the position {} {} their own", by.abs(), side(by))
            }
            Whose::Twice => format!("{reads} keys that are rotated by their position twice"),
            Whose::Back => format!("{reads} keys that are not rotated"),
            Whose::Angles(query, own) => {
                let how = ANGLES.iter().find(|(angles, _)| *angles == (query, own)).map_or("", |(_, how)| how);
                format!("{reads} keys as if {how}")
            }
            Whose::Zeros => format!("{reads} {what} of zeros"),
        }
    }
}
