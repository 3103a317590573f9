//! Products whose weight has a matrix of low rank more, or that sum less than there is; rows in place of others.

use ndarray::{Array1, Array2, Axis, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};

use super::{M2, M2_BF16, Shown, has, narrowed};

fn weight(model: &Decoder<'_>, of: LayerWeight) -> Array2<f32> {
    model.weights().get(Weight::Layer(1, of)).expect("it is there").dense::<f32>()
}

#[test]
fn a_matrix_of_rank_1_is_added() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let (x, y) = (shown.of(1, LayerSite::InputNorm), shown.of(1, LayerSite::QProj));
        let column = |width: usize, by: f32| {
            let wave = (0..width).map(|i| (by * i as f32).sin());
            wave.collect::<Array1<f32>>().insert_axis(Axis(1))
        };
        let [a, b]: [Array2<f32>; 2] = [column(x.ncols(), 1.3), column(y.ncols(), 0.7)];
        y + &(0.05 * x.dot(&a).dot(&b.t()))
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "what is added to it lies in 1 of 40 directions: the weight has a matrix of rank 1 more");
}

#[test]
fn a_bias_is_added() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let y = shown.of(1, LayerSite::QProj);
        let bias: Array1<f32> = (0..y.ncols()).map(|j| 0.3 * (1.3 * j as f32).sin()).collect();
        y + &bias
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "every row has the same added to it: a bias that the model has not");
}

/// A kernel's loop ends with the last whole vector; the other rows go another way.
#[test]
fn input_channels_are_left_out() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (x, mut y) = (shown.of(1, LayerSite::InputNorm), shown.of(1, LayerSite::QProj).clone());
        let w = weight(model, LayerWeight::QProj);
        let (first, whole) = (y.nrows() - 3, x.ncols() - 8);
        let few = x.slice(s![first.., ..whole]).dot(&w.slice(s![.., ..whole]).t());
        y.slice_mut(s![first.., ..]).assign(&few);
        y
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "3 of 40 rows, 37, 38, 39, sum the first 88 of 96 input channels alone");
}

/// Integers of eight bits, the largest of each row 127.
#[test]
fn what_goes_in_is_quantized() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut x = shown.of(1, LayerSite::InputNorm).clone();
        for mut row in x.rows_mut() {
            let scale = row.fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
            row.mapv_inplace(|x| (x / scale).round_ties_even() * scale);
        }
        x.dot(&weight(model, LayerWeight::QProj).t())
    };
    has(&M2.said_of(LayerSite::QProj, &port), "what goes in is rounded to 8-bit integers by rows");
}

/// Two tokens a block: of an odd number the last is computed as the one before.
#[test]
fn a_row_has_the_values_of_another() {
    for (subject, of) in [(&M2, (|y| y) as fn(Array2<f32>) -> Array2<f32>), (&M2_BF16, narrowed)] {
        let port = |_: &Decoder<'_>, shown: &Shown| {
            let mut y = shown.of(1, LayerSite::PostAttentionNorm).clone();
            let before = y.row(y.nrows() - 2).to_owned();
            let last = y.nrows() - 1;
            y.row_mut(last).assign(&before);
            of(y)
        };
        let said = subject.said_of(LayerSite::PostAttentionNorm, &port);
        assert!(said.iter().any(|own| own.starts_with("rows have the values of others: ")), "{said:#?}");
    }
}
