//! Whose keys or values heads may read in the place of their own.

use std::ops::RangeInclusive;

use ndarray::Array2;
use reference::config::Config;

use crate::diagnose::search::solved::turned;
use crate::diagnose::search::solved::weighing::heads::Heads;
use crate::diagnose::search::solved::weighing::way::Run;

/// Positions by which a rotation is off, and tokens by which others are read, at most.
const FURTHEST: RangeInclusive<isize> = 1..=64;

/// Whose keys or values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Whose {
    /// Those of the token so many behind; of the first or last their own.
    Token(isize),
    /// Another key head's.
    Group(usize),
    /// Those of the key heads in turn, one query head after the other.
    Turn,
    /// Their own, rotated by so many positions more.
    Turned(isize),
    /// Their own, rotated by their own position once more.
    Twice,
    /// Their own, not rotated.
    Back,
    /// Zeros.
    Zeros,
}

impl Whose {
    /// Those that a head may read for all of its keys.
    pub(super) fn of_heads(groups: usize) -> Vec<Self> {
        let others = (0..groups).map(Whose::Group);
        [Whose::Token(-1), Whose::Token(1), Whose::Turn].into_iter().chain(others).collect()
    }

    /// Those that all may read for some of so many keys.
    pub(super) fn of_tokens(keys: usize) -> Vec<Self> {
        let ways = |of: fn(isize) -> Whose| FURTHEST.flat_map(move |by| [of(-by), of(by)]);
        let tokens =
            ways(Whose::Token).filter(move |whose| matches!(whose, Whose::Token(by) if by.unsigned_abs() < keys));
        [Whose::Zeros, Whose::Twice, Whose::Back].into_iter().chain(tokens).chain(ways(Whose::Turned)).collect()
    }

    /// Whether it is another than one's own, and values have it, if they are read.
    pub(super) fn is_possible(self, of: Option<usize>, values: bool) -> bool {
        match self {
            // All key heads do not read one of theirs, and none reads its own in another's place.
            Whose::Group(group) => of.is_some_and(|of| of != group),
            Whose::Turn => of.is_none(),
            // Values do not rotate, and keys of zeros with values of zeros are found by what tokens see.
            Whose::Turned(_) | Whose::Twice | Whose::Back => !values,
            Whose::Token(_) | Whose::Zeros => true,
        }
    }

    /// The key head that a query head reads.
    pub(super) fn group(self, heads: &Heads, head: usize) -> usize {
        match self {
            Whose::Group(other) => other,
            Whose::Turn => head % heads.groups,
            _ => heads.group(head),
        }
    }

    /// Whether a query head reads it in the place of its own.
    pub(super) fn is_read_by(self, heads: &Heads, head: usize, of: Option<usize>) -> bool {
        match self {
            Whose::Turn => self.group(heads, head) != heads.group(head),
            _ => of.is_none_or(|of| of == heads.group(head)),
        }
    }

    /// A key head's rows, of which a run is read otherwise.
    pub(super) fn read(self, of: &Array2<f64>, run: Run, config: &Config) -> Array2<f64> {
        let last = of.nrows().saturating_sub(1);
        let row = |row: usize| {
            let own = of.row(row).to_owned();
            match self {
                Whose::Token(by) => of.row(row.saturating_add_signed(by).min(last)).to_owned(),
                Whose::Group(_) | Whose::Turn => own,
                Whose::Turned(by) => turned::on(&own, by, config),
                Whose::Twice => turned::on(&own, row.cast_signed(), config),
                Whose::Back => turned::on(&own, -row.cast_signed(), config),
                Whose::Zeros => own * 0.0,
            }
        };
        let mut all = of.clone();
        for own in run.from..run.to {
            all.row_mut(own).assign(&row(own));
        }
        all
    }

    pub(super) fn told(self, of: Option<usize>, what: &str, run: &str) -> String {
        let reader = of.map_or_else(|| "every key head".to_owned(), |of| format!("key head {of}"));
        let reads = format!("attention reads for {reader}{run}{}", if run.is_empty() { "" } else { "," });
        let side = |by: isize| if by < 0 { "before" } else { "behind" };
        match self {
            Whose::Token(-1) => format!("{reads} the token before's {what}"),
            Whose::Token(1) => format!("{reads} the next token's {what}"),
            Whose::Token(by) => format!("{reads} the {what} of the token {} {} each", by.abs(), side(by)),
            Whose::Group(group) => format!("{reads} key head {group}'s {what}"),
            Whose::Turn => format!("query heads read the {what} of the key heads in turn, one after the other"),
            Whose::Turned(by) => {
                format!("{reads} keys that are rotated by the position {} {} their own", by.abs(), side(by))
            }
            Whose::Twice => format!("{reads} keys that are rotated by their position twice"),
            Whose::Back => format!("{reads} keys that are not rotated"),
            Whose::Zeros => format!("{reads} {what} of zeros"),
        }
    }
}
