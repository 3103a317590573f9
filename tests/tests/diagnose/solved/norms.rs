//! Norms whose weights are in another order, or whose squares are not all summed.

use half::bf16;
use ndarray::{Array1, Array2, ArrayView1, Axis, s};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Real, RoundingContract, Site};

use tools::diagnose::diagnosis::solved;

use super::{M2, M2_BF16, Shown, Subject, has, narrowed, number};

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

/// A vector kernel that leaves the channels out of the sum that fill no whole vector; what is normed is rounded before it is weighed.
fn without_tail(subject: &Subject, of: fn(Array2<f32>) -> Array2<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (x, config) = (shown.of(1, LayerSite::Residual), model.config());
        let w = model.weights().get(Weight::Layer(1, LayerWeight::PostAttentionNorm)).expect("it is there");
        let width = config.hidden_size;
        let squares = x.slice(s![.., ..width - 4]).mapv(|x| x * x).sum_axis(Axis(1));
        let r = squares.mapv(|sum| (sum / width as f32 + f32::of(config.rms_norm_eps)).sqrt().recip());
        of(of(x * &r.insert_axis(Axis(1))) * w.dense::<f32>().row(0))
    };
    subject.said_of(LayerSite::PostAttentionNorm, &port)
}

#[test]
fn a_norms_mean_square_without_its_tail() {
    has(&without_tail(&M2, |y| y), "the mean square has the first 92 of 96 channels, divided by 96");
}

#[test]
fn a_norms_mean_square_without_its_tail_in_bf16() {
    let said = without_tail(&M2_BF16, narrowed);
    has(&said, "the mean square has the first 124 of 128 channels, divided by 128");
    // Of a right run in bf16, its twin has at least 99 % at an operator whose inputs are shown.
    assert!(number(&said, "(reproduces ") > 99.0, "{said:#?}");
}

/// Two ranks have half of each row, and do not add their squares up.
#[test]
fn halves_that_have_a_mean_square_of_their_own() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let [y, x]: [&Array2<f32>; 2] =
            [LayerSite::PostAttentionNorm, LayerSite::Residual].map(|site| shown.of(1, site));
        let half = y.ncols() / 2;
        let mean = |row: usize, columns: std::ops::Range<usize>| {
            let own = x.slice(s![row, columns]);
            own.dot(&own) / own.len() as f32
        };
        Array2::from_shape_fn(y.dim(), |(row, column)| {
            let of_half = column / half * half..(column / half + 1) * half;
            y[[row, column]] * (mean(row, 0..2 * half) / mean(row, of_half)).sqrt()
        })
    };
    let said = M2.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "each of 2 groups of 48 channels has a mean square of its own, as where ranks do not add theirs up");
}

/// A port without the cast to f32 that the model has.
#[test]
fn a_norm_that_is_computed_in_bf16_throughout() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::PostAttentionNorm)).expect("it is there");
        let (w, x) = (w.dense::<f32>(), shown.of(1, LayerSite::Residual));
        let narrow = |value: f32| bf16::from_f32(value).to_f32();
        let mut y = Array2::zeros(x.dim());
        for (x, mut y) in x.rows().into_iter().zip(y.rows_mut()) {
            let mean = narrow(x.mapv(|x| narrow(x * x)).sum() / x.len() as f32);
            let r = narrow(narrow(mean + 1e-6).sqrt().recip());
            y.assign(&(x.mapv(|x| narrow(x * r)) * w.index_axis(Axis(0), 0)).mapv(narrow));
        }
        y
    };
    let said = M2_BF16.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "squares, their mean, its sum with ε, the reciprocal root and what is normed are rounded to bf16");
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

/// A norm of layer 1 by the reciprocal root of a row, and by what is multiplied with.
fn normed(
    (model, x, of): (&Decoder<'_>, &Array2<f32>, LayerWeight),
    root: impl Fn(ArrayView1<'_, f32>, f32) -> f32,
    weight: impl Fn(f32) -> f32,
) -> Array2<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "1e-6")]
    let eps = model.config().rms_norm_eps as f32;
    let w = model.weights().get(Weight::Layer(1, of)).expect("it is there").dense::<f32>();
    let roots: Array1<f32> = x.rows().into_iter().map(|row| root(row, eps)).collect();
    x * &roots.insert_axis(Axis(1)) * &w.row(0).mapv(weight)
}

fn narrow(x: f32) -> f32 {
    bf16::from_f32(x).to_f32()
}

fn right(row: ArrayView1<'_, f32>, eps: f32) -> f32 {
    1.0 / (row.dot(&row) / row.len() as f32 + eps).sqrt()
}

#[test]
fn a_norms_root_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = (model, shown.of(1, LayerSite::Residual), LayerWeight::PostAttentionNorm);
        normed(of, |row, eps| narrow(right(row, eps)), |w| w)
    };
    let said = Subject { shows: &[LayerSite::Residual], ..M2 }.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "the reciprocal root of the mean square is rounded to bf16");
}

/// The statistic of a kernel that adds in the activations' type.
#[test]
fn a_norms_squares_added_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = (model, shown.of(1, LayerSite::Residual), LayerWeight::PostAttentionNorm);
        let sum = |row: ArrayView1<'_, f32>| row.iter().fold(0.0, |sum, x| narrow(sum + narrow(x * x)));
        narrowed(normed(of, |row, eps| 1.0 / (sum(row) / row.len() as f32 + eps).sqrt(), |w| w))
    };
    let said = Subject { shows: &[LayerSite::Residual], ..M2_BF16 }.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "squares, and their sums of 128 in a row, are rounded to bf16");
}

/// The sum of 1 and a weight is kept in the weight's type.
#[test]
fn one_plus_a_norms_weight_in_bf16() {
    let m3 = Subject { case: "m3-sharded-bf16", contract: RoundingContract::EAGER_BF16, shows: &[] };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = (model, shown.of(0, LayerSite::Output), LayerWeight::InputNorm);
        narrowed(normed(of, right, |w| narrow(1.0 + w)))
    };
    let said = m3.said(&[(Site::Layer(1, LayerSite::InputNorm), &port)]);
    has(&said, "1 plus the norm's weight is rounded to bf16");
}

/// What the query norm reads is not shown.
#[test]
fn a_query_norms_root_in_bf16() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = (model, shown.of(1, LayerSite::QProj), LayerWeight::QNorm);
        normed(of, |row, eps| narrow(right(row, eps)), |w| w)
    };
    let hidden = |site| site == Site::Layer(1, LayerSite::QProj);
    let said = M2.hiding(hidden, &[(Site::Layer(1, LayerSite::QNorm), &port)], None, |comparison| {
        solved(comparison).expect("it can be put next to the reference")
    });
    has(&said, "the reciprocal root of the mean square is rounded to bf16");
}

#[test]
fn a_norms_variance_about_the_mean() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = (model, shown.of(1, LayerSite::Residual), LayerWeight::PostAttentionNorm);
        let variance = |row: ArrayView1<'_, f32>| {
            let (n, sum) = (row.len() as f32, row.sum());
            row.dot(&row) / n - (sum / n).powi(2)
        };
        normed(of, |row, eps| 1.0 / (variance(row) + eps).sqrt(), |w| w)
    };
    let said = M2.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "the variance about the row's mean stands for the mean square");
}

/// What is said of the norm behind attention that divides rows by `of` their values, less their mean or not.
fn divided(of: impl Fn(ArrayView1<'_, f32>, f32) -> f32, is_centred: bool) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut x = shown.of(1, LayerSite::Residual).clone();
        if is_centred {
            let means = x.mean_axis(Axis(1)).expect("there are channels");
            x -= &means.insert_axis(Axis(1));
        }
        normed((model, &x, LayerWeight::PostAttentionNorm), |row, eps| 1.0 / of(row, eps), |w| w)
    };
    M2.said_of(LayerSite::PostAttentionNorm, &port)
}

fn mean_square(row: ArrayView1<'_, f32>) -> f32 {
    row.dot(&row) / row.len() as f32
}

#[test]
fn a_norm_that_adds_outside_of_the_root() {
    let said = divided(|row, _| mean_square(row).sqrt() + 0.01, false);
    has(&said, "rows are divided by the root of the mean square and 1.00e-2 more, outside of any root");
}

#[test]
fn a_norm_by_the_mean_size() {
    let said = divided(|row, _| row.iter().map(|x| x.abs()).sum::<f32>() / row.len() as f32 + 1e-3, false);
    has(&said, "rows are divided by the mean size and 1.00e-3 more, outside of any root");
}

#[test]
fn a_norm_of_rows_less_their_mean() {
    let said = divided(|row, eps| (mean_square(row) + eps).sqrt(), true);
    has(&said, "rows are divided, less their mean, by the root of the mean square");
}

#[test]
fn a_norm_of_rows_that_are_summed() {
    let said = divided(|row, eps| (row.dot(&row) + eps).sqrt(), false);
    has(&said, "the mean square has all 96 channels, divided by 1");
}

#[test]
fn a_norm_without_its_weight() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        normed((model, shown.of(1, LayerSite::Residual), LayerWeight::PostAttentionNorm), right, |_| 1.0)
    };
    let said = M2.said_of(LayerSite::PostAttentionNorm, &port);
    has(&said, "the weight is left out: every channel has the same");
}

/// The same of both layers' is said once.
#[test]
fn norms_of_all_layers() {
    let of = |layer: usize| {
        move |_: &Decoder<'_>, shown: &Shown| shown.of(layer, LayerSite::PostAttentionNorm) * (95.0_f32 / 96.0).sqrt()
    };
    let ports = [of(0), of(1)];
    let site = |layer| Site::Layer(layer, LayerSite::PostAttentionNorm);
    let said = M2.said(&[(site(0), &ports[0]), (site(1), &ports[1])]);
    has(&said, "the mean square has all 96 channels, divided by 95");
    has(&said, "the same is so of model.layers.1.post_attention_layernorm");
}
