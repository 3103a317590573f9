//! The reference with mistakes assumed.

use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::models::decoder::Decoder;
use reference::weights::{Weight, Weights};
use reference::{Error, Semantics};

use super::mistake::{Assumed, Change};
use super::weights::WeightChange;
use crate::failure::Failure;

/// Mistakes, on top of a reading of the documents.
#[derive(Debug, Clone)]
pub struct Assumption {
    /// The reading, with the mistakes that change it.
    pub semantics: Semantics,
    /// The mistakes, in the order in which they were found.
    pub mistakes: Vec<Assumed>,
    changes: Vec<WeightChange>,
}

/// Weights as a mistake loads them.
pub struct AssumedWeights<'w> {
    inner: &'w dyn Weights,
    config: Config,
    changes: Vec<WeightChange>,
}

impl Assumption {
    /// No mistake.
    pub fn none(semantics: Semantics) -> Self {
        Assumption { semantics, mistakes: Vec::new(), changes: Vec::new() }
    }

    /// One more.
    pub fn and(&self, assumed: Assumed) -> Result<Self, Failure> {
        let mut more = self.clone();
        match &assumed.change {
            Change::Reading(field, value) => more.semantics = more.semantics.with(field, value)?,
            Change::Weights(change) => more.changes.push(*change),
        }
        more.mistakes.push(assumed);
        Ok(more)
    }

    /// The weights under it.
    pub fn weights<'w>(&self, config: &Config, inner: &'w dyn Weights) -> AssumedWeights<'w> {
        AssumedWeights { inner, config: config.clone(), changes: self.changes.clone() }
    }

    /// The model under it.
    pub fn model<'w>(&self, config: &Config, weights: &'w AssumedWeights<'_>) -> Result<Decoder<'w>, Error> {
        Decoder::new(config, self.semantics, weights)
    }
}

impl AssumedWeights<'_> {
    fn changed(&self, changes: &[WeightChange], weight: Weight) -> Result<Matrix<'_>, WeightError> {
        match changes.split_last() {
            None => self.inner.get(weight),
            Some((last, before)) => last.apply(weight, &self.config, |weight| self.changed(before, weight)),
        }
    }
}

impl Weights for AssumedWeights<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        self.changed(&self.changes, weight)
    }
}
