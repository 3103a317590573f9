//! Norms whose weights are in another order, or whose squares are not all summed.

use ndarray::{Array1, Array2, Axis, s};
use reference::LayerSite;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};

use super::{M2, M2_BF16, Shown, Subject, has, narrowed};

/// The weight of a norm is stored by channels of heads, and read by heads.
fn transposed(subject: &Subject, of: fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::QNorm)).expect("it is there").dense::<f32>();
        let w = w.index_axis(Axis(0), 0).to_owned();
        let heads = model.config().num_attention_heads;
        let columns = w.len() / heads;
        let read: Array1<f32> = (0..w.len()).map(|i| w[i % heads * columns + i / heads]).collect();
        of(shown.of(1, LayerSite::QNorm) * &(&read / &w))
    };
    subject.said_of(LayerSite::QNorm, &port)
}

/// Of 6 heads of 16 channels.
#[test]
fn a_norms_weight_transposed() {
    has(&transposed(&M2, |y| y), "the weight is read as [6, 16] transposed");
}

/// Of 8 heads; all weights are near 1, and bf16's roundings far from telling one channel's from another's in one token.
#[test]
fn a_norms_weight_transposed_in_bf16() {
    has(&transposed(&M2_BF16, narrowed), "the weight is read as [8, 16] transposed");
}

/// A vector kernel that leaves the channels out of the sum that fill no whole vector.
fn without_tail(subject: &Subject, of: fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let [y, x]: [&Array2<f32>; 2] =
            [LayerSite::PostAttentionNorm, LayerSite::Residual].map(|site| shown.of(1, site));
        let width = model.config().hidden_size;
        let squares = |columns| x.slice(s![.., ..columns]).mapv(|x| x * x).sum_axis(Axis(1));
        let times = (squares(width) / squares(width - 4)).mapv(f32::sqrt);
        of(y * &times.insert_axis(Axis(1)))
    };
    subject.said_of(LayerSite::PostAttentionNorm, &port)
}

#[test]
fn a_norms_mean_square_without_its_tail() {
    has(&without_tail(&M2, |y| y), "the mean square has the first 92 of 96 channels, divided by 96");
}

#[test]
fn a_norms_mean_square_without_its_tail_in_bf16() {
    has(&without_tail(&M2_BF16, narrowed), "the mean square has the first 124 of 128 channels, divided by 128");
}

/// Rows are padded to whole tiles, of whose channels the mean is taken.
#[test]
fn a_norms_mean_of_padded_rows() {
    const PADDED: f32 = 112.0;
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let y = shown.of(1, LayerSite::PostAttentionNorm);
        y * (PADDED / model.config().hidden_size as f32).sqrt()
    };
    let said = M2.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "the mean square has all 96 channels, divided by 112");
}
