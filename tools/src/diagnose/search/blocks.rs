//! Rows or columns of a tensor that none of the site's columns has alone: heads behind an attention, input channels, rows behind a
//! norm or an activation.
//!
//! The site is computed once with each block of them at 0. What the candidate has otherwise than its twin is written, by least
//! squares, as a sum of what these make otherwise: a block that is 0 counts once in it, one that is right not at all.

use std::ops::Range;

use ndarray::{Array1, Array2};
use rayon::prelude::*;
use reference::config::Vision;
use reference::weights::{LayerWeight, Part as Of, Projection, VisionLayerWeight, VisionWeight, Weight};

use super::factor::{Candidate, SMALLEST, STANDS_OUT};
use super::suspects::{self, Suspect};
use super::{Bench, kinds};
use crate::diagnose::catalogue::part::Part;

/// Blocks that a tensor is cut into, at most, and channels that are looked at one by one.
const BLOCKS: usize = 16;

/// Corrections of each block's share.
const SWEEPS: usize = 64;

/// By how much shares of blocks that have one factor may differ.
const ALIKE: f64 = 0.2;

/// A cut of a tensor into blocks.
struct Cut {
    blocks: Vec<Range<usize>>,
    part: Named,
}

/// Blocks as a part of the tensor.
type Named = Box<dyn Fn(&[Range<usize>]) -> Part + Sync>;

/// Parts of a tensor that stand out.
pub(super) fn candidates(bench: &Bench<'_, '_>, suspect: Suspect, apart: &Array2<f64>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for cut in cuts(bench, suspect) {
        let Some(coarse) = standing_out(bench, suspect, &cut, apart) else { continue };
        let (channels, candidate) = coarse;
        let several = cut.blocks.iter().any(|block| block.len() > 1);
        let is_fine = (1..=BLOCKS).contains(&channels.len());
        if several && is_fine && matches!(candidate.part, Part::Rows(_) | Part::Columns(_)) {
            let fine = Cut { blocks: channels.iter().map(|i| *i..i + 1).collect(), part: cut.part };
            found.extend(standing_out(bench, suspect, &fine, apart).map(|(_, candidate)| candidate));
        }
        found.push(candidate);
    }
    found
}

/// The cuts of a tensor that may have blocks of their own.
fn cuts(bench: &Bench<'_, '_>, suspect: Suspect) -> Vec<Cut> {
    let config = bench.config();
    let Some((rows, columns)) = suspects::dim(suspect.of, &config) else { return Vec::new() };
    let is_behind = suspect.first.is_none();
    let by_rows = || even(rows, Part::Rows);
    let by_columns = || even(columns, Part::Columns);
    let by_heads = || suspect.head.filter(|each| rows > *each).map(|each| heads(rows, each, Part::Heads));
    match suspect.of {
        Weight::Layer(_, LayerWeight::OProj) => vec![heads(columns, config.head_dim, Part::InputHeads)],
        Weight::Vision(VisionWeight::Layer(_, VisionLayerWeight::Out, Of::Weight)) => {
            let each = config.vision.as_ref().map_or(columns, Vision::head_dim);
            vec![heads(columns, each, Part::InputHeads)]
        }
        Weight::Layer(_, LayerWeight::Shared(Projection::Down) | LayerWeight::Dense(Projection::Down)) => {
            vec![by_columns()]
        }
        Weight::Layer(_, LayerWeight::Expert(e, projection)) if suspects::standing_out(bench, 1) == [e] => {
            vec![if projection == Projection::Down { by_columns() } else { by_rows() }]
        }
        Weight::Layer(_, LayerWeight::Shared(_) | LayerWeight::Dense(_)) if is_behind => vec![by_rows()],
        of if suspects::is_norm_of(of, bench.site) => by_heads().into_iter().chain([by_rows()]).collect(),
        _ if is_behind => by_heads().into_iter().collect(),
        _ => Vec::new(),
    }
}

fn heads(channels: usize, each: usize, part: fn(usize, Vec<usize>) -> Part) -> Cut {
    let blocks = (0..channels / each).map(|head| head * each..(head + 1) * each).collect();
    Cut { blocks, part: Box::new(move |all| part(each, all.iter().map(|block| block.start / each).collect())) }
}

fn even(channels: usize, part: fn(Vec<usize>) -> Part) -> Cut {
    let each = channels.div_ceil(BLOCKS).max(1);
    let blocks = (0..channels).step_by(each).map(|first| first..channels.min(first + each)).collect();
    Cut { blocks, part: Box::new(move |all| part(all.iter().cloned().flatten().collect())) }
}

/// The blocks that stand out and have one factor, unless it is all: the channels of all that stand out, of which some may have it in
/// a part alone, and what is made of those that have it.
fn standing_out(
    bench: &Bench<'_, '_>,
    suspect: Suspect,
    cut: &Cut,
    apart: &Array2<f64>,
) -> Option<(Vec<usize>, Candidate)> {
    let without = |block: &Range<usize>| {
        let zero = suspect.times((cut.part)(std::slice::from_ref(block)), 0.0);
        bench.ideal_under(&[bench.assumed(&kinds::ZERO, zero)]).map(|values| values - &bench.ideal)
    };
    let differences: Vec<Array2<f64>> = cut.blocks.par_iter().map(without).collect::<Result<_, _>>().ok()?;
    let weighed: Vec<Array1<f64>> = differences.iter().map(|values| bench.weighed(values)).collect();
    let apart_weighed = bench.weighed(apart);
    let gram = Array2::from_shape_fn((weighed.len(), weighed.len()), |(i, j)| weighed[i].dot(&weighed[j]));
    let along: Vec<f64> = weighed.iter().map(|one| one.dot(&apart_weighed)).collect();
    let shares = least_squares(&gram, &along);
    let explained: f64 = shares.iter().zip(&along).map(|(share, along)| share * along).sum();
    let noise = (bench.off() - explained).max(0.0) / apart.len() as f64;
    let energy = |i: usize| shares[i] * shares[i] * gram[[i, i]];
    let most = (0..shares.len()).max_by(|a, b| energy(*a).total_cmp(&energy(*b)))?;
    let least = (SMALLEST * energy(most)).max(STANDS_OUT.powi(2) * noise);
    let off: Vec<usize> = (0..shares.len()).filter(|i| energy(*i) > least).collect();
    let is_alike = |i: &usize| (shares[*i] - shares[most]).abs() <= ALIKE * shares[most].abs();
    let chosen: Vec<usize> = off.iter().copied().filter(is_alike).collect();
    if chosen.is_empty() || chosen.len() == shares.len() {
        return None;
    }
    let blocks: Vec<Range<usize>> = chosen.iter().map(|i| cut.blocks[*i].clone()).collect();
    let derivative = chosen.iter().fold(Array2::zeros(apart.dim()), |sum, i| sum - &differences[*i]);
    let of = bench.weighed(&derivative);
    let candidate = Candidate {
        suspect,
        part: (cut.part)(&blocks),
        columns: (0..apart.ncols()).collect(),
        explained: of.dot(&apart_weighed).powi(2) / of.dot(&of),
        derivative,
        start: 1.0,
    };
    Some((off.into_iter().flat_map(|i| cut.blocks[i].clone()).collect(), candidate))
}

/// The shares by which a sum of differences comes nearest, one corrected after the other.
fn least_squares(gram: &Array2<f64>, along: &[f64]) -> Vec<f64> {
    let mut shares = vec![0.0; along.len()];
    for _ in 0..SWEEPS {
        for i in 0..shares.len() {
            if gram[[i, i]] > 0.0 {
                let others: f64 = shares.iter().zip(gram.row(i)).map(|(share, product)| share * product).sum();
                shares[i] += (along[i] - others) / gram[[i, i]];
            }
        }
    }
    shares
}
