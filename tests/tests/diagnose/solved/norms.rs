//! Norms whose weights are in another order, or whose squares are not all summed.

use ndarray::{Array1, Array2, Axis, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};

use super::{M2, Shown, has};

/// The weight of a norm is stored by channels of heads, and read by heads.
#[test]
fn a_norms_weight_transposed() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::QNorm)).expect("it is there").dense::<f32>();
        let w = w.index_axis(Axis(0), 0).to_owned();
        let heads = model.config().num_attention_heads;
        let columns = w.len() / heads;
        let read: Array1<f32> = (0..w.len()).map(|i| w[i % heads * columns + i / heads]).collect();
        shown.of(1, LayerSite::QNorm) * &(&read / &w)
    };
    let said = M2.said_of(LayerSite::QNorm, &port);
    // Of 6 heads of 16 channels.
    has(&said, "the weight is read as [6, 16] transposed");
}

/// A vector kernel that leaves the channels out of the sum that fill no whole vector.
#[test]
fn a_norms_mean_square_without_its_tail() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let [y, x]: [&Array2<f32>; 2] =
            [LayerSite::PostAttentionNorm, LayerSite::Residual].map(|site| shown.of(1, site));
        let width = model.config().hidden_size;
        let squares = |columns| x.slice(s![.., ..columns]).mapv(|x| x * x).sum_axis(Axis(1));
        let times = (squares(width) / squares(width - 4)).mapv(f32::sqrt);
        y * &times.insert_axis(Axis(1))
    };
    let said = M2.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "the mean square has the first 92 of 96 channels, divided by 96");
}
