//! The vision tower: norms, attention, rotation, pixels, and where features are put.

use ndarray::{Array1, Array2, ArrayView1, Axis, s};
use reference::grid::Grid;
use reference::models::decoder::Decoder;
use reference::site::{VisionLayerSite, VisionSite};
use reference::weights::{Part, Stage, VisionLayerWeight, VisionWeight, Weight};
use reference::{Real, RoundingContract, Site};

use super::{Port, Shown, Subject, has, number};

/// The tower in f32, of two images of different grids.
const TOWER: Subject = Subject { case: "vision-images-f32", contract: RoundingContract::EAGER_F32, shows: &[] };

const fn at(layer: usize, site: VisionLayerSite) -> Site {
    Site::Vision(0, VisionSite::Layer(layer, site))
}

fn weight(model: &Decoder<'_>, of: VisionWeight) -> Array2<f32> {
    model.weights().get(Weight::Vision(of)).expect("it is there").dense()
}

/// What is said of a first norm in layer 1 that makes this of a row, before weight and bias.
fn said_of_norm(normed: impl Fn(ArrayView1<'_, f32>) -> Array1<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = |part| weight(model, VisionWeight::Layer(1, VisionLayerWeight::Norm1, part));
        let (w, b) = (of(Part::Weight), of(Part::Bias));
        let x = &shown.values[&at(0, VisionLayerSite::Output)];
        let mut y = Array2::zeros(x.dim());
        for (x, mut y) in x.rows().into_iter().zip(y.rows_mut()) {
            y.assign(&(normed(x) * w.index_axis(Axis(0), 0) + b.index_axis(Axis(0), 0)));
        }
        y
    };
    TOWER.said(&[(at(1, VisionLayerSite::Norm1), &port)])
}

/// ε of the case.
const EPS: f32 = 1e-5;

fn variance(x: ArrayView1<'_, f32>) -> f32 {
    let mean = x.sum() / x.len() as f32;
    x.mapv(|x| (x - mean) * (x - mean)).sum() / x.len() as f32
}

#[test]
fn a_mean_that_is_not_taken_off() {
    let said = said_of_norm(|x| &x / (variance(x) + EPS).sqrt());
    has(&said, "the mean is not taken off");
}

/// A vector kernel that leaves out the channels that fill no whole vector, of 40.
#[test]
fn a_variance_without_its_tail() {
    let said = said_of_norm(|x| {
        let mean = x.sum() / x.len() as f32;
        x.mapv(|x| x - mean) / (variance(x.slice(s![..37])) + EPS).sqrt()
    });
    has(&said, "the variance is that of the first 37 channels");
}

/// The weight of each channel is the next one's, of 40.
#[test]
fn a_norms_weight_one_channel_off() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = |part| weight(model, VisionWeight::Layer(1, VisionLayerWeight::Norm1, part)).remove_axis(Axis(0));
        let (w, b) = (of(Part::Weight), of(Part::Bias));
        let next: Array1<f32> = (0..w.len()).map(|i| w[(i + 1) % w.len()]).collect();
        (&shown.values[&at(1, VisionLayerSite::Norm1)] - &b) / &w * &next + &b
    };
    let said = TOWER.said(&[(at(1, VisionLayerSite::Norm1), &port)]);
    has(&said, "its weight is that of the channel 1 behind, modulo 40");
}

/// What is said of attention in layer 1 whose patches see those that `sees` says, of 24 of one image and 32 of another.
fn said_of_attention(sees: impl Fn(usize, usize) -> bool) -> Vec<String> {
    said_of_scores(|(_, i, j), score| sees(i, j).then_some(score))
}

/// The same whose scores of a head, a patch and one that it sees are these instead; none where it does not see it.
fn said_of_scores(score: impl Fn((usize, usize, usize), f32) -> Option<f32>) -> Vec<String> {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let vision = model.config().vision.as_ref().expect("it has one");
        let [q, k, v] = [VisionLayerSite::QRope, VisionLayerSite::KRope, VisionLayerSite::VProj]
            .map(|site| &shown.values[&at(1, site)]);
        let (heads, d) = (vision.num_attention_heads, vision.head_dim());
        let mut o = Array2::zeros(q.dim());
        for (head, i) in (0..heads).flat_map(|head| (0..q.nrows()).map(move |i| (head, i))) {
            let own = head * d..(head + 1) * d;
            let weight = |j: usize| {
                let product = q.slice(s![i, own.clone()]).dot(&k.slice(s![j, own.clone()]));
                score((head, i, j), product / (d as f32).sqrt()).map_or(0.0, f32::exp)
            };
            let weights: Array1<f32> = (0..k.nrows()).map(weight).collect();
            let mean = weights.dot(&v.slice(s![.., own.clone()])) / weights.sum();
            o.slice_mut(s![i, own]).assign(&mean);
        }
        o
    };
    TOWER.said(&[(at(1, VisionLayerSite::Context), &port)])
}

/// The first image's patches: 6 tokens of 4.
const FIRST: usize = 24;

fn is_same_image(i: usize, j: usize) -> bool {
    (i < FIRST) == (j < FIRST)
}

#[test]
fn a_patch_that_is_not_seen() {
    let said = said_of_attention(|i, j| is_same_image(i, j) && j != 5);
    has(&said, "attention does not see key 5: all tokens that are off");
}

/// In both images, whose patches see no key in common.
#[test]
fn scores_of_one_head_are_larger() {
    let scale = |head: usize| if head == 1 { 1.01 } else { 1.0 };
    let said = said_of_scores(|(head, i, j), score| is_same_image(i, j).then_some(scale(head) * score));
    has(&said, "attention reads the keys of its key heads 1.0000, 1.0100");
}

#[test]
fn a_window_in_the_tower() {
    let said = said_of_attention(|i, j| is_same_image(i, j) && i.abs_diff(j) <= 6);
    has(&said, "attention sees the keys from the key 6 before the token to the key 6 behind the token alone: ");
}

/// What is said of a table of these angles, of patches at a place of an axis by a frequency.
fn said_of_table(angle: impl Fn(usize, usize, f32) -> f32) -> Vec<String> {
    let grids = [Grid { t: 1, h: 4, w: 6 }, Grid { t: 1, h: 8, w: 4 }];
    let places: Vec<[usize; 3]> = grids.iter().flat_map(|grid| grid.coordinates(2)).collect();
    let of = |shown: &Shown, function: fn(f32) -> f32| {
        let dim = shown.values[&Site::Vision(0, VisionSite::RopeCos)].dim();
        let each = dim.1 / 2 / 3;
        Array2::from_shape_fn(dim, |(i, j)| {
            let column = j % (dim.1 / 2);
            let frequency = f32::of(1e4_f64.powf(-((column % each) as f64) / each as f64));
            function(angle(column / each, places[i][column / each], frequency))
        })
    };
    let cos = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::cos);
    let sin = |_: &Decoder<'_>, shown: &Shown| of(shown, f32::sin);
    let ports: [(Site, &Port<'_>); 2] =
        [(Site::Vision(0, VisionSite::RopeCos), &cos), (Site::Vision(0, VisionSite::RopeSin), &sin)];
    TOWER.said(&ports)
}

#[test]
fn heights_that_count_from_one() {
    let said = said_of_table(|axis, place, frequency| (place + usize::from(axis == 1)) as f32 * frequency);
    has(&said, "of heights, places are counted from 1.0000");
}

#[test]
fn widths_that_are_halved() {
    let said = said_of_table(|axis, place, f| place as f32 * if axis == 2 { 0.5 * f } else { f });
    has(&said, "of widths, every frequency is 0.500000 times the right one");
}

/// θ of heights is 2,000, and 10,000 of the other axes.
#[test]
fn heights_of_another_theta() {
    let said = said_of_table(|axis, place, f| {
        place as f32 * if axis == 1 { f.powf(2_000_f32.ln() / 10_000_f32.ln()) } else { f }
    });
    has(&said, "of heights, each frequency is exp(");
    let (own, right) = (number(&said, "each frequency is exp("), number(&said, "where exp("));
    // Of three pairs of channels.
    assert!((own + 2_000_f64.ln() / 3.0).abs() < 1e-4, "{said:#?}");
    assert!((right + 1e4_f64.ln() / 3.0).abs() < 1e-4, "{said:#?}");
}

/// What is said of pixels that were made so of levels from 0 to 255, by colour.
fn said_of_pixels(made: impl Fn(f32, usize) -> f32) -> Vec<String> {
    let (mean, deviation) = ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_6, 0.275_777_1]);
    let port = |model: &Decoder<'_>, _: &Shown| {
        let (_, pixels) = model.media().expect("it shows images").passes().next().expect("one");
        let each = pixels.values.ncols() / 3;
        let level = |x: f32, c: usize| 255.0 * (x * deviation[c] + mean[c]);
        let x =
            Array2::from_shape_fn(pixels.values.dim(), |at| made(level(pixels.values[at], at.1 / each), at.1 / each));
        x.dot(&weight(model, VisionWeight::Patches).t())
    };
    TOWER.said(&[(Site::Vision(0, VisionSite::Embeddings), &port)])
}

#[test]
fn levels_divided_by_256() {
    let (mean, deviation) = ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_6, 0.275_777_1]);
    let said = said_of_pixels(|level, colour| (level / 256.0 - mean[colour]) / deviation[colour]);
    has(&said, "pixels are made otherwise: levels are divided by 256");
}

#[test]
fn means_and_deviations_in_another_order() {
    let (mean, deviation) = ([0.408_210_73, 0.457_827_5, 0.481_454_66], [0.275_777_1, 0.261_302_6, 0.268_629_54]);
    let said = said_of_pixels(|level, colour| (level / 255.0 - mean[colour]) / deviation[colour]);
    has(
        &said,
        "pixels are made otherwise: levels are divided by 255, with means and deviations in the order of blue, green, red",
    );
}

/// What is said of embeddings with features among them: `put` makes a place's row of its token's embedding, its number, and all
/// features.
fn said_of_features(put: impl Fn(ArrayView1<'_, f32>, usize, &Array2<f32>) -> Array1<f32>) -> Vec<String> {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let (e, features) = (&shown.values[&Site::Embedding], &shown.values[&Site::Vision(0, VisionSite::Features)]);
        let right = &shown.values[&Site::InputsEmbeds];
        let mut x = e.clone();
        let places = (0..x.nrows()).filter(|row| right.row(*row) != e.row(*row)).collect::<Vec<_>>();
        for (number, row) in places.into_iter().enumerate() {
            x.row_mut(row).assign(&put(e.row(row), number, features));
        }
        x
    };
    TOWER.said(&[(Site::InputsEmbeds, &port)])
}

#[test]
fn features_that_are_added() {
    let said = said_of_features(|e, number, features| &e + &features.row(number));
    has(
        &said,
        "14 of 14 places of images and videos, at tokens 2, 3, 4, 5, …: each has its feature added to the embedding",
    );
}

#[test]
fn features_that_are_left_out() {
    let said = said_of_features(|e, number, features| if number < 4 { e } else { features.row(number) }.to_owned());
    has(
        &said,
        "4 of 14 places of images and videos, at tokens 2, 3, 4, 5: each has the embedding of its token, and no feature",
    );
}

#[test]
fn features_that_are_one_row_off() {
    let said = said_of_features(|_, number, features| features.row((number + 1).min(features.nrows() - 1)).to_owned());
    has(&said, "13 of 14 places of images and videos, at tokens 2, 3, 4, 5, …: each has the feature 1 behind its own");
}

#[test]
fn an_activation_that_is_another_function() {
    let port = |_: &Decoder<'_>, shown: &Shown| {
        shown.values[&at(1, VisionLayerSite::Fc1)].mapv(|x| x / (1.0 + (-1.6 * x).exp()))
    };
    let said = TOWER.said(&[(at(1, VisionLayerSite::Activation), &port)]);
    has(&said, "each value is another function of its argument than GELU: ");
}

#[test]
fn some_features_twice_as_large() {
    let features = Site::Vision(0, VisionSite::Features);
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let mut f = shown.values[&features].clone();
        f.slice_mut(s![3..6, ..]).mapv_inplace(|x| 2.0 * x);
        f
    };
    has(&TOWER.said(&[(features, &port)]), "3 of 14 rows are multiples of the right ones, 2.0000 times: 3, 4, 5");
}

#[test]
fn features_of_unit_length() {
    let features = Site::Vision(0, VisionSite::Features);
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let f = &shown.values[&features];
        f / f.mapv(|x| x * x).sum_axis(Axis(1)).mapv(f32::sqrt).insert_axis(Axis(1))
    };
    has(&TOWER.said(&[(features, &port)]), "every row is scaled to a length of 1.0000");
}

/// As `vision_feature_layer` = −2 says, of three layers.
#[test]
fn a_projector_of_the_layer_before_the_last() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = |part| weight(model, VisionWeight::Projector(Stage::Linear1, part));
        shown.values[&at(1, VisionLayerSite::Output)].dot(&of(Part::Weight).t()) + of(Part::Bias).index_axis(Axis(0), 0)
    };
    let said = TOWER.said(&[(Site::Vision(0, VisionSite::Linear1), &port)]);
    has(&said, "the projector reads the output of layer 1, not of layer 2");
}

/// A kernel's loop ends with the last whole vector.
#[test]
fn a_product_of_the_tower_leaves_out_channels() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let of = |part| weight(model, VisionWeight::Layer(1, VisionLayerWeight::Fc1, part));
        let x = &shown.values[&at(1, VisionLayerSite::Norm2)];
        let columns = s![.., ..x.ncols() - 8];
        x.slice(columns).dot(&of(Part::Weight).slice(columns).t()) + of(Part::Bias).row(0)
    };
    let said = TOWER.said(&[(at(1, VisionLayerSite::Fc1), &port)]);
    has(&said, "all rows sum the first 32 of 40 input channels alone");
}

/// The rows of a tile that is not full go past the activation.
#[test]
fn rows_without_an_activation() {
    let at = |site| Site::Vision(0, site);
    let port = |_: &Decoder<'_>, shown: &Shown| {
        let (x, mut y) =
            (&shown.values[&at(VisionSite::MergeLinear1)], shown.values[&at(VisionSite::MergeActivation)].clone());
        let rest = s![x.nrows() - 2.., ..];
        y.slice_mut(rest).assign(&x.slice(rest));
        y
    };
    let said = TOWER.said(&[(at(VisionSite::MergeActivation), &port)]);
    has(&said, "in 2 of 14 rows, 12, 13 each value is the argument itself");
}

/// Patches of two images that follow each other row by row.
#[test]
fn patches_in_the_order_of_rows() {
    let setting = tests::mistaken::Setting::of(TOWER.case, TOWER.contract);
    let media = super::shown(&setting.case).expect("it has images");
    let side =
        setting.case.checkpoint().expect("it is whole").config().vision.as_ref().expect("a tower").spatial_merge_size;
    let (_, pixels) = media.passes().next().expect("one pass");
    let mut order = Vec::new();
    for grid in &pixels.grids {
        let first = order.len();
        let mut places: Vec<([usize; 3], usize)> =
            grid.coordinates(side).enumerate().map(|(place, at)| (at, first + place)).collect();
        places.sort_unstable();
        order.extend(places.into_iter().map(|(_, place)| place));
    }
    let of = Site::Vision(0, VisionSite::Embeddings);
    let port = |_: &Decoder<'_>, shown: &Shown| shown.values[&of].select(Axis(0), &order);
    let said = TOWER.said(&[(of, &port)]);
    let sentence = "patches follow each other row by row of an image, and not by the squares that are merged";
    assert!(said.iter().any(|own| own.contains(sentence)), "{said:#?}");
}
