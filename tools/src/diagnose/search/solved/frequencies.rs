//! The frequencies of angles, or what is taken for a turn.
//!
//! ```text
//! αᵢₚ = p·fᵢ                        at positions p from 0 on; solved for f
//! αᵢₚ = p·fᵢ + δ·⌊p·fᵢ / 2π⌋        solved for δ: angles are reduced by 2π − δ, or to the nearest turn
//! ```
//!
//! with α in radians, known but for whole turns, and f in radians for each position.

use std::f64::consts::{PI, TAU};

use ndarray::{Array1, Array2};
use reference::Storage;

use super::least_squares::solve;
use super::listed::listed;

/// How far a frequency may be off, in roundings of f32 and as a share of 1 + f: cos and sin are off by half of one each, their
/// angle by no more, f and p·f by half of one each. All of a table in bf16 is off by 2¹⁶ times as much, and is not told.
const SAME: f64 = 64.0;

/// What may be left of the squares where angles are off by turns: those of angles near a whole turn go either way.
const TURNS: f64 = 0.05;

/// How far numbers by which frequencies are divided may be apart to be one, as a share: f32 leaves less of the smallest.
const DIVIDED: f64 = 1e-3;

/// Whole turns that the furthest angle has at least, where a turn's error is told: one turn's is any error from some place on.
const FEWEST_TURNS: f64 = 2.0;

/// How far an angle may be from what its frequency makes of its position: that of 1 has so much by f32 at some ten thousand.
const FOLLOWS: f64 = 1e-3;

/// Positions that a frequency is found by: each next one has a turn less room, and a digit more.
const POSITIONS: usize = 8;

/// What differs in the angles \[positions, pairs\] of positions from 0 on, and the angles that follow from it.
pub(super) fn told(angles: &Array2<f64>, right: &[f64]) -> Option<(String, Array2<f64>)> {
    if let Some(said) = behind(angles, right) {
        return Some(said);
    }
    let found: Vec<f64> =
        angles.columns().into_iter().zip(right).map(|(column, f)| frequency(&column.to_owned(), *f)).collect();
    let is =
        |(found, right): (&f64, &f64)| (found - right).abs() <= SAME * Storage::F32.unit_roundoff() * (1.0 + right);
    if found.iter().zip(right).all(is) {
        return None;
    }
    let follow = Array2::from_shape_fn(angles.dim(), |(p, i)| p as f64 * found[i]);
    let strays = |apart: f64| apart.sin().abs() > FOLLOWS || apart.cos() < 0.0;
    if angles.iter().zip(&follow).any(|(own, follow)| strays(own - follow)) {
        return None;
    }
    if let Some(times) = alike(&found, right) {
        return Some((
            format!("every frequency is {times:.6} times the right one, as of positions that are scaled"),
            follow,
        ));
    }
    let off: Vec<usize> = (0..found.len()).filter(|i| !is((&found[*i], &right[*i]))).collect();
    // Frequencies that are powers of one number, as θ^(−2i/D): of the second, which more follow than it alone.
    let are_powers = |base: f64| {
        let mut powers = std::iter::successors(Some(1.0), |power| Some(power * base));
        found.iter().all(|f| powers.next().is_some_and(|power| is((f, &power))))
    };
    if let (&[_, own, _, ..], &[_, of_right, ..]) = (&found[..], right)
        && own > 0.0
        && off.len() > 1
        && are_powers(own)
    {
        let said = format!(
            "each frequency is exp({:.5}) times the one before it, where exp({:.5}) is right: θ, or what its exponent is \
             divided by, is another",
            own.ln(),
            of_right.ln()
        );
        return Some((said, follow));
    }
    if let Some(said) = interpolated(&found, right, &off) {
        return Some((said, follow));
    }
    let each = listed(off.iter().map(|i| format!("{:.6} for {:.6} in pair {i}", found[*i], right[*i])));
    Some((format!("{} of {} frequencies are others: {each}", off.len(), found.len()), follow))
}

/// Where the last frequencies are divided by one number, and between these and the first, which are right, by less and less: as `YaRN`,
/// and by parts of it Llama 3, stretch positions.
fn interpolated(found: &[f64], right: &[f64], off: &[usize]) -> Option<String> {
    let by: Vec<f64> = found.iter().zip(right).map(|(found, right)| right / found).collect();
    let last = *by.last()?;
    let is_last = |by: &f64| (by - last).abs() <= DIVIDED * last;
    let first = by.iter().position(is_last)?;
    let rises = by.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + DIVIDED));
    let is_stretched = last > 1.0 + DIVIDED && rises && off.first().is_some_and(|first| *first > 0) && first > 0;
    is_stretched.then(|| {
        let between = match first - off[0].min(first) {
            0 => String::new(),
            count => format!(", and {count} before them by less"),
        };
        format!(
            "frequencies from pair {first} on are divided by {last:.4}{between}: positions are stretched, as by YaRN or Llama 3's \
             scaling"
        )
    })
}

/// What all frequencies are times the right ones.
fn alike(found: &[f64], right: &[f64]) -> Option<f64> {
    let times = found.first()? / right.first()?;
    let is = |(found, right): (&f64, &f64)| {
        (found - times * right).abs() <= SAME * Storage::F32.unit_roundoff() * (1.0 + times * right)
    };
    (found.len() > 1 && found.iter().zip(right).all(is)).then_some(times)
}

/// The frequency whose angles are nearest, beginning with that of the first positions.
fn frequency(angles: &Array1<f64>, right: f64) -> f64 {
    let nearest = |angle: f64, near: f64| near + (angle - near + PI).rem_euclid(TAU) - PI;
    let mut f = nearest(angles[1], right);
    for (p, angle) in angles.iter().enumerate().take(POSITIONS).skip(2) {
        f = nearest(*angle, p as f64 * f) / p as f64;
    }
    f
}

/// A count of turns, and what it is called.
type Count = (&'static str, fn(f64) -> f64);

/// How turns are counted: whole ones, or to the nearest.
const COUNTS: [Count; 2] = [("whole turn", f64::floor), ("turn, to the nearest", f64::round)];

/// Where the first angles are right and later ones are not: by how much a turn is missed.
fn behind(angles: &Array2<f64>, right: &[f64]) -> Option<(String, Array2<f64>)> {
    let fits = COUNTS.iter().filter_map(|(name, count)| {
        let (mut turns, mut missed) = (Vec::new(), Vec::new());
        for (column, f) in angles.columns().into_iter().zip(right) {
            for (p, angle) in column.iter().enumerate() {
                let exact = p as f64 * f;
                turns.push(count(exact / TAU));
                missed.push((angle - exact + PI).rem_euclid(TAU) - PI);
            }
        }
        if turns.iter().all(|turns| *turns < FEWEST_TURNS) {
            return None;
        }
        let turns = Array2::from_shape_vec((turns.len(), 1), turns).ok()?;
        let fit = solve(turns.view(), Array1::from(missed).view()).filter(|fit| fit.left < TURNS)?;
        Some((fit.left, fit.x[0], *name, *count))
    });
    let (_, by, name, count) = fits.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let follow = Array2::from_shape_fn(angles.dim(), |(p, i)| {
        let exact = p as f64 * right[i];
        exact + by * count(exact / TAU)
    });
    Some((format!("angles are off by {by:.6} with each {name}: {:.6} is taken for 2π", TAU - by), follow))
}
