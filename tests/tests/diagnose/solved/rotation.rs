//! Rotation tables of other angles.

use std::f32::consts::TAU;

use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::{Real, Site};

use super::{M2, Shown, has};

/// θ of the case, and the channels that rotate.
const THETA: f64 = 5e6;
const ROTARY: usize = 8;

/// The frequency of a pair.
fn frequency(pair: usize) -> f64 {
    THETA.powf(-2.0 * pair as f64 / ROTARY as f64)
}

/// What is said of a table of these angles, by position and pair.
fn said(angle: impl Fn(usize, usize) -> f32) -> Vec<String> {
    let of = |shown: &Shown, function: fn(f32) -> f32| {
        let dim = shown.values[&Site::RopeCos].dim();
        Array2::from_shape_fn(dim, |(position, j)| function(angle(position, j % (ROTARY / 2))))
    };
    let cos = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::cos);
    let sin = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::sin);
    M2.said(&[(Site::RopeCos, &cos), (Site::RopeSin, &sin)])
}

/// What is taken for a turn: 6.28.
const TURN: f32 = 157.0 / 25.0;

#[test]
fn angles_reduced_by_a_short_turn() {
    let said = said(|position, pair| {
        let angle = position as f32 * f32::of(frequency(pair));
        angle - TURN * (angle / TAU).floor()
    });
    let by = f64::from(TAU) - f64::from(TURN);
    has(&said, &format!("angles are off by {by:.6} with each whole turn: 6.280000 is taken for 2π"));
}

#[test]
fn one_pair_has_another_frequency() {
    let own = |pair: usize| frequency(pair) * if pair == 1 { 1.01 } else { 1.0 };
    let said = said(|position, pair| position as f32 * f32::of(own(pair)));
    has(&said, &format!("1 of 4 frequencies are others: {:.6} for {:.6} in pair 1", own(1), frequency(1)));
}

/// A table that ends before the prompt does.
#[test]
fn positions_behind_the_end_of_a_table() {
    let said = said(|position, pair| position.min(24) as f32 * f32::of(frequency(pair)));
    has(&said, "positions 25 to 39: all have the angles of 24");
}

/// Angles are reduced to the nearest turn, by 6.28125, which has few bits.
#[test]
fn angles_reduced_to_the_nearest_turn() {
    const FEW: f32 = 6.281_25;
    let said = said(|position, pair| {
        let angle = position as f32 * f32::of(frequency(pair));
        angle - FEW * (angle / FEW).round()
    });
    let by = f64::from(TAU) - f64::from(FEW);
    has(&said, &format!("angles are off by {by:.6} with each turn, to the nearest: 6.281250 is taken for 2π"));
}

/// Sines by the first terms of a series.
#[test]
fn sines_by_a_polynomial() {
    let sin = |_: &Decoder<'_>, shown: &Shown| {
        Array2::from_shape_fn(shown.values[&Site::RopeSin].dim(), |(position, j)| {
            let angle = position as f32 * f32::of(frequency(j % (ROTARY / 2)));
            let x = angle - TAU * (angle / TAU).round();
            x - x.powi(3) / 6.0 + x.powi(5) / 120.0
        })
    };
    let said = M2.said(&[(Site::RopeSin, &sin)]);
    has(&said, "each value is another function of its argument than the sine: ");
}

/// As `YaRN` does: the slowest pairs are stretched, some by less, and all is multiplied.
#[test]
fn positions_that_are_stretched() {
    let by = [1.0, 1.0, 2.5, 4.0];
    let of = |shown: &Shown, function: fn(f32) -> f32| {
        let dim = shown.values[&Site::RopeCos].dim();
        let angle = |position: usize, pair: usize| position as f32 * f32::of(frequency(pair) / by[pair]);
        Array2::from_shape_fn(dim, |(position, j)| 1.25 * function(angle(position, j % (ROTARY / 2))))
    };
    let cos = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::cos);
    let sin = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::sin);
    let said = M2.said(&[(Site::RopeCos, &cos), (Site::RopeSin, &sin)]);
    let stretched = "frequencies from pair 3 on are divided by 4.0000, and 1 before them by less";
    has(&said, &format!("cosines and sines are 1.250000 times as large, and {stretched}"));
}
