//! What tokens have in common in how they weigh keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::way::Way;

/// Things said at most.
const STATEMENTS: usize = 3;

/// Tokens for each that has a way in common with others, at most, where the way is told.
const SHARE: usize = 3;

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Key(usize),
    /// So many before the token.
    Before(usize),
    /// So many behind it.
    Behind(usize),
}

/// What several tokens have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    Without(Place),
    Zeroed(Place),
    Ahead(Place),
    From(Place),
    Before(Place),
    Zeros(usize),
    Unsummed(usize),
}

impl Alike {
    /// Which of several tokens' ways it is alike: by the key, by its distance, or by what has no key.
    fn of(way: Way, row: usize) -> [Option<Alike>; 2] {
        let keyed = |key: usize, what: fn(Place) -> Alike| {
            let place = row.checked_sub(key).map_or_else(|| Place::Behind(key - row), Place::Before);
            [Some(what(Place::Key(key))), Some(what(place))]
        };
        match way {
            Way::Without(key) => keyed(key, Alike::Without),
            Way::Zeroed(key) => keyed(key, Alike::Zeroed),
            Way::Ahead(key) => keyed(key, Alike::Ahead),
            Way::From(key) => keyed(key, Alike::From),
            Way::Before(key) => keyed(key, Alike::Before),
            Way::Zeros(count) => [Some(Alike::Zeros(count)), None],
            Way::Unsummed(size) => [Some(Alike::Unsummed(size)), None],
        }
    }
}

/// What most of the tokens have in common, then what most of the others have.
pub(super) fn tell(found: &[(usize, Way)], tried: &[usize], off: &[usize]) -> Vec<String> {
    let mut left = found.to_vec();
    let mut said = Vec::new();
    while !left.is_empty() && said.len() < STATEMENTS {
        let mut by: BTreeMap<Alike, BTreeSet<usize>> = BTreeMap::new();
        for (row, way) in &left {
            for alike in Alike::of(*way, *row).into_iter().flatten() {
                by.entry(alike).or_default().insert(*row);
            }
        }
        let Some((alike, rows)) = by.into_iter().max_by_key(|(_, rows)| rows.len()) else { break };
        if SHARE * rows.len() < tried.len() {
            break; // by chance one way or another comes near a few
        }
        left.retain(|(row, way)| !Alike::of(*way, *row).contains(&Some(alike)));
        let which = if rows.len() == tried.len() && tried.len() == off.len() {
            "all tokens that are off".to_owned()
        } else {
            let listed: Vec<String> = rows.iter().take(6).map(ToString::to_string).collect();
            let more = if rows.len() > 6 { ", …" } else { "" };
            format!("{} of {} tokens that are off, {}{more}", rows.len(), tried.len(), listed.join(", "))
        };
        said.push(format!("{alike}: {which}"));
    }
    said
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Key(key) => write!(f, "key {key}"),
            Place::Before(0) => write!(f, "the token's own key"),
            Place::Before(by) => write!(f, "the key {by} before the token"),
            Place::Behind(by) => write!(f, "the key {by} behind the token"),
        }
    }
}

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alike::Without(place) => write!(f, "attention does not see {place}"),
            Alike::Zeroed(place) => write!(f, "attention has zeros for {place} and its value"),
            Alike::Ahead(place) => write!(f, "attention sees {place}, too"),
            Alike::From(place) => write!(f, "attention sees no key before {place}"),
            Alike::Before(place) => write!(f, "attention sees the keys before {place} alone"),
            Alike::Zeros(1) => {
                write!(f, "attention sees one key and value of zeros more, as of a slot that nothing filled")
            }
            Alike::Zeros(count) => write!(f, "attention sees {count} keys and values of zeros more"),
            Alike::Unsummed(size) => {
                write!(
                    f,
                    "attention's splits of {size} keys are put together by their largest scores, without their sums"
                )
            }
        }
    }
}
