//! Rows and channels that are not written, are added twice, or are another tile's.

use ndarray::{Array2, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;

use super::{M2, M2_BF16, Shown, has, narrowed};

/// What is said of the experts' sum with a tile that `change` makes of the right one.
fn said(change: impl Fn(&Array2<f32>) -> Array2<f32>, of: fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    let subject = if of(Array2::from_elem((1, 1), 1.0 + f32::EPSILON))[[0, 0]] > 1.0 { &M2 } else { &M2_BF16 };
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        let tile = change(&sum);
        sum.slice_mut(s![8..16, 16..32]).assign(&tile);
        of(sum)
    };
    subject.said_of(LayerSite::Experts, &port)
}

#[test]
fn a_tile_that_is_not_written() {
    let zero = |_: &Array2<f32>| Array2::zeros((8, 16));
    has(&said(zero, |y| y), "in rows 8 to 15 of 40, channels 16 to 31 of 96 are 0");
    has(&said(zero, narrowed), "in rows 8 to 15 of 33, channels 16 to 31 of 128 are 0");
}

#[test]
fn a_tile_that_is_added_twice() {
    let twice = |y: &Array2<f32>| y.slice(s![8..16, 16..32]).mapv(|y| 2.0 * y);
    has(&said(twice, |y| y), "in rows 8 to 15 of 40, channels 16 to 31 of 96 are 2.0000 times what they should be");
}

#[test]
fn a_tile_of_rows_before() {
    let stale = |y: &Array2<f32>| y.slice(s![0..8, 16..32]).to_owned();
    let sentence = "in rows 8 to 15 of 40, channels 16 to 31 of 96 have the values of the row 8 before them";
    has(&said(stale, |y| y), sentence);
}

#[test]
fn rows_that_are_not_written() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut sum = shown.of(1, LayerSite::Experts).clone();
        sum.slice_mut(s![37.., ..]).fill(0.0);
        sum
    };
    has(&M2.said_of(LayerSite::Experts, &port), "rows 37 to 39 of 40 are 0");
}
