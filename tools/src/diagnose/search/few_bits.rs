//! Tensors rounded to four bits by groups, or to eight by columns or small blocks, by a scale of several tensors, or by one scale and multiplied by another.

use reference::config::{Config, FeedForward};
use reference::weights::{LayerWeight, Projection, Weight, inventory};
use reference::{LayerSite, Site};

use super::factor::{Candidate, STEP, fit};
use super::kinds;
use super::suspects::Suspect;
use super::{Bench, suspects};
use crate::diagnose::catalogue::grid::Grid;
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::part::{Part, Scaled};
use crate::diagnose::catalogue::tensors::{Projections, TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;
use crate::failure::Failure;

/// Experts of a model whose tensors are rounded by one scale.
const EXPERTS: usize = 16;

/// Changes that are refined, those that come nearest first.
const REFINED: usize = 4;

/// Every matrix of the text model on the way, and those of the experts together.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let config = bench.config();
    let mut found = Vec::new();
    let mut few_bits = |tensors, columns| {
        let changes = Grid::of_few_bits(columns).map(|grid| TensorChange::Rounded(tensors, grid));
        found.extend(changes.map(|change| bench.assumed(&kinds::ROUNDED, change)));
    };
    let mut beside = Vec::new();
    let standing_out = suspects::standing_out(bench, 1);
    for of in suspects::of(bench).into_iter().map(|suspect| suspect.of).filter(|of| !of.is_norm()) {
        let Some((_, columns)) = suspects::dim(of, &config).filter(|(rows, _)| *rows > 1) else { continue };
        match of {
            Weight::Layer(_, LayerWeight::Expert(e, _)) if !standing_out.contains(&e) => {}
            // Each would compute the whole tower again.
            Weight::Vision(_) => {}
            _ => few_bits(Tensors::One(of), columns),
        }
        if matches!(of, Weight::Layer(_, inner) if !matches!(inner, LayerWeight::Expert(..))) {
            let ways = |other| [false, true].map(|stored| TensorChange::RoundedBeside(of, other, stored));
            beside.extend(others(of, columns, &config).flat_map(ways));
        }
    }
    if let Some(layer) = bench.site.layer().filter(|layer| config.layer(*layer).feed_forward == FeedForward::Experts) {
        let has = |site| bench.suspects.contains(&Site::Layer(layer, site));
        let (hidden, output) = (has(LayerSite::ExpertHidden), has(LayerSite::ExpertOutput));
        let groups = [(hidden, Projections::GateUp), (output, Projections::Down), (hidden && output, Projections::All)];
        for which in groups.into_iter().filter(|(is, _)| *is).map(|(_, which)| which) {
            let one = if which == Projections::Down { Projection::Down } else { Projection::Gate };
            let of = Weight::Layer(layer, LayerWeight::Expert(0, one));
            if let Some((_, columns)) = suspects::dim(of, &config) {
                few_bits(Tensors::Experts(which), columns);
            }
            let last = config.num_local_experts.saturating_sub(1);
            if (2..=EXPERTS).contains(&config.num_local_experts) {
                beside.extend([false, true].map(|stored| TensorChange::RoundedTogether(which, stored)));
                let ways = [0, 1, last].into_iter().flat_map(|by| [(by, false), (by, true)]);
                beside.extend(ways.map(|(by, stored)| TensorChange::RoundedStacked(which, by, stored)));
            }
        }
    }
    found.extend(beside.into_iter().map(|change| bench.assumed(&kinds::ROUNDED, change)));
    found
}

/// Other matrices of a layer with as many input channels, with which one may be fused.
fn others(of: Weight, columns: usize, config: &Config) -> impl Iterator<Item = Weight> {
    let mut seen: Vec<Weight> = Vec::new();
    for (other, (rows, width)) in inventory(config) {
        let Weight::Layer(_, inner) = other else { continue };
        let is_one = rows > 1 && width == columns && !matches!(inner, LayerWeight::Expert(..) | LayerWeight::Gate);
        let other = Weight::Layer(0, inner);
        if is_one && other != of && !seen.contains(&other) {
            seen.push(other);
        }
    }
    seen.into_iter()
}

/// A tensor rounded and multiplied by a factor, where one of both comes near alone.
pub(super) fn scaled_too(bench: &Bench<'_, '_>, near: &[Vec<Assumed>]) -> Result<Vec<Vec<Assumed>>, Failure> {
    let mut found = Vec::new();
    for alone in near.iter().take(REFINED) {
        let [Assumed { change: Change::Weights(WeightChange::Tensor(change)), .. }] = &alone[..] else { continue };
        let (of, grids) = match change {
            TensorChange::Scaled(Scaled { of, part: Part::All, .. }) if !of.is_norm() => {
                (*of, Grid::eight_bits().collect())
            }
            TensorChange::Rounded(Tensors::One(of), grid) if !of.is_norm() => (*of, vec![*grid]),
            _ => continue,
        };
        let Some(suspect) = suspects::of(bench).into_iter().find(|suspect| suspect.of == of) else { continue };
        for grid in grids {
            let rounded = bench.assumed(&kinds::ROUNDED, TensorChange::Rounded(Tensors::One(of), grid));
            let assumption = bench.before().and(rounded.clone())?;
            let Some(under) = bench.under(&assumption)? else { continue };
            let start = match change {
                TensorChange::Scaled(Scaled { factor, .. }) => factor.value,
                _ => 1.0,
            };
            if let Some(factor) = factor(&under, suspect, start)? {
                found.push(vec![rounded, factor]);
            }
        }
    }
    Ok(found)
}

/// The factor of a tensor, from one that is near.
fn factor(bench: &Bench<'_, '_>, suspect: Suspect, start: f64) -> Result<Option<Assumed>, Failure> {
    let times = |factor| bench.ideal_under(&[bench.assumed(&kinds::SCALED, suspect.times(Part::All, factor))]);
    let derivative = (times(start * (1.0 + STEP))? - times(start)?) / (start * STEP);
    let columns = (0..derivative.ncols()).collect();
    fit(bench, &Candidate { suspect, part: Part::All, columns, derivative, explained: 0.0, start })
}
