//! Norms of what is not shown: applied twice, or to a projection that has a bias.

use ndarray::{Array1, Array2, s};
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site};
use tools::diagnose::diagnosis::solved;

use super::{M2, Shown, Subject, has};

/// M3, whose heads have norms of their own, by 1 + w.
const M3: Subject = Subject { case: "m3-gqa4-f32", contract: RoundingContract::EAGER_F32, shows: &[LayerSite::KNorm] };

/// What is said of a norm of queries or keys in layer 1, by what `of` makes of the projection, or of the norm's output, and of what
/// norms; the projections are hidden.
fn said(subject: &Subject, at: LayerSite, of: &Port<'_>) -> Vec<String> {
    let (read, weight) = match at {
        LayerSite::QNorm => (LayerSite::QProj, LayerWeight::QNorm),
        _ => (LayerSite::KProj, LayerWeight::KNorm),
    };
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let mut w =
            model.weights().get(Weight::Layer(1, weight)).expect("it is there").dense::<f32>().row(0).to_owned();
        if model.config().index.is_some() {
            w += 1.0;
        }
        of([shown.of(1, read), shown.of(1, at)], &|x| normed(x, &w))
    };
    let hidden =
        |site| [LayerSite::QProj, LayerSite::KProj, LayerSite::VProj].map(|of| Site::Layer(1, of)).contains(&site);
    subject.hiding(hidden, &[(Site::Layer(1, at), &port)], None, |comparison| {
        solved(comparison).expect("it can be put next to the reference")
    })
}

type Norm<'a> = dyn Fn(&Array2<f32>) -> Array2<f32> + 'a;

/// What is made of the projection, and of the norm's output, by norms.
type Port<'a> = dyn Fn([&Array2<f32>; 2], &Norm<'_>) -> Array2<f32> + 'a;

/// The norm of as many channels as it has weights.
fn normed(x: &Array2<f32>, w: &Array1<f32>) -> Array2<f32> {
    let mut y = x.clone();
    for mut row in y.rows_mut() {
        for first in (0..row.len()).step_by(w.len()) {
            let mut own = row.slice_mut(s![first..first + w.len()]);
            let root = (own.dot(&own) / w.len() as f32 + 1e-6).sqrt();
            own.zip_mut_with(w, |y, w| *y = *y / root * w);
        }
    }
    y
}

const TWICE: &str = "the norm is applied twice";

#[test]
fn twice() {
    has(&said(&M2, LayerSite::QNorm, &|[_, y], norm| norm(y)), TWICE);
    has(&said(&M3, LayerSite::KNorm, &|[_, y], norm| norm(y)), TWICE);
}

/// What is multiplied by the weight again is not normed again.
#[test]
fn its_weight_alone_twice() {
    let said = said(&M2, LayerSite::QNorm, &|[_, y], norm| {
        let size = |y: &Array2<f32>| y.mapv(|y| y * y).sum();
        let again = norm(y);
        &again * (2.0 * size(y) / size(&again)).sqrt()
    });
    assert!(said.iter().all(|own| !own.starts_with(TWICE)), "{said:#?}");
}

const BIAS: &str = "before the norm, every row has the same added to it: a bias that the model has not";

/// The same in every row.
fn biased(x: &Array2<f32>) -> Array2<f32> {
    x + &(0..x.ncols()).map(|j| 0.3 * (1.3 * j as f32).sin()).collect::<Array1<f32>>()
}

#[test]
fn a_projection_that_has_a_bias() {
    has(&said(&M2, LayerSite::QNorm, &|[x, _], norm| norm(&biased(x))), BIAS);
}

#[test]
fn a_projection_that_has_a_bias_before_norms_of_heads() {
    has(&said(&M3, LayerSite::KNorm, &|[x, _], norm| norm(&biased(x))), BIAS);
}

/// What is added to each row otherwise is no bias.
#[test]
fn a_projection_to_which_more_is_added_in_later_rows() {
    let said = said(&M2, LayerSite::QNorm, &|[x, _], norm| {
        let mut own = biased(x);
        for (i, mut row) in own.rows_mut().into_iter().enumerate() {
            row[3] += 0.1 * i as f32;
        }
        norm(&own)
    });
    assert!(said.iter().all(|own| !own.starts_with(BIAS)), "{said:#?}");
}
