//! What a product sums: other channels than there are, or operands of fewer bits.
//!
//! ```text
//! y = W·x        of an output that is off, in some rows and channels; what W and x are in its place is solved for
//! ```
//!
//! with y \[n, m\] the candidate's values in all steps, x \[n, d\] what goes in, and the weight W \[m, d\]. [`channels`] has those
//! that are summed other than once, [`bits`] what operands are rounded to, [`input`] the tensor that is read.

mod bits;
mod channels;
mod input;

use ndarray::{Array1, Array2, Axis, concatenate};
use reference::ops::dense_ffn::Activation;
use reference::weights::{LayerWeight, Projection, Weight};
use reference::{Error, LayerSite, Site};

use super::solution::Solution;
use crate::diagnose::search::Bench;
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
    /// Rows that are off.
    off: Vec<usize>,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let weights = weights(bench.site);
    if weights.is_empty() || bench.suspects.len() > 1 {
        return Ok(None);
    }
    let [input] = way::inputs(bench.site)[..] else { return Ok(None) };
    let off: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    let Some(x) = bench.in_all_steps(input)?.filter(|_| !off.is_empty()) else { return Ok(None) };
    let x = if is_activated(bench.site) { activated(bench, &x)? } else { x };
    let tensors: Vec<Array2<f64>> = bench.with_model(|model| {
        let dense = |of: &Weight| Ok(model.weights().get(*of).map_err(Error::from)?.dense::<f64>());
        weights.iter().map(dense).collect()
    })?;
    let views: Vec<_> = tensors.iter().map(|own| own.view()).collect();
    let w = concatenate(Axis(0), &views).expect("they read the same channels");
    let fits = (x.nrows(), w.dim()) == (bench.candidate.nrows(), (bench.candidate.ncols(), x.ncols()));
    if !fits || w.len() * SOME > MOST {
        return Ok(None);
    }
    let product = Product { bench, x, w, off };
    let found = product.of_some_channels().or_else(|| product.of_counted_channels());
    match found.or_else(|| product.of_fewer_bits()) {
        Some(found) => Ok(Some(found)),
        None => product.of_another_input(input),
    }
}

/// The weights, one below the other, of a product that is a site of its own.
fn weights(site: Site) -> Vec<Weight> {
    use LayerWeight as L;
    use Projection::{Down, Gate, Up};
    let Site::Layer(layer, site) = site else {
        return if site == Site::LmHead { vec![Weight::LmHead] } else { Vec::new() };
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
    of.iter().map(|of| Weight::Layer(layer, *of)).collect()
}

/// Whether a product reads an activation of what is shown before it.
fn is_activated(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::DenseDown | LayerSite::SharedDown))
}

/// What a gated network makes of its gate and up projection \[n, 2·d\], as the candidate rounds it.
fn activated(bench: &Bench<'_, '_>, both: &Array2<f64>) -> Result<Array2<f64>, Failure> {
    let (gate, up) = both.view().split_at(Axis(1), both.ncols() / 2);
    bench.with_model(|model| {
        let oai = model.config().swiglu_oai;
        let activation = Activation::under(&bench.contract(), model.semantics(), oai);
        Ok(activation.of(gate, up).map_err(Error::from)?)
    })
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
