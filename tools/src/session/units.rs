//! Units of work: parts of a verification that are done by themselves, on one machine or on several, and can be kept.
//!
//! A unit has some of the items of [`work`](super::work): the local and the layer lens on layers up to the next one whose input the
//! candidate shows, mostly one; or the global lens on all layers, which comes all the way from the tokens. The decoded tokens
//! of a request are a unit, and so is what its values can show. Units stand in one order, by request, lens and layer.
//!
//! [`split`] cuts the list into so many shards: each is a contiguous range of it, each unit is in exactly one, and the dearest
//! shard is as cheap as it can be, by an estimate of what units cost. Then the dearest shards of several units are cut further
//! until there are as many as are asked for, or units are alone. What is left over is empty.

use std::fmt;
use std::ops::Range;

use reference::config::Config;
use reference::weights::{LayerWeight, Weight, inventory};
use serde::{Deserialize, Serialize};

use super::work::Item;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::floor::MEMBERS;
use crate::judge::lens::Lens;

/// A unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// The request's number, from 0.
    pub request: usize,
    /// What is done.
    pub kind: Kind,
    /// The layers.
    pub layers: Range<usize>,
}

/// What is done in a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The local and the layer lens, if they are asked for.
    Layers,
    /// The global lens.
    Global,
    /// The decoded tokens.
    Decode,
    /// Known mistakes are tried, to tell what the values can show.
    Coverage,
}

/// What is asked of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    /// Whether decoded tokens are judged.
    pub(super) decode: bool,
    /// Whether it is asked what its values can show.
    pub(super) coverage: bool,
}

impl Unit {
    /// The items that it has, of all that lenses are asked for.
    pub(super) fn items(&self, asked: &[Lens]) -> Vec<Item> {
        let of = |lens: &Lens| match self.kind {
            Kind::Layers => *lens != Lens::Global,
            Kind::Global => *lens == Lens::Global,
            Kind::Decode | Kind::Coverage => false,
        };
        let lenses = || asked.iter().copied().filter(of);
        self.layers
            .clone()
            .flat_map(|layer| lenses().map(move |lens| Item { request: self.request, layer, lens }))
            .collect()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unit { request, kind, layers: Range { start, end } } = self;
        match kind {
            Kind::Layers if start + 1 == *end => write!(f, "request {request}, layer {start}"),
            Kind::Layers => write!(f, "request {request}, layers {start} to {}", end - 1),
            Kind::Global => write!(f, "request {request}, global lens"),
            Kind::Decode => write!(f, "request {request}, decoded tokens"),
            Kind::Coverage => write!(f, "request {request}, coverage"),
        }
    }
}

/// The units of these comparisons, a comparison a request: lenses on layers, and what else is asked of each request.
pub(super) fn list(
    comparisons: &[Comparison<'_>],
    layers: &Range<usize>,
    lenses: &[Lens],
    whole: impl Fn(usize) -> Whole,
) -> Result<Vec<Unit>, Failure> {
    let mut units = Vec::new();
    for (request, comparison) in comparisons.iter().enumerate() {
        let model = comparison.model()?;
        let verification = |layers: Range<usize>| comparison.verification(&model, lenses, layers);
        let unit = |kind, layers| Unit { request, kind, layers };
        if lenses.iter().any(|lens| *lens != Lens::Global) {
            let mut first = layers.start;
            for layer in layers.start + 1..layers.end {
                if verification(layer..layer + 1).begins_anew()? {
                    units.push(unit(Kind::Layers, first..layer));
                    first = layer;
                }
            }
            units.extend((!layers.is_empty()).then(|| unit(Kind::Layers, first..layers.end)));
        }
        let from_tokens = verification(layers.clone()).first_layer() == 0;
        let Whole { decode, coverage } = whole(request);
        let others = [
            (Kind::Global, lenses.contains(&Lens::Global) && from_tokens),
            (Kind::Decode, decode),
            (Kind::Coverage, coverage),
        ];
        units.extend(others.into_iter().filter(|(_, is)| *is).map(|(kind, _)| unit(kind, layers.clone())));
    }
    Ok(units)
}

/// Runs over a layer that a lens makes: its own, which bounds errors (the local lens), the noise floor's, and of the local lens
/// the twin's in as many orders.
const OF_LOCAL: u64 = 3 + 2 * MEMBERS as u64;
const OF_OTHER: u64 = 1 + MEMBERS as u64;

/// Runs over a layer that mistakes take, roughly: some hundred are tried.
const OF_COVERAGE: u64 = 200;

/// What units cost, by an estimate: multiply-adds of a token in a layer, times runs over it.
pub(super) fn costs(units: &[Unit], lenses: &[Lens], config: &Config) -> Vec<u64> {
    let used = |weight: LayerWeight, size: usize| match weight {
        LayerWeight::Expert(expert, _) if expert >= config.num_experts_per_tok => 0,
        _ => size as u64,
    };
    let mut layers = vec![0; config.num_hidden_layers];
    for (weight, (rows, columns)) in inventory(config) {
        if let Weight::Layer(layer, weight) = weight {
            layers[layer] += used(weight, rows * columns);
        }
    }
    let of = |lens: Lens, cost| if lenses.contains(&lens) { cost } else { 0 };
    let cost = |unit: &Unit| {
        let (through, runs) = match unit.kind {
            Kind::Layers => (unit.layers.clone(), of(Lens::Local, OF_LOCAL) + of(Lens::Layer, OF_OTHER)),
            Kind::Global => (0..unit.layers.end, OF_OTHER + of(Lens::Local, 3) + of(Lens::Layer, 1)),
            Kind::Decode => (0..layers.len(), OF_OTHER),
            Kind::Coverage => (unit.layers.clone(), OF_COVERAGE),
        };
        runs * layers[through].iter().sum::<u64>()
    };
    units.iter().map(cost).collect()
}

/// Contiguous ranges of a list whose elements cost so much, `count` of them.
pub fn split(costs: &[u64], count: usize) -> Vec<Range<usize>> {
    let of = |range: &Range<usize>| costs[range.clone()].iter().sum::<u64>();
    let (mut low, mut high) = (costs.iter().copied().max().unwrap_or(0), costs.iter().sum::<u64>());
    while low < high {
        let middle = low + (high - low) / 2;
        if filled(costs, middle).len() <= count { high = middle } else { low = middle + 1 }
    }
    let mut shards = filled(costs, low);
    while shards.len() < count {
        let several = shards.iter().enumerate().filter(|(_, range)| range.len() > 1);
        // The first of the dearest.
        let Some((dearest, range)) = several.rev().max_by_key(|(_, range)| of(range)) else { break };
        let (range, dearer) = (range.clone(), |at: &usize| of(&(range.start..*at)).max(of(&(*at..range.end))));
        let at = (range.start + 1..range.end).min_by_key(dearer).expect("it has several units");
        shards.splice(dearest..=dearest, [range.start..at, at..range.end]);
    }
    shards.resize(count, costs.len()..costs.len());
    shards
}

/// As few ranges as have none that costs more than a limit, which no single element does; each as long as it can be.
fn filled(costs: &[u64], limit: u64) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut sum = 0;
    for (number, cost) in costs.iter().enumerate() {
        match ranges.last_mut() {
            Some(last) if sum + cost <= limit => {
                last.end += 1;
                sum += cost;
            }
            _ => {
                ranges.push(number..number + 1);
                sum = *cost;
            }
        }
    }
    ranges
}
