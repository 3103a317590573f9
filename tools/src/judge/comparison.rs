//! A comparison: a candidate whose precision is known, and the reference under that precision.

use std::ops::Range;

use fixtures::checkpoint::held::HeldWeights;
use fixtures::names::at::At;
use reference::models::decoder::Decoder;
use reference::{Error, RoundingContract};

use super::candidate::other_size;
use super::compared::Compared;
use super::lens::Lens;
use super::verification::{Verification, extent};

/// What is compared, and how the candidate rounds.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// The candidate, the model and the request.
    pub(crate) compared: Compared<'a>,
    /// How the candidate rounds.
    pub(crate) contract: RoundingContract,
    /// Whether that was found in its values, and may be found to be another once it is known what else they have.
    pub(crate) is_found: bool,
    /// The model's weights, as the candidate's implementation holds them.
    pub(crate) weights: HeldWeights<'a>,
}

impl<'a> Comparison<'a> {
    /// With a candidate that rounds so.
    pub fn new(compared: Compared<'a>, contract: RoundingContract) -> Self {
        Comparison {
            compared,
            contract,
            is_found: false,
            weights: HeldWeights::under(&contract, compared.config.norm_weight, compared.weights),
        }
    }

    /// The reference.
    pub fn model(&self) -> Result<Decoder<'_>, Error> {
        let Compared { config, semantics, media, hidden, .. } = self.compared;
        Ok(Decoder::new(config, semantics, &self.weights)?.seeing(media).reading(hidden))
    }

    /// Whether the candidate shows a site in a step, of the size that it has in the model.
    pub(crate) fn shows(&self, at: At) -> bool {
        let Compared { candidate, config, steps, media, .. } = self.compared;
        candidate.has(at) && other_size(candidate, config, at, extent(steps, media, at.step)).is_none()
    }

    /// The lenses on their way through some of the reference's layers.
    pub fn verification<'v>(&self, model: &'v Decoder<'v>, lenses: &'v [Lens], layers: Range<usize>) -> Verification<'v>
    where
        'a: 'v,
    {
        let Compared { candidate, steps, prompt, .. } = self.compared;
        Verification { model, candidate, contract: self.contract, steps, prompt, lenses, layers, keep: None }
    }
}
