//! Which of several explanations is the best, and which are as good.

use super::catalogue::mistake::{Assumed, Change};
use super::trial::Tried;

/// Mistakes that come nearest alone, each of which is tried with others where none fits alone.
const PAIRED: usize = 4;

/// Of those that leave the fewest faults, and of these make the fewest, the one that reproduces the most values.
pub(super) fn best(tried: &mut [Tried]) -> Option<&Tried> {
    tried.sort_by_key(|tried| (tried.left, tried.made, std::cmp::Reverse(tried.of_layer.equal)));
    tried.first()
}

/// How far a number may be from a whole one to be it, as a share.
const WHOLE: f64 = 1e-4;

/// The best, and those that are as good. Of equals, a known mistake goes before what a search found, one before two, and one
/// that has no number before one that is fitted.
pub(super) fn equals(mut tried: Vec<Tried>) -> Vec<Tried> {
    let Some((least, most)) = best(&mut tried).map(|best| ((best.left, best.made), best.of_layer)) else {
        return tried;
    };
    tried.retain(|tried| (tried.left, tried.made) == least && !most.exceeds(tried.of_layer));
    tried.sort_by(|a, b| {
        let order = |tried: &Tried| {
            let is_searched = |one: &Assumed| one.mistake.is_searched() || is_of_zeros(&one.change);
            let is_searched = tried.added.iter().any(is_searched);
            (tried.added.len(), is_searched, tried.added.iter().any(|one| one.change.has_number()))
        };
        order(a).cmp(&order(b)).then(a.far.total_cmp(&b.far))
    });
    tried
}

/// Whether a sink counts as much as a whole number of keys of zeros, of which these are.
fn is_of_zeros(change: &Change) -> bool {
    let Change::Reading("attention_sink", sink) = change else { return false };
    let keys = sink.parse::<f64>().map_or(0.0, f64::exp);
    keys > 1.5 && (keys - keys.round()).abs() < WHOLE * keys
}

/// The first of those that are equal, and the others.
pub(super) fn told_apart(equals: Vec<Tried>) -> Option<(Tried, Vec<Tried>)> {
    let mut tried = equals.into_iter();
    let best = tried.next()?;
    // What needs more than another does not explain as much.
    let others = tried.filter(|other| other.added.len() == best.added.len()).collect();
    Some((best, others))
}

/// Mistakes that come near, each with all others but those that change the same.
pub(super) fn pairs<'a>(near: &[(f64, &'a Assumed)]) -> impl Iterator<Item = (&'a Assumed, &'a Assumed)> {
    let same = |a: &Assumed, b: &Assumed| match (&a.change, &b.change) {
        (Change::Reading(a, _), Change::Reading(b, _)) => a == b,
        (a, b) => a == b,
    };
    let all = near.iter().enumerate().take(PAIRED);
    let others = all.flat_map(|(i, (_, one))| near[i + 1..].iter().map(move |(_, other)| (*one, *other)));
    others.filter(move |(one, other)| !same(one, other))
}
