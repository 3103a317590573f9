//! Which documented precision a candidate was computed in: the one whose twin has most of its values.
//!
//! Agreement chooses among what engines' profiles document; it decides no value, no bound and no verdict.

use reference::config::{Config, FeedForward};
use reference::error::ParseError;
use reference::profiles::{PROFILES, Profile};
use reference::{RoundingContract, Storage};

use super::agreement::Agreement;
use super::compared::Compared;
use super::comparison::Comparison;
use super::lens::Lens;
use crate::failure::Failure;

/// A precision that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPrecision {
    /// The precision.
    pub contract: RoundingContract,
    /// The share of values that equal its twin's, as a mean over the sites that the candidate shows.
    pub share: f64,
    /// The share of bits that agree, which tells precisions apart whose twins have few values in common.
    pub bits: f64,
    /// The profile that documents it.
    pub profile: &'static str,
}

/// Among the profiles that store activations in `activations`, and of the engine if it has any, the modes that agree best.
/// `None` where no such profile is known, or the candidate shows nothing to tell them apart by.
pub fn find(
    compared: &Compared<'_>,
    activations: Storage,
    engine: Option<&str>,
) -> Result<Option<FoundPrecision>, Failure> {
    let stores = |profile: &&Profile| profile.contract.activations == activations;
    let of_engine = |profile: &&Profile| engine.is_some_and(|engine| engine.contains(profile.engine));
    let known: Vec<&Profile> = PROFILES.iter().filter(stores).collect();
    let named: Vec<&Profile> = known.iter().copied().filter(|profile| of_engine(profile)).collect();
    let mut best: Option<FoundPrecision> = None;
    for profile in if named.is_empty() { known } else { named } {
        let Some(found) = compared.best_mode(profile)? else { continue };
        if best.as_ref().is_none_or(|best| found.bits > best.bits) {
            best = Some(found);
        }
    }
    Ok(best)
}

impl Compared<'_> {
    /// A profile's modes are tried point by point, until none agrees better.
    fn best_mode(&self, profile: &'static Profile) -> Result<Option<FoundPrecision>, Failure> {
        let Some((share, bits)) = self.agreement(profile.contract)? else { return Ok(None) };
        let mut best = FoundPrecision { contract: profile.contract, share, bits, profile: profile.name };
        loop {
            let before = best.bits;
            for others in profile.modes {
                // As usual first: any other way of this point is taken back.
                let usual = usual(best.contract, &profile.contract, others)?;
                let ways = others.iter().map(|way| usual.in_way(way));
                for contract in std::iter::once(Ok(usual)).chain(ways) {
                    let contract = contract?;
                    let as_plain = self.config.quantization.is_none() && contract.inputs != best.contract.inputs;
                    if contract == best.contract || as_plain {
                        continue;
                    }
                    match self.agreement(contract)? {
                        Some((share, bits)) if bits > best.bits => {
                            best = FoundPrecision { contract, share, bits, ..best };
                        }
                        _ => {}
                    }
                }
            }
            if best.bits <= before {
                return Ok(Some(best));
            }
        }
    }

    /// The shares of values that equal the twin's and of bits that agree, in the first layers and the first forward pass; where
    /// nothing of these layers is shown, in all.
    fn agreement(&self, contract: RoundingContract) -> Result<Option<(f64, f64)>, Failure> {
        let comparison = Comparison::new(Compared { steps: &self.steps[..1], ..*self }, contract);
        let model = comparison.model()?;
        let of = |layers| comparison.verification(&model, &[Lens::Local], 0..layers).agreements();
        let mut agreements = of(telling_layers(model.config()))?;
        if agreements.is_empty() {
            agreements = of(model.config().num_hidden_layers)?;
        }
        let mean = |of: fn(&Agreement) -> f64| {
            agreements.iter().map(|(_, agreement)| of(agreement)).sum::<f64>() / agreements.len() as f64
        };
        let share = mean(|agreement| agreement.equal as f64 / agreement.count.max(1) as f64);
        let bits = |agreement: &Agreement| if agreement.bits < NOTHING { 0.0 } else { agreement.bits };
        Ok((!agreements.is_empty()).then(|| (share, mean(bits))))
    }
}

/// The share of bits below which a site has none in common with the twin: three of 24, an eighth of the values' size. What is wrong
/// there is no rounding, and tells nothing of it.
const NOTHING: f64 = 0.125;

/// The first layers, until two with experts are among them, and one that chooses blocks of keys if there is one.
fn telling_layers(config: &Config) -> usize {
    let of_experts = |layer: &usize| config.layer(*layer).feed_forward != FeedForward::Dense;
    let sparse = (0..config.num_hidden_layers).find(|layer| config.index_of(*layer).is_some());
    let second = (0..config.num_hidden_layers).filter(of_experts).nth(1);
    second.max(sparse).map_or(config.num_hidden_layers, |last| last + 1)
}

/// A contract with a profile's own values in the fields that a point's ways set.
fn usual(
    contract: RoundingContract,
    profile: &RoundingContract,
    ways: &[&str],
) -> Result<RoundingContract, ParseError> {
    let set = |name: &str| ways.iter().flat_map(|way| way.split(',')).any(|part| part.split('=').next() == Some(name));
    let own = profile.fields().into_iter().filter(|(name, _)| set(name));
    own.into_iter().try_fold(contract, |contract, (name, value)| contract.with(name, &value))
}
