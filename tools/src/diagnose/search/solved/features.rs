//! What stands in the places of images and videos.
//!
//! ```text
//! xᵢ = a·eᵢ + b·fⱼ        of each place i; solved for a, b and j; right are a = 0, b = 1 and the place's own j
//! ```
//!
//! with e \[n, H\] the tokens' embeddings, f \[m, H\] the features and x \[n, H\] the candidate's rows. Behind the first layer's
//! norm x is known but for a factor.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ndarray::{Array1, Array2, ArrayView1, Axis, concatenate, stack};
use reference::site::VisionSite;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::least_squares;
use super::listed::listed;
use super::norm::effective;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// What may be left of a row, as a share of its norm: bf16's roundings several times, where independent rows leave nearly all.
const LEFT: f64 = 0.05;

/// How far a and b may be off to be the same: as much as the rounding that LEFT allows makes of them.
const SAME: f64 = 0.05;

/// Things told at most.
const TOLD: usize = 4;

/// What a place has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    /// The feature that is so many behind its own.
    Other(isize),
    /// The sum of its token's embedding and its feature.
    Sum,
    /// Its token's embedding alone.
    Embedding,
}

/// Embeddings, features and the places of these.
struct Places {
    e: Array2<f64>,
    f: Array2<f64>,
    /// For each token, the feature that belongs there.
    own: Vec<Option<usize>>,
    /// Whether rows are known but for a factor.
    is_normed: bool,
}

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let norm = match bench.site {
        Site::InputsEmbeds => None,
        Site::Layer(0, LayerSite::InputNorm) if bench.suspects.contains(&Site::InputsEmbeds) => {
            Some(effective(bench, Weight::Layer(0, LayerWeight::InputNorm))?)
        }
        _ => return Ok(Vec::new()),
    };
    let Some(places) = Places::of(bench, norm.is_some())? else { return Ok(Vec::new()) };
    let x = norm.as_ref().map_or_else(|| bench.candidate.clone(), |w| &bench.candidate / w);
    if x.dim() != places.e.dim() {
        return Ok(Vec::new());
    }
    let (mut found, mut values) = (BTreeMap::<Has, Vec<usize>>::new(), bench.ideal.clone());
    for row in (0..x.nrows()).filter(|row| bench.row_is_off(*row)) {
        let Some((has, own)) = places.own[row].and_then(|own| places.at(row, own, x.row(row))) else { continue };
        found.entry(has).or_default().push(row);
        let own = norm.as_ref().map_or(own.clone(), |w| {
            let size = own.dot(&own) / own.len() as f64 + bench.config().rms_norm_eps;
            &own * w / size.sqrt()
        });
        values.row_mut(row).assign(&own);
    }
    let count: usize = found.values().map(Vec::len).sum();
    if count == 0 {
        return Ok(Vec::new());
    }
    Ok(vec![Solution::new(said(&found, places.own.iter().flatten().count()), values)])
}

/// What the places have, those first of which most have it.
fn said(found: &BTreeMap<Has, Vec<usize>>, all: usize) -> Vec<String> {
    let mut each: Vec<(&Has, &Vec<usize>)> = found.iter().collect();
    each.sort_by_key(|(_, rows)| Reverse(rows.len()));
    let told = each.into_iter().take(TOLD).map(|(has, rows)| {
        let what = match has {
            Has::Other(by) if *by > 0 => format!("the feature {by} behind its own"),
            Has::Other(by) => format!("the feature {} before its own", -by),
            Has::Sum => "its feature added to the embedding of its token, which it has to replace".to_owned(),
            Has::Embedding => "the embedding of its token, and no feature".to_owned(),
        };
        format!(
            "{} of {all} places of images and videos, at tokens {}: each has {what}",
            rows.len(),
            listed(rows.iter())
        )
    });
    told.collect()
}

impl Places {
    /// Of all that the prompt shows.
    fn of(bench: &Bench<'_, '_>, is_normed: bool) -> Result<Option<Self>, Failure> {
        // What is not shown is computed.
        let of = |site| match bench.shown(site)? {
            Some(values) => Ok(Some(values)),
            None => bench.in_all_steps(site),
        };
        let Some(e) = of(Site::Embedding)? else { return Ok(None) };
        let (tokens, media) = (bench.tokens(), bench.media());
        let features = (0..media.len()).map(|pass| of(Site::Vision(pass, VisionSite::Features)));
        let Some(found) = features.collect::<Result<Option<Vec<Array2<f64>>>, Failure>>()? else { return Ok(None) };
        let mut own = vec![None; tokens.len()];
        let mut first = 0;
        for (token, f) in media.iter().zip(&found) {
            let places = tokens.iter().enumerate().filter(|(_, of)| *of == token).map(|(row, _)| row).take(f.nrows());
            places.enumerate().for_each(|(n, row)| own[row] = Some(first + n));
            first += f.nrows();
        }
        let views: Vec<_> = found.iter().map(|f| f.view()).collect();
        // None where nothing is shown, or features are not as wide as each other.
        let f = concatenate(Axis(0), &views).ok();
        let f = f.filter(|f| e.nrows() == own.len() && f.ncols() == e.ncols());
        Ok(f.map(|f| Places { e, f, own, is_normed }))
    }

    /// What a place has whose own feature is another, and the row.
    fn at(&self, row: usize, own: usize, x: ArrayView1<'_, f64>) -> Option<(Has, Array1<f64>)> {
        let limit = LEFT * x.dot(&x).sqrt();
        let (e, f) = (self.e.row(row), self.f.row(own));
        // A factor above 0 is the norm's.
        let is_factor = |factor: f64| if self.is_normed { factor > 0.0 } else { (factor - 1.0).abs() <= SAME };
        let is = |values: &Array1<f64>| {
            let factor = x.dot(values) / values.dot(values);
            let apart = values * factor - x;
            is_factor(factor) && apart.dot(&apart).sqrt() <= limit
        };
        if is(&e.to_owned()) {
            return Some((Has::Embedding, e.to_owned()));
        }
        let both = stack(Axis(1), &[e, f]).ok()?;
        let solution = least_squares::solve(both.view(), x)?;
        let [a, b] = solution.x[..] else { return None };
        if solution.left.sqrt() <= LEFT && (a - b).abs() <= SAME * b.abs() && is_factor(b) {
            return Some((Has::Sum, &e + &f));
        }
        let other = (0..self.f.nrows()).find(|j| *j != own && is(&self.f.row(*j).to_owned()))?;
        Some((Has::Other(other.cast_signed() - own.cast_signed()), self.f.row(other).to_owned()))
    }
}
