//! The reference with mistakes assumed.

use std::collections::BTreeMap;

use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::models::decoder::Decoder;
use reference::weights::{Weight, Weights};
use reference::{Error, Semantics, Site};

use super::instead::Instead;
use super::mistake::{Assumed, Calls, Change};
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
    /// What is assumed of calls that begin at a position or later, where that is something else.
    later: BTreeMap<usize, Assumption>,
    /// Layers that run in each other's place.
    pub(in crate::diagnose) order: Vec<(usize, usize)>,
    /// Sites that show what is not taken behind them.
    pub(in crate::diagnose) unseen: Vec<Site>,
    /// Tensors that hold other sites' values.
    pub(in crate::diagnose) instead: Vec<Instead>,
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
    /// Those of later calls.
    later: BTreeMap<usize, AssumedWeights<'w>>,
}

impl Assumption {
    /// No mistake.
    pub fn none(semantics: Semantics) -> Self {
        Assumption {
            semantics,
            mistakes: Vec::new(),
            readings: BTreeMap::new(),
            changes: Vec::new(),
            later: BTreeMap::new(),
            order: Vec::new(),
            unseen: Vec::new(),
            instead: Vec::new(),
        }
    }

    /// Whether all that is assumed is a reading, in all layers and calls.
    pub(in crate::diagnose) fn is_reading(&self) -> bool {
        let Assumption { semantics: _, mistakes: _, readings, changes, later, order, unseen, instead } = self;
        let is_more = !unseen.is_empty() || !instead.is_empty() || !order.is_empty();
        readings.is_empty() && changes.is_empty() && later.is_empty() && !is_more
    }

    /// One more.
    pub fn and(&self, assumed: Assumed) -> Result<Self, Failure> {
        let mut more = self.clone();
        let Calls { from, until } = assumed.calls.unwrap_or(Calls::ALL);
        for begin in [Some(from), until].into_iter().flatten().filter(|begin| *begin > 0) {
            let before = more.later.range(..begin).next_back().map_or(self, |(_, before)| before);
            let before = Assumption { later: BTreeMap::new(), ..before.clone() };
            more.later.entry(begin).or_insert(before);
        }
        if from == 0 {
            more.make(&assumed)?;
        }
        let is_made = |begin: &usize| from <= *begin && until.is_none_or(|until| *begin < until);
        for (_, later) in more.later.iter_mut().filter(|(begin, _)| is_made(begin)) {
            later.make(&assumed)?;
        }
        more.mistakes.push(assumed);
        Ok(more)
    }

    /// One more, in the calls that this is of.
    fn make(&mut self, assumed: &Assumed) -> Result<(), Failure> {
        match (&assumed.change, assumed.layers.clone()) {
            (Change::Reading(field, value), None) => {
                self.semantics = self.semantics.with(field, value)?;
                for reading in self.readings.values_mut() {
                    *reading = reading.with(field, value)?;
                }
            }
            (Change::Reading(field, value), Some(layers)) => {
                for layer in layers {
                    let reading = self.readings.entry(layer).or_insert(self.semantics);
                    *reading = reading.with(field, value)?;
                }
            }
            (Change::Order(pairs), _) => self.order.extend(pairs),
            (Change::Unseen(site), _) => self.unseen.push(*site),
            // It is in how the candidate is read.
            (Change::Padding, _) => {}
            (Change::Captured(instead), _) => self.instead.extend(instead),
            (Change::Weights(change), layers) => self.changes.push(ChangedIn { change: change.clone(), layers }),
        }
        Ok(())
    }

    /// Several more.
    pub fn and_all<'a>(&self, assumed: impl IntoIterator<Item = &'a Assumed>) -> Result<Self, Failure> {
        assumed.into_iter().try_fold(self.clone(), |all, one| all.and(one.clone()))
    }

    /// The reading of a layer.
    pub fn reading(&self, layer: usize) -> Semantics {
        self.readings.get(&layer).copied().unwrap_or(self.semantics)
    }

    /// A model's configuration as a layer has it.
    pub(in crate::diagnose) fn config(&self, config: &Config, layer: usize) -> Config {
        config.under(&self.reading(layer))
    }

    /// The weights under it.
    pub fn weights<'w>(&self, config: &Config, inner: &'w dyn Weights) -> AssumedWeights<'w> {
        // A layer that runs in another's place is that one with its weights.
        let ordered = self
            .order
            .iter()
            .map(|&(a, b)| ChangedIn { change: WeightChange::Tensor(TensorChange::Layers(a, b)), layers: None });
        let changes = self.changes.iter().cloned().chain(ordered).collect();
        let later = self.later.iter().map(|(from, later)| (*from, later.weights(config, inner))).collect();
        AssumedWeights { inner, config: config.clone(), changes, later }
    }

    /// The model under it.
    pub fn model<'w>(&self, config: &Config, weights: &'w AssumedWeights<'_>) -> Result<Decoder<'w>, Error> {
        let mut model = Decoder::new(config, self.semantics, weights)?;
        for (layer, reading) in &self.readings {
            model = model.with_layer(*layer, config, *reading)?;
        }
        for (from, later) in &self.later {
            model = model.with_calls(*from, later.model(config, &weights.later[from])?);
        }
        Ok(model)
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
