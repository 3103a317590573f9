//! What a product sums: other channels than there are, or operands of fewer bits.
//!
//! ```text
//! y = W·x + b        of an output that is off, in some rows and channels; what W and x are in its place is solved for
//! ```
//!
//! with y \[n, m\] the candidate's values in all steps, x \[n, d\] what goes in, the weight W \[m, d\], and of the tower a bias
//! b \[m\]. [`channels`] has those
//! that are summed other than once, [`factors`] parts that count by factors of their own, [`bits`] what operands are rounded
//! to, [`input`] the tensor that is read.

mod bits;
mod channels;
mod factors;
mod input;

use ndarray::{Array1, Array2, Axis, concatenate};
use reference::site::{VisionLayerSite, VisionSite};
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{Error, LayerSite, Site};

use super::solution::Solution;
use crate::diagnose::search::{Bench, activated, tower};
use crate::failure::Failure;
use crate::judge::way;

/// Rows by which ways are told apart before they are held to all.
const SOME: usize = 4;

/// Elements of a product, over all channels of [`SOME`] rows, that are looked through.
const MOST: usize = 1 << 28;

/// A product with what goes into it.
struct Product<'a, 'b, 'c> {
    bench: &'a Bench<'b, 'c>,
    x: Array2<f64>,
    w: Array2<f64>,
    b: Array1<f64>,
    /// Rows that are off.
    off: Vec<usize>,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let site = named(bench.site);
    let (weights, bias) = tensors(site, bench);
    let [input] = way::inputs(site)[..] else { return Ok(None) };
    let off: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    if weights.is_empty() || off.is_empty() {
        return Ok(None);
    }
    // What is not shown is computed, and stored as the candidate stores it.
    let x = match bench.rerun(&[], bench.contract(), &[input])?.beside.remove(&input) {
        Some(x) => Some(x),
        None => bench.shown_in_all_steps(input)?,
    };
    let Some(x) = x else { return Ok(None) };
    let x = activated::of(bench, site, x)?;
    let (w, b) = bench.with_model(|model| {
        let dense = |of: &Weight| Ok(model.weights().get(*of).map_err(Error::from)?.dense::<f64>());
        let tensors: Vec<Array2<f64>> = weights.iter().map(dense).collect::<Result<_, Failure>>()?;
        let views: Vec<_> = tensors.iter().map(|own| own.view()).collect();
        let w = concatenate(Axis(0), &views).expect("they read the same channels");
        let b = bias.as_ref().map(dense).transpose()?.map(|b| b.into_iter().collect());
        let none = Array1::zeros(w.nrows());
        Ok((w, b.unwrap_or(none)))
    })?;
    let fits = (x.nrows(), w.dim()) == (bench.candidate.nrows(), (bench.candidate.ncols(), x.ncols()));
    if !fits || w.len() * SOME > MOST {
        return Ok(None);
    }
    let product = Product { bench, x, w, b, off };
    let found = product.of_some_channels().or_else(|| product.of_counted_channels());
    match found.or_else(|| product.of_fewer_bits()) {
        Some(found) => Ok(Some(found)),
        None => Ok(product.of_another_input(input)?.or_else(|| product.of_factors())),
    }
}

/// A product under its own name, where it is shown under that of what it is the last step of.
fn named(site: Site) -> Site {
    use VisionLayerSite as At;
    match site {
        Site::Logits => Site::LmHead,
        Site::Layer(layer, LayerSite::Attention) => Site::Layer(layer, LayerSite::OProj),
        Site::Vision(pass, VisionSite::Features) => Site::Vision(pass, VisionSite::MergeLinear2),
        Site::Vision(pass, VisionSite::Layer(layer, At::Attention)) => {
            Site::Vision(pass, VisionSite::Layer(layer, At::OutProj))
        }
        Site::Vision(pass, VisionSite::Layer(layer, At::Mlp)) => Site::Vision(pass, VisionSite::Layer(layer, At::Fc2)),
        site => site,
    }
}

/// The weights, one below the other, of a product that is a site of its own, and its bias.
fn tensors(site: Site, bench: &Bench<'_, '_>) -> (Vec<Weight>, Option<Weight>) {
    use LayerWeight as L;
    use Projection::{Down, Gate, Up};
    let (layer, site) = match site {
        Site::Layer(layer, site) => (layer, site),
        Site::Vision(_, site) => {
            let both = tower::of_product(site).map(|both| both.map(Weight::Vision));
            return both.map_or_else(Default::default, |[weight, bias]| (vec![weight], Some(bias)));
        }
        Site::LmHead if bench.config().tie_word_embeddings => return (vec![Weight::Embedding], None),
        Site::LmHead => return (vec![Weight::LmHead], None),
        _ => return Default::default(),
    };
    let of: &[LayerWeight] = match site {
        LayerSite::QProj => &[L::QProj],
        LayerSite::KProj => &[L::KProj],
        LayerSite::VProj => &[L::VProj],
        LayerSite::OProj => &[L::OProj],
        LayerSite::IndexQProj => &[L::IndexQProj],
        LayerSite::IndexKProj => &[L::IndexKProj],
        LayerSite::GateLogits => &[L::Gate],
        LayerSite::DenseGateUp => &[L::Dense(Gate), L::Dense(Up)],
        LayerSite::SharedGateUp => &[L::Shared(Gate), L::Shared(Up)],
        LayerSite::DenseDown => &[L::Dense(Down)],
        LayerSite::SharedDown => &[L::Shared(Down)],
        _ => &[],
    };
    (of.iter().map(|of| Weight::Layer(layer, *of)).collect(), None)
}

impl Product<'_, '_, '_> {
    /// Whether values are a row's, in some columns.
    fn is(&self, row: usize, columns: &[usize], values: &Array1<f64>) -> bool {
        let own = self.bench.candidate.row(row).select(Axis(0), columns);
        let apart = &own - values;
        apart.dot(&apart).sqrt() <= self.bench.rounding() * own.dot(&own).sqrt()
    }

    /// Some of those that are off, over all of them.
    fn some(&self) -> impl Iterator<Item = usize> + '_ {
        self.off.iter().copied().step_by(self.off.len().div_ceil(SOME))
    }
}
