//! Which experts tokens were sent to, and how near others came to be chosen.

use std::collections::BTreeMap;

use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::weights::{LayerWeight, Weight};
use reference::{Error, Site};

/// Tokens that are remembered of an expert.
const REMEMBERED: usize = 16;

/// The choice that a layer made for each token of a chunk: scores with the correction bias, and the chosen experts.
pub(super) struct Choice {
    pub(super) site: Site,
    pub(super) scores: Array2<f64>,
    pub(super) chosen: Array2<usize>,
}

/// Experts of some layers, and the tokens that reached them.
pub(super) struct Reach {
    /// Tokens of each that are enough.
    needed: usize,
    experts: BTreeMap<(usize, usize), Expert>,
}

/// What is known of an expert.
#[derive(Debug, Clone, Default)]
struct Expert {
    /// Tokens of the prompt that chose it.
    tokens: usize,
    /// Some that did, among all that were tried.
    known: Vec<u32>,
    /// How far its score was from being chosen, at the least.
    short_by: f64,
    /// Tokens that were tried, and those that would have chosen it by scores without the bias.
    tried: usize,
    without_bias: usize,
}

/// An expert that too few tokens chose.
#[derive(Debug, Clone, PartialEq)]
pub struct Short {
    /// The layer.
    pub layer: usize,
    /// The expert.
    pub expert: usize,
    /// Tokens that chose it.
    pub tokens: usize,
    /// If no token ever did, why.
    pub never: Option<Never>,
}

/// Why no token that was tried chose an expert.
#[derive(Debug, Clone, PartialEq)]
pub struct Never {
    /// Tokens that were tried.
    pub tried: usize,
    /// By how much its score was below the last that was chosen, at the least.
    pub short_by: f64,
    /// Its correction bias, and the mean of the layer's.
    pub bias: [f64; 2],
    /// Tokens that would have chosen it by the score without the bias.
    pub without_bias: usize,
}

impl Reach {
    pub(super) fn new(layers: Vec<usize>, experts: usize, needed: usize) -> Self {
        let all = layers.into_iter().flat_map(|layer| (0..experts).map(move |expert| (layer, expert)));
        let expert = Expert { short_by: f64::INFINITY, ..Expert::default() };
        Reach { needed, experts: all.map(|place| (place, expert.clone())).collect() }
    }

    /// How many experts there are.
    pub(super) fn experts(&self) -> usize {
        self.experts.len()
    }

    /// Their layers.
    pub(super) fn layers(&self) -> impl Iterator<Item = usize> + '_ {
        self.experts.keys().filter(|(_, expert)| *expert == 0).map(|(layer, _)| *layer)
    }

    /// One more than the last of these.
    pub(super) fn end(&self) -> usize {
        self.layers().last().map_or(0, |layer| layer + 1)
    }

    /// Tokens that are known to reach each expert that too few of the prompt chose.
    pub(super) fn missing(&self) -> Vec<&[u32]> {
        self.experts.values().filter(|expert| expert.tokens < self.needed).map(|expert| &expert.known[..]).collect()
    }

    /// How many choices of a chunk are of experts that need them.
    pub(super) fn gain(&self, choices: &[Choice]) -> usize {
        let counts = counts(choices);
        let wanted = |(place, count): (&(usize, usize), &usize)| {
            let missing = self.experts.get(place).map_or(0, |expert| self.needed.saturating_sub(expert.tokens));
            missing.min(*count)
        };
        counts.iter().map(wanted).sum()
    }

    /// The chunk is the prompt's.
    pub(super) fn keep(&mut self, choices: &[Choice]) {
        for (place, count) in counts(choices) {
            self.experts.entry(place).and_modify(|expert| expert.tokens += count);
        }
    }

    /// Remembers what became of tokens that were tried; `bias` gives a layer's.
    pub(super) fn learn(&mut self, tokens: &[u32], choices: &[Choice], bias: &BTreeMap<usize, Vec<f64>>) {
        for Choice { site, scores, chosen } in choices {
            let Some(layer) = site.layer() else { continue };
            for ((row, chosen), token) in scores.rows().into_iter().zip(chosen.rows()).zip(tokens) {
                let last = chosen.iter().map(|expert| row[*expert]).fold(f64::INFINITY, f64::min);
                let plain = |expert: usize| row[expert] - bias.get(&layer).map_or(0.0, |bias| bias[expert]);
                let mut unbiased: Vec<f64> = (0..row.len()).map(plain).collect();
                unbiased.sort_by(|a, b| b.total_cmp(a));
                let last_unbiased = unbiased.get(chosen.len() - 1).copied().unwrap_or(f64::INFINITY);
                for (number, score) in row.iter().enumerate() {
                    let Some(expert) = self.experts.get_mut(&(layer, number)) else { break };
                    expert.tried += 1;
                    expert.without_bias += usize::from(plain(number) >= last_unbiased);
                    if !chosen.iter().any(|one| *one == number) {
                        expert.short_by = expert.short_by.min(last - score);
                    } else if expert.known.len() < REMEMBERED && !expert.known.contains(token) {
                        expert.known.push(*token);
                    }
                }
            }
        }
    }

    /// The experts that too few tokens chose.
    pub(super) fn short(&self, model: &Decoder<'_>) -> Result<Vec<Short>, Error> {
        let short = self.experts.iter().filter(|(_, expert)| expert.tokens < self.needed);
        let told = |(&(layer, number), expert): (&(usize, usize), &Expert)| {
            let never = if expert.known.is_empty() {
                let bias = bias(model, layer)?;
                let mean = bias.iter().sum::<f64>() / bias.len().max(1) as f64;
                let Expert { tried, short_by, without_bias, .. } = *expert;
                Some(Never { tried, short_by, bias: [bias[number], mean], without_bias })
            } else {
                None
            };
            Ok(Short { layer, expert: number, tokens: expert.tokens, never })
        };
        short.map(told).collect()
    }
}

/// The correction bias of a layer's router.
pub(super) fn bias(model: &Decoder<'_>, layer: usize) -> Result<Vec<f64>, Error> {
    let bias = model.weights().get(Weight::Layer(layer, LayerWeight::CorrectionBias))?;
    Ok(bias.dense::<f64>().into_iter().collect())
}

/// How often each expert of each layer was chosen.
fn counts(choices: &[Choice]) -> BTreeMap<(usize, usize), usize> {
    let mut counts = BTreeMap::new();
    for Choice { site, chosen, .. } in choices {
        for expert in chosen {
            *counts.entry((site.layer().unwrap_or(0), *expert)).or_default() += 1;
        }
    }
    counts
}
