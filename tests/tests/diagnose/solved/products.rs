//! Products whose weight has a matrix of low rank more.

use ndarray::{Array1, Array2, Axis};
use reference::LayerSite;
use reference::models::decoder::Decoder;

use super::{M2, Shown, has};

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
