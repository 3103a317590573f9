//! Rows that a kernel did not write, and that hold what stood in their buffer.

use ndarray::{Array2, s};
use reference::models::decoder::Decoder;
use reference::{LayerSite, RoundingContract};

use super::{M2, Shown, Subject, has};

/// What is said of a network of layer 1 whose last rows are layer 0's, `moved` down by so many rows, as `of` has them.
fn last_rows(subject: &Subject, moved: usize, of: fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut y = shown.of(1, LayerSite::Mlp).clone();
        let (n, first) = (y.nrows(), y.nrows() - 4);
        let stale = shown.of(0, LayerSite::Mlp).slice(s![first - moved..n - moved, ..]).to_owned();
        y.slice_mut(s![first.., ..]).assign(&of(stale));
        y
    };
    subject.said_of(LayerSite::Mlp, &port)
}

#[test]
fn rows_of_another_layer() {
    let words = "of 40 are those of model.layers.0.mlp, bit for bit";
    has(&last_rows(&M2, 0, |y| y), &format!("rows 36 to 39 {words}"));
    let m2 = Subject { case: "m2-sharded-bf16", contract: RoundingContract::EAGER_BF16, shows: &[] };
    let said = last_rows(&m2, 0, |y| y);
    assert!(said[0].contains("are those of model.layers.0.mlp, bit for bit"), "{said:#?}");
}

#[test]
fn rows_of_another_layer_and_another_call() {
    has(&last_rows(&M2, 8, |y| y), "rows 36 to 39 of 40 are those of model.layers.0.mlp, of the row 8 before it");
}

/// What is computed again of the same is not what stood there.
#[test]
fn rows_that_are_near_another_layers() {
    let said = last_rows(&M2, 0, |y| y * 1.000_001);
    assert!(said.iter().all(|own| !own.contains("bit for bit: as of a buffer")), "{said:#?}");
}

/// What a network puts out is its experts' sum in M2: that rows of one are those of the other says nothing of how they came to be.
#[test]
fn rows_of_what_is_computed_of_them_alone() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut y = shown.of(1, LayerSite::Experts).clone();
        y.slice_mut(s![30.., ..]).mapv_inplace(|x| 0.3 - x * x);
        y
    };
    let m2 = Subject { shows: &[LayerSite::Experts], ..M2 };
    let said = m2.said_of(LayerSite::Experts, &port);
    assert!(said.iter().all(|own| !own.contains("are those of model.layers.1.mlp")), "{said:#?}");
}
