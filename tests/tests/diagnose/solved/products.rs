//! Products whose weight has a matrix of low rank more, or that sum less than there is; rows in place of others.

use ndarray::{Array1, Array2, Axis, s};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{LayerSite, RoundingContract, Site};

use super::{M2, M2_BF16, Shown, Subject, has, narrowed};

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

/// Two parts of a tile of outputs both add the channels between them.
#[test]
fn input_channels_count_twice_in_some_outputs() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (x, mut y) = (shown.of(1, LayerSite::InputNorm), shown.of(1, LayerSite::QProj).clone());
        let w = weight(model, LayerWeight::QProj);
        let more = x.slice(s![.., 24..48]).dot(&w.slice(s![16..48, 24..48]).t());
        let mut tile = y.slice_mut(s![.., 16..48]);
        tile += &more;
        y
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "all rows sum twice input channels 24 to 47 of 96, in channels 16 to 47 of 96");
}

/// A buffer that layers share is not written yet.
#[test]
fn what_goes_in_is_another_layers() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        shown.of(0, LayerSite::InputNorm).dot(&weight(model, LayerWeight::QProj).t())
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "all rows read model.layers.0.input_layernorm in the place of model.layers.1.input_layernorm");
}

/// Integers of eight bits, the largest 127.
fn quantize<'a>(values: impl IntoIterator<Item = &'a mut f32>) {
    let values: Vec<&mut f32> = values.into_iter().collect();
    let scale = values.iter().fold(0.0_f32, |most, x| most.max(x.abs())) / 127.0;
    for x in values {
        *x = (*x / scale).round_ties_even() * scale;
    }
}

/// The same of each row.
fn by_rows(mut values: Array2<f32>) -> Array2<f32> {
    values.rows_mut().into_iter().for_each(quantize);
    values
}

#[test]
fn what_comes_out_is_quantized() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut y = shown.of(1, LayerSite::VProj).clone();
        quantize(&mut y);
        y
    };
    has(&M2.said_of(LayerSite::VProj, &port), "its values are rounded to 8-bit integers with one scale");
}

/// A cast to bf16 that was left before the head.
#[test]
fn operands_and_product_are_narrow() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = model.weights().get(Weight::LmHead).expect("it is there").dense::<f32>();
        narrowed(narrowed(shown.values[&Site::FinalNorm].clone()).dot(&narrowed(w).t()))
    };
    let said = M2.said(&[(Site::LmHead, &port)]);
    has(&said, "what goes in and the weight are rounded to bf16, and the product to bf16");
}

/// What the last product of a dense network reads is no site of its own.
#[test]
fn an_activation_is_quantized() {
    let shows = &[LayerSite::DenseGateUp, LayerSite::DenseDown];
    let m3 = Subject { case: "m3-gqa4-f32", contract: RoundingContract::EAGER_F32, shows };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let both = shown.of(0, LayerSite::DenseGateUp);
        let (gate, up) = both.view().split_at(Axis(1), both.ncols() / 2);
        let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
        let hidden = gate.mapv(|g| g.min(7.0) * sigmoid(1.702 * g.min(7.0))) * up.mapv(|u| u.clamp(-7.0, 7.0) + 1.0);
        let w = model.weights().get(Weight::Layer(0, LayerWeight::Dense(Projection::Down))).expect("it is there");
        by_rows(hidden).dot(&w.dense::<f32>().t())
    };
    let said = m3.said(&[(Site::Layer(0, LayerSite::DenseDown), &port)]);
    has(&said, "the dense network rounds its activation to 8-bit integers by rows");
}

#[test]
fn what_goes_in_is_quantized() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        by_rows(shown.of(1, LayerSite::InputNorm).clone()).dot(&weight(model, LayerWeight::QProj).t())
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

/// The rows' scales of a quantized weight, of which each row has that of the row before.
#[test]
fn rows_with_the_scale_of_the_row_before() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = weight(model, LayerWeight::QProj);
        let largest: Vec<f32> =
            w.rows().into_iter().map(|row| row.fold(0.0, |most: f32, w| most.max(w.abs()))).collect();
        let times = |k: usize| largest[(k + largest.len() - 1) % largest.len()] / largest[k];
        shown.of(1, LayerSite::QProj) * &(0..largest.len()).map(times).collect::<Array1<f32>>()
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "rows of the weight count by factors of their own, ");
    assert!(said[0].contains("each has the scale of the row 1 before it"), "{said:#?}");
}

/// The blocks' scales of another tensor.
#[test]
fn blocks_with_other_scales() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let (x, w) = (shown.of(1, LayerSite::InputNorm), weight(model, LayerWeight::QProj));
        let times = |(k, j): (usize, usize)| 1.0 + 0.4 * ((7 * (k / 32) + 3 * (j / 32) + 1) as f32).sin();
        x.dot(&(&w * &Array2::from_shape_fn(w.dim(), times)).t())
    };
    let said = M2.said_of(LayerSite::QProj, &port);
    has(&said, "blocks of 32 input channels of the weight count by factors of their own, ");
}

/// A residual that is added before the ranks' sum, and again behind it.
#[test]
fn a_residual_beside_an_output() {
    let port = |_: &Decoder<'_>, shown: &Shown| shown.of(1, LayerSite::Attention) + shown.of(0, LayerSite::Output);
    let said = M2.said_of(LayerSite::Attention, &port);
    has(&said, "beside the right values, ");
    assert!(said[0].contains("is added 1.0000 times"), "{said:#?}");
}
