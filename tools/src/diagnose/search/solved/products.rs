//! What a product sums: fewer input channels than there are, or operands of fewer bits.
//!
//! ```text
//! yᵢₖ = Σⱼ∈S wₖⱼ·xᵢⱼ             solved for S, the first or the last channels; right are all
//! y = r(q′(W)·q(x))              solved for q, q′ and r among what values may be rounded to; right is none of it
//! ```
//!
//! with y \[n, m\] the candidate's values, x \[n, d\] what goes in, and the weight W \[m, d\].

use ndarray::{Array1, Array2, ArrayView1, s};
use reference::matrix::Matrix;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site, Storage};

use super::listed::listed;
use super::solution::Solution;
use crate::diagnose::catalogue::grid::Grid;
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

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some(weight) = weight(bench.site).filter(|_| bench.suspects.len() == 1) else { return Ok(Vec::new()) };
    let [input] = way::inputs(bench.site)[..] else { return Ok(Vec::new()) };
    let Some(x) = bench.shown(input)? else { return Ok(Vec::new()) };
    let w = bench.with_model(|model| {
        let tensor = model.weights().get(weight).map_err(reference::Error::from)?;
        Ok(tensor.dense::<f64>())
    })?;
    let fits = (x.nrows(), w.dim()) == (bench.candidate.nrows(), (bench.candidate.ncols(), x.ncols()));
    let off: Vec<usize> = (0..bench.candidate.nrows()).filter(|row| bench.row_is_off(*row)).collect();
    if !fits || off.is_empty() || w.len() * SOME > MOST {
        return Ok(Vec::new());
    }
    let product = Product { bench, x, w, off };
    Ok(product.of_some_channels().or_else(|| product.of_fewer_bits()).into_iter().collect())
}

/// The weight of a product that is a site of its own.
fn weight(site: Site) -> Option<Weight> {
    let Site::Layer(layer, site) = site else { return (site == Site::LmHead).then_some(Weight::LmHead) };
    let of = match site {
        LayerSite::QProj => LayerWeight::QProj,
        LayerSite::KProj => LayerWeight::KProj,
        LayerSite::VProj => LayerWeight::VProj,
        LayerSite::OProj => LayerWeight::OProj,
        LayerSite::IndexQProj => LayerWeight::IndexQProj,
        LayerSite::IndexKProj => LayerWeight::IndexKProj,
        LayerSite::GateLogits => LayerWeight::Gate,
        _ => return None,
    };
    Some(Weight::Layer(layer, of))
}

impl Product<'_, '_, '_> {
    fn is(&self, row: usize, values: &Array1<f64>) -> bool {
        let own = self.bench.candidate.row(row);
        let apart = &own - values;
        apart.dot(&apart).sqrt() <= self.bench.rounding() * own.dot(&own).sqrt()
    }

    /// Some of those that are off, over all of them.
    fn some(&self) -> impl Iterator<Item = usize> + '_ {
        self.off.iter().copied().step_by(self.off.len().div_ceil(SOME))
    }

    /// Channels that are not summed, where the others are the first or the last.
    fn of_some_channels(&self) -> Option<Solution> {
        let channels = self.channels(*self.off.first()?)?;
        let value = |row: usize| {
            let range = channels.0..channels.1;
            self.w.slice(s![.., range.clone()]).dot(&self.x.slice(s![row, range]))
        };
        if !self.some().chain(self.off.iter().copied()).all(|row| self.is(row, &value(row))) {
            return None;
        }
        let mut values = self.bench.ideal.clone();
        self.off.iter().for_each(|row| values.row_mut(*row).assign(&value(*row)));
        let ((first, end), all) = (channels, self.x.ncols());
        let which = if first == 0 { format!("the first {end}") } else { format!("the last {}", end - first) };
        let rows = match self.off.len() {
            off if off == self.x.nrows() => "all rows".to_owned(),
            off => format!("{off} of {} rows, {},", self.x.nrows(), listed(&self.off)),
        };
        Some(Solution::new(vec![format!("{rows} sum {which} of {all} input channels alone")], values))
    }

    /// The channels by which a row comes nearest, from the first or to the last.
    fn channels(&self, row: usize) -> Option<(usize, usize)> {
        let (y, x, all) = (self.bench.candidate.row(row), self.x.row(row), self.x.ncols());
        let nearest = |order: &mut dyn Iterator<Item = usize>| {
            let mut left = y.to_owned();
            let each = order.enumerate().map(|(i, j)| {
                left.scaled_add(-x[j], &self.w.column(j));
                (left.dot(&left), i + 1)
            });
            each.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (first, last) = (nearest(&mut (0..all))?, nearest(&mut (0..all).rev())?);
        let range = if first.0 <= last.0 { (0, first.1) } else { (all - last.1, all) };
        (range != (0, all)).then_some(range)
    }

    /// Operands, or the product too, that are rounded to fewer bits than they are.
    fn of_fewer_bits(&self) -> Option<Solution> {
        let some: Vec<usize> = self.some().collect();
        let (x, w) = (rounded_by(&self.x), rounded_by(&self.w));
        for grid in Grid::all() {
            let x = x(grid);
            for both in [false, true] {
                let w = if both { w(grid) } else { self.w.clone() };
                for output in [Storage::Real, Storage::Bf16, Storage::F16] {
                    let value = |row: ArrayView1<'_, f64>| w.dot(&row).mapv(|y| output.nearest(y));
                    let is = |row: &usize| self.is(*row, &value(x.row(*row)));
                    if x == self.x && w == self.w || !some.iter().all(is) || !self.off.iter().all(is) {
                        continue;
                    }
                    let values = x.dot(&w.t()).mapv(|y| output.nearest(y));
                    let what = if both { "what goes in and the weight are" } else { "what goes in is" };
                    let also = match output {
                        Storage::Real => String::new(),
                        narrow => format!(", and the product to {narrow}"),
                    };
                    return Some(Solution::new(vec![format!("{what} rounded to {grid}{also}")], values));
                }
            }
        }
        None
    }
}

/// What a matrix is in a grid.
fn rounded_by(values: &Array2<f64>) -> impl Fn(Grid) -> Array2<f64> {
    let matrix = Matrix::stored(values.view(), Storage::F32);
    move |grid| grid.round(&matrix).dense()
}
