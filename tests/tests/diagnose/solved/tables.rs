//! Queries and keys that rotate by tables that are put together otherwise.

use ndarray::{Array2, ArrayView2};
use reference::models::decoder::Decoder;
use reference::{LayerSite, Real, Site};

use super::{M2, Shown, Subject, has};

/// Channels of a head, those that rotate, and θ of the case.
const D: usize = 16;
const ROTARY: usize = 8;
const THETA: f64 = 5e6;

/// M2 that shows all that goes into the rotation.
const SUBJECT: Subject = Subject { shows: &[LayerSite::QNorm, LayerSite::KNorm], ..M2 };

fn frequency(pair: usize) -> f64 {
    THETA.powf(-2.0 * pair as f64 / ROTARY as f64)
}

/// Rotated by an angle for each position and column, of a key head that may be further on.
fn rotated(x: ArrayView2<'_, f32>, angle: &dyn Fn(usize, usize, usize) -> f64) -> Array2<f32> {
    let half = ROTARY / 2;
    Array2::from_shape_fn(x.dim(), |(row, column)| {
        let (head, channel) = (column / D, column % D);
        if channel >= ROTARY {
            return x[[row, column]];
        }
        let (sin, cos) = angle(head, row, channel).sin_cos();
        let other = if channel < half { -x[[row, column + half]] } else { x[[row, column - half]] };
        f32::of(f64::from(x[[row, column]]) * cos + f64::from(other) * sin)
    })
}

/// What is said where queries and keys of layer 1 have these angles: by head, position and column.
fn said(queries: &dyn Fn(usize, usize, usize) -> f64, keys: &dyn Fn(usize, usize, usize) -> f64) -> Vec<String> {
    let q = |_: &Decoder<'_>, shown: &Shown| rotated(shown.of(1, LayerSite::QNorm).view(), queries);
    let k = |_: &Decoder<'_>, shown: &Shown| rotated(shown.of(1, LayerSite::KNorm).view(), keys);
    let [of_q, of_k] = [LayerSite::QRope, LayerSite::KRope].map(|site| Site::Layer(1, site));
    SUBJECT.said(&[(of_q, &q), (of_k, &k)])
}

fn right(_: usize, position: usize, column: usize) -> f64 {
    position as f64 * frequency(column % (ROTARY / 2))
}

#[test]
fn frequencies_that_stand_twice_behind_each_other() {
    let own = |_: usize, position: usize, column: usize| position as f64 * frequency(column / 2);
    let said = said(&own, &own);
    has(
        &said,
        "queries and keys are rotated by another table than the right one: each frequency stands in two columns",
    );
}

#[test]
fn a_pair_that_does_not_rotate() {
    let own = |head: usize, position: usize, column: usize| {
        if column % (ROTARY / 2) == 1 { 0.0 } else { right(head, position, column) }
    };
    let said = said(&own, &own);
    has(&said, "queries and keys are rotated by another table than the right one: pair 1 of 4 does not rotate");
}

#[test]
fn a_key_head_that_is_one_position_further() {
    let own = |head: usize, position: usize, column: usize| right(head, position + usize::from(head == 1), column);
    has(&said(&right, &own), "attention reads for key head 1 keys that are rotated by the position 1 behind their own");
}

/// The table itself.
#[test]
fn a_table_of_frequencies_that_stand_twice() {
    let of = |shown: &Shown, function: fn(f64) -> f64| {
        let dim = shown.values[&Site::RopeCos].dim();
        Array2::from_shape_fn(dim, |(position, column)| f32::of(function(position as f64 * frequency(column / 2))))
    };
    let cos = |_: &Decoder<'_>, shown: &Shown| of(shown, f64::cos);
    let sin = |_: &Decoder<'_>, shown: &Shown| of(shown, f64::sin);
    has(
        &M2.said(&[(Site::RopeCos, &cos), (Site::RopeSin, &sin)]),
        "each frequency stands in two columns behind each other",
    );
}
