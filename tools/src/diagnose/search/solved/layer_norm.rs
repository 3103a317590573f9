//! What a layer norm of the vision tower takes off, divides by, multiplies with and adds.
//!
//! ```text
//! yᵢⱼ = bⱼ + wⱼ·(sᵢ·xᵢⱼ − tᵢ)        solved for s and t of each row; right are s = r and t = μ·r
//! yᵢⱼ = cⱼ + vⱼ·zᵢⱼ                   solved for c and v of each channel; right are c = b and v = w
//! ```
//!
//! with y \[n, d\] the candidate's values, x \[n, d\] what goes in, the weight w \[d\] and the bias b \[d\], a row's mean μ, its
//! variance σ² and r = 1/√(σ² + ε), and z what is right before w and b: (x − μ)·r. [`moments`] has what s and t may be made of,
//! [`tensors`] what c and v may be.

mod moments;
mod tensors;

use ndarray::{Array1, Array2, ArrayView1, Axis, stack};
use reference::site::{VisionLayerSite, VisionSite};
use reference::{RoundingContract, Site, Storage};

use self::tensors::Module;
use super::least_squares;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// A weight that nothing can be solved by.
const NONE: f64 = 1e-6;

/// Rows by which ways are told apart before they are held to all.
const SOME: usize = 16;

/// How many standard deviations numbers may be off to be the same.
const CERTAIN: f64 = 8.0;

/// Roundings of f32 that sums leave.
const SUMS: f64 = 64.0;

/// A norm, with what goes in and what comes out.
struct Norm {
    x: Array2<f64>,
    y: Array2<f64>,
    w: Array1<f64>,
    b: Array1<f64>,
    eps: f64,
    /// How far a row may be off to be the same, as a share of its norm.
    same: f64,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Some(norm) = Norm::of(bench)? else { return Ok(Vec::new()) };
    let found = match norm.of_rows(bench) {
        Some(found) => Some(found),
        None => norm.of_channels(&Module::all(bench)?),
    };
    Ok(found.map(|(said, values)| Solution::new(vec![said], values)).into_iter().collect())
}

/// The same of a row's mean and variance alone, which have no parameter.
pub(super) fn of_statistics(bench: &Bench<'_, '_>) -> Result<Option<Solution>, Failure> {
    let found = Norm::of(bench)?.and_then(|norm| norm.of_rows(bench));
    Ok(found.map(|(said, values)| Solution::new(vec![said], values)))
}

impl Norm {
    /// That of a bench, where what goes into it is known.
    fn of(bench: &Bench<'_, '_>) -> Result<Option<Self>, Failure> {
        let Site::Vision(pass, at) = bench.site else { return Ok(None) };
        let (Some(module), Some((vision, _))) = (Module::of(at), bench.vision(pass)) else { return Ok(None) };
        let input = Site::Vision(pass, module.input());
        // Of its input at most the sum is not shown.
        let is_sum = |site: &Site| {
            let Site::Vision(_, VisionSite::Layer(_, site)) = site else { return false };
            matches!(site, VisionLayerSite::Residual | VisionLayerSite::Attention)
        };
        let is_alone = bench.suspects.iter().all(|site| *site == bench.site || *site == input || is_sum(site));
        let mut beside = bench.rerun(&[], RoundingContract::IDEAL, &[input])?.beside;
        // Another layer is run before.
        let x = beside.remove(&input).map_or_else(|| bench.shown(input), |x| Ok(Some(x)))?;
        let Some(x) = x.filter(|x| is_alone && x.dim() == bench.candidate.dim()) else {
            return Ok(None);
        };
        let [w, b] = module.tensors(bench)?;
        if w.iter().any(|w| w.abs() < NONE) {
            return Ok(None);
        }
        let (y, same) = (bench.candidate.clone(), bench.rounding());
        Ok(Some(Norm { x, y, w, b, eps: vision.layer_norm_eps, same }))
    }

    /// The values of s and t.
    fn by_rows(&self, of: &[(f64, f64)]) -> Array2<f64> {
        let value = |(i, j)| {
            let (s, t): (f64, f64) = of[i];
            self.b[j] + self.w[j] * (s * self.x[[i, j]] - t)
        };
        Array2::from_shape_fn(self.x.dim(), value)
    }

    /// Whether values are the candidate's.
    fn holds(&self, values: &Array2<f64>) -> bool {
        let rows = values.rows().into_iter().zip(self.y.rows());
        rows.into_iter().all(|(own, y): (ArrayView1<'_, f64>, _)| {
            let apart = &own - &y;
            apart.dot(&apart).sqrt() <= self.same * y.dot(&y).sqrt()
        })
    }

    /// What rows are less and divided by, where each is so by a number of its own; with the values that follow.
    fn of_rows(&self, bench: &Bench<'_, '_>) -> Option<(String, Array2<f64>)> {
        let of_row = |(x, y): (ArrayView1<'_, f64>, ArrayView1<'_, f64>)| {
            let columns = stack(Axis(1), &[(&self.w * &x).view(), self.w.view()]).ok()?;
            let solution = least_squares::solve(columns.view(), (&y - &self.b).view())?;
            let [s, less] = solution.x[..] else { return None };
            Some((s, -less))
        };
        let found: Option<Vec<(f64, f64)>> = self.x.rows().into_iter().zip(self.y.rows()).map(of_row).collect();
        if !self.holds(&self.by_rows(&found?)) {
            return None;
        }
        let rows = || self.x.rows().into_iter();
        let under = |way: moments::Way| self.by_rows(&rows().map(|row| way.of(row, self.eps)).collect::<Vec<_>>());
        let is_right = self.holds(&under(moments::RIGHT));
        let some: Vec<usize> = (0..self.x.nrows()).step_by(self.x.nrows().div_ceil(SOME)).collect();
        let is_near = |way: &moments::Way| {
            some.iter().all(|&i| {
                let (s, t) = way.of(self.x.row(i), self.eps);
                let apart = self.x.row(i).mapv(|x| s * x - t) * &self.w + &self.b - self.y.row(i);
                apart.dot(&apart).sqrt() <= self.same * self.y.row(i).dot(&self.y.row(i)).sqrt()
            })
        };
        let ways = moments::ways(self.x.ncols()).filter(is_near).map(|way| (way, under(way)));
        let off = |values: &Array2<f64>| (values - &self.y).mapv(|apart| apart * apart).sum();
        // Of several that these roundings leave, the nearest; where they leave the right one, too, the one that reproduces the most
        // values, if these are more than the twin's.
        let near = ways.filter(|(_, values)| self.holds(values)).filter_map(|(way, values)| {
            let stored = is_right.then(|| bench.stored(&values));
            let is_told = stored.as_ref().is_none_or(|stored| bench.is_more(stored));
            let unequal = stored.map_or(0, |stored| bench.candidate.len() - bench.equal(&stored).equal);
            is_told.then(|| ((unequal, off(&values)), way, values))
        });
        let best = near.min_by(|(a, ..), (b, ..)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        best.map(|(_, way, values)| (way.to_string(), values))
    }

    /// What channels are multiplied with and have added, where each is so by numbers of its own; with the values that follow.
    fn of_channels(&self, others: &[(String, Array1<f64>)]) -> Option<(String, Array2<f64>)> {
        let right: Vec<(f64, f64)> = self.x.rows().into_iter().map(|row| moments::RIGHT.of(row, self.eps)).collect();
        let z = Array2::from_shape_fn(self.x.dim(), |(i, j)| right[i].0 * self.x[[i, j]] - right[i].1);
        let of_channel = |(z, y): (ArrayView1<'_, f64>, ArrayView1<'_, f64>)| {
            let columns = stack(Axis(1), &[z, Array1::ones(z.len()).view()]).ok()?;
            let solution = least_squares::solve(columns.view(), y)?;
            let ([v, c], [of_v, of_c]) = (&solution.x[..], &solution.deviation[..]) else { return None };
            Some([*v, *c, *of_v, *of_c])
        };
        let found: Option<Vec<[f64; 4]>> = z.columns().into_iter().zip(self.y.columns()).map(of_channel).collect();
        let found = found?;
        let [v, c, of_v, of_c] = [0, 1, 2, 3].map(|i| found.iter().map(|own| own[i]).collect::<Array1<f64>>());
        let values = |v: &Array1<f64>, c: &Array1<f64>| &z * v + c;
        if !self.holds(&values(&v, &c)) {
            return None;
        }
        // What f32's sums leave of all channels alike, whatever a channel's own errors.
        let size = (v.dot(&v) / v.len() as f64).sqrt();
        let least = SUMS * Storage::F32.unit_roundoff() * size;
        let same = |deviation: &Array1<f64>| deviation.mapv(|sigma| CERTAIN * sigma + least);
        let weight = tensors::told(&v, &self.w, others, &same(&of_v), 1.0).map(|what| format!("its weight {what}"));
        let bias = tensors::told(&c, &self.b, others, &same(&of_c), 0.0).map(|what| format!("its bias {what}"));
        let said: Vec<String> = weight.into_iter().chain(bias).collect();
        (!said.is_empty()).then(|| (said.join(", and "), values(&v, &c)))
    }
}
