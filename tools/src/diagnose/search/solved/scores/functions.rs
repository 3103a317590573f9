//! An exponential that is another function: of its argument, or of the fraction of its argument's binary logarithm.

use std::f64::consts::LOG2_E;

use super::rows::Rows;
use crate::diagnose::search::Bench;
use crate::diagnose::search::solved::curve::{Curve, Point};
use crate::diagnose::search::solved::solution::Solution;

/// The furthest argument that is looked at: a key that counts for less than e⁻¹⁶ is known to few bits.
const FURTHEST: f64 = 16.0;

pub(super) fn solve(rows: &Rows, bench: &Bench<'_, '_>) -> Option<Solution> {
    let groups = |of: fn(f64) -> f64| -> Vec<Vec<Point>> {
        let group = |row: &super::rows::Row| {
            let logs = Rows::logs(*row, bench);
            let largest = logs.iter().fold(f64::NEG_INFINITY, |most, (_, log, _)| most.max(*log));
            let near = logs.into_iter().filter(|(_, log, _)| largest - log <= FURTHEST);
            near.map(|(_, log, more)| [of(log - largest), more]).collect()
        };
        rows.off.iter().map(group).collect()
    };
    let whole = Curve::of(&groups(|argument| argument));
    let bits = Curve::of(&groups(|argument| (argument * LOG2_E).rem_euclid(1.0)));
    // What takes fewer places is what it is a function of.
    let places = |curve: &Option<Curve>| curve.as_ref().map_or(usize::MAX, |curve| curve.places.len());
    let (is_whole, curve) = if places(&bits) < places(&whole) { (false, bits?) } else { (true, whole?) };
    let [least, most] = curve.ends()?;
    let range = 100.0 * (most[1] - least[1]);
    Some(Solution::without_values(if is_whole {
        format!(
            "the softmax's exponential is another function of its argument: off over a range of {range:.3} %, most at {:.2} and \
             least at {:.2}",
            most[0], least[0]
        )
    } else {
        format!(
            "the softmax's exponential is put together of bits: by the fraction of its argument's binary logarithm it is off over a \
             range of {range:.3} %"
        )
    }))
}
