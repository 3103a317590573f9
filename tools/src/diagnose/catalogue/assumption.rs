//! The reference with mistakes assumed.

use std::collections::BTreeMap;

use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::models::decoder::Decoder;
use reference::weights::{Weight, Weights};
use reference::{Error, Semantics, Site};

use super::mistake::{Assumed, Change};
use super::tensors::TensorChange;
use super::weights::WeightChange;
use crate::failure::Failure;

/// Mistakes, on top of a reading of the documents.
#[derive(Debug, Clone)]
pub struct Assumption {
    /// The reading, with the mistakes that change it in all layers.
    pub semantics: Semantics,
    /// The mistakes, in the order in which they were found.
    pub mistakes: Vec<Assumed>,
    /// Layers that are read otherwise.
    readings: BTreeMap<usize, Semantics>,
    changes: Vec<ChangedIn>,
    /// Layers that run in each other's place.
    pub(in crate::diagnose) order: Vec<(usize, usize)>,
    /// Sites that show what is not taken behind them.
    pub(in crate::diagnose) unseen: Vec<Site>,
}

/// A change of the weights of some layers, or of all.
#[derive(Debug, Clone)]
struct ChangedIn {
    change: WeightChange,
    layers: Option<Vec<usize>>,
}

/// Weights as a mistake loads them.
pub struct AssumedWeights<'w> {
    inner: &'w dyn Weights,
    config: Config,
    changes: Vec<ChangedIn>,
}

impl Assumption {
    /// No mistake.
    pub fn none(semantics: Semantics) -> Self {
        Assumption {
            semantics,
            mistakes: Vec::new(),
            readings: BTreeMap::new(),
            changes: Vec::new(),
            order: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// One more.
    pub fn and(&self, assumed: Assumed) -> Result<Self, Failure> {
        let mut more = self.clone();
        match (&assumed.change, assumed.layers.clone()) {
            (Change::Reading(field, value), None) => {
                more.semantics = more.semantics.with(field, value)?;
                for reading in more.readings.values_mut() {
                    *reading = reading.with(field, value)?;
                }
            }
            (Change::Reading(field, value), Some(layers)) => {
                for layer in layers {
                    let reading = more.readings.entry(layer).or_insert(self.semantics);
                    *reading = reading.with(field, value)?;
                }
            }
            (Change::Order(a, b), _) => more.order.push((*a, *b)),
            (Change::Unseen(site), _) => more.unseen.push(*site),
            (Change::Weights(change), layers) => more.changes.push(ChangedIn { change: change.clone(), layers }),
        }
        more.mistakes.push(assumed);
        Ok(more)
    }

    /// Several more.
    pub fn and_all<'a>(&self, assumed: impl IntoIterator<Item = &'a Assumed>) -> Result<Self, Failure> {
        assumed.into_iter().try_fold(self.clone(), |all, one| all.and(one.clone()))
    }

    /// The reading of a layer.
    pub fn reading(&self, layer: usize) -> Semantics {
        self.readings.get(&layer).copied().unwrap_or(self.semantics)
    }

    /// The weights under it.
    pub fn weights<'w>(&self, config: &Config, inner: &'w dyn Weights) -> AssumedWeights<'w> {
        // A layer that runs in another's place is that one with its weights.
        let ordered = self
            .order
            .iter()
            .map(|&(a, b)| ChangedIn { change: WeightChange::Tensor(TensorChange::Layers(a, b)), layers: None });
        let changes = self.changes.iter().cloned().chain(ordered).collect();
        AssumedWeights { inner, config: config.clone(), changes }
    }

    /// The model under it.
    pub fn model<'w>(&self, config: &Config, weights: &'w AssumedWeights<'_>) -> Result<Decoder<'w>, Error> {
        let model = Decoder::new(config, self.semantics, weights)?;
        self.readings.iter().try_fold(model, |model, (layer, reading)| model.with_layer(*layer, config, *reading))
    }
}

impl AssumedWeights<'_> {
    fn changed(&self, changes: &[ChangedIn], weight: Weight) -> Result<Matrix<'_>, WeightError> {
        let Some((last, before)) = changes.split_last() else { return self.inner.get(weight) };
        match (&last.layers, weight) {
            (Some(layers), Weight::Layer(layer, _)) if !layers.contains(&layer) => self.changed(before, weight),
            // What is taken of another tensor is the checkpoint's, whatever is assumed of that.
            _ => last.change.apply(weight, &self.config, &|wanted| {
                if wanted == weight { self.changed(before, wanted) } else { self.inner.get(wanted) }
            }),
        }
    }
}

impl Weights for AssumedWeights<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        self.changed(&self.changes, weight)
    }
}
