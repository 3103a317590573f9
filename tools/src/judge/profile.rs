//! Which documented precision a candidate was computed in: the one whose twin has most of its values.
//!
//! Agreement chooses among what engines' profiles document; it decides no value, no bound and no verdict.

mod evidence;

use std::collections::BTreeSet;
use std::ops::Range;

use fixtures::names::at::At;
use reference::config::{Config, FeedForward};
use reference::error::ParseError;
use reference::profiles::{PROFILES, Profile};
use reference::{RoundingContract, Site, Storage};

use super::agreement::{Agreement, OF_SUMS};
use super::compared::Compared;
use super::comparison::Comparison;
use super::lens::Lens;
use super::stored::storage_at;
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

/// By what share more bits have to agree for another profile to count where values were converted when they were saved: a quarter
/// of a bit of f32's 24, for what precisions differ by is in the last of those that are left. Of two as good the first stays.
pub const MORE: f64 = 0.01;

/// The share of values that equal the twin's, at every site, from which on no other precision is tried: none could explain more than one
/// in two hundred of any site's.
const ALL: f64 = 0.995;

/// Runs in other orders by which is predicted how many values are others.
const ORDERS: usize = 2;

/// How a candidate stands to a contract's twin.
#[derive(Debug, Clone, Copy)]
struct Agreed {
    /// The share of values that are equal, as a mean over sites.
    share: f64,
    /// The share of bits that agree, alike.
    bits: f64,
    /// The share of values that are equal at the site where fewest are.
    least: f64,
}

/// What is known of a precision before it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'s> {
    /// What activations are stored in.
    pub activations: Storage,
    /// What values were converted to when they were saved; [`Storage::Real`] where they are as they were.
    pub saved: Storage,
    /// What autocast stored products in; [`Storage::Real`] where there was none.
    pub autocast: Storage,
    /// What the residual stream was kept in; [`Storage::Real`] where it was the activations' type.
    pub stream: Storage,
    /// Who computed, in lower case.
    pub engine: Option<&'s str>,
}

impl Sought<'_> {
    /// As what activations are stored in says.
    pub fn of(activations: Storage) -> Self {
        let (saved, autocast, stream) = (Storage::Real, Storage::Real, Storage::Real);
        Sought { activations, saved, autocast, stream, engine: None }
    }
}

/// Among the profiles that store activations in the sought type, and of the engine if it has any, the one and its modes that agree
/// best. Where values were converted when they were saved, too little is left to tell modes apart, and each profile is
/// tried in its own alone. `None` where no such profile is known, or the candidate shows nothing to tell them apart by.
pub fn find(compared: &Compared<'_>, sought: &Sought<'_>) -> Result<Option<FoundPrecision>, Failure> {
    let Sought { activations, saved, autocast, stream, engine } = *sought;
    let stores = |profile: &&Profile| {
        let RoundingContract { activations: own, autocast: cast, stream: kept, .. } = profile.contract;
        (own, cast.results(), kept) == (activations, autocast, stream)
    };
    let of_engine = |profile: &&Profile| engine.is_some_and(|engine| engine.contains(profile.engine));
    let known: Vec<&Profile> = PROFILES.iter().filter(stores).collect();
    let named: Vec<&Profile> = known.iter().copied().filter(|profile| of_engine(profile)).collect();
    let mut best: Option<FoundPrecision> = None;
    // Profiles' modes lead to the same contracts.
    let mut tried: Vec<(RoundingContract, Option<Agreed>)> = Vec::new();
    let mut agreement = |contract: RoundingContract| {
        if let Some((_, agreed)) = tried.iter().find(|(other, _)| *other == contract) {
            return Ok(*agreed);
        }
        let agreed = means(compared.agreements(contract, 0)?, |_| true);
        tried.push((contract, agreed));
        Ok(agreed)
    };
    // Where several begin alike, a later one goes on from what the first has found.
    let mut begun: Vec<(RoundingContract, RoundingContract)> = Vec::new();
    let profiles = if named.is_empty() { known } else { named };
    if let Some(first) = profiles.first().filter(|_| saved == Storage::Real)
        && compared.is_as_predicted(first.contract)?
    {
        return plain(first, first.contract, &mut agreement);
    }
    // What is saved in more bits than it was computed in tells as much as it did.
    let is_coarse = saved.unit_roundoff() > activations.unit_roundoff();
    for profile in profiles {
        let own = RoundingContract { saved, ..profile.contract };
        let contract = begun.iter().find(|(other, _)| *other == own).map_or(own, |(_, found)| *found);
        let (found, more) = if is_coarse {
            (plain(profile, contract, &mut agreement)?, MORE)
        } else {
            let more = if activations == Storage::F32 { OF_SUMS } else { 0.0 };
            (compared.best_mode(profile, contract, more, &mut agreement)?, more)
        };
        let Some(found) = found else { continue };
        begun.push((own, found.contract));
        let is_all = agreement(found.contract)?.is_some_and(Agreed::is_all);
        best = better(best, Some(found), more);
        if is_all {
            break;
        }
    }
    Ok(best)
}

/// The first of the profiles in which all is f32.
pub fn plain_f32() -> &'static Profile {
    let is_plain = |profile: &&Profile| profile.contract.activations == Storage::F32 && !profile.contract.narrows();
    PROFILES.iter().find(is_plain).expect("transformers' is")
}

/// A profile in its own mode; `None` where the candidate shows nothing to agree with.
pub fn in_profile(compared: &Compared<'_>, profile: &'static Profile) -> Result<Option<FoundPrecision>, Failure> {
    plain(profile, profile.contract, &mut |contract| Ok(means(compared.agreements(contract, 0)?, |_| true)))
}

/// The first of two, unless so much more bits agree with the second.
pub fn better(one: Option<FoundPrecision>, other: Option<FoundPrecision>, more: f64) -> Option<FoundPrecision> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.bits > one.bits + more { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// A profile in one mode.
fn plain(
    profile: &'static Profile,
    contract: RoundingContract,
    agreement: &mut impl FnMut(RoundingContract) -> Result<Option<Agreed>, Failure>,
) -> Result<Option<FoundPrecision>, Failure> {
    Ok(agreement(contract)?.map(|agreed| agreed.found(contract, profile.name)))
}

impl Agreed {
    fn found(self, contract: RoundingContract, profile: &'static str) -> FoundPrecision {
        let Agreed { share, bits, .. } = self;
        FoundPrecision { contract, share, bits, profile }
    }

    /// Whether next to nothing is left to explain at any site.
    fn is_all(self) -> bool {
        self.least >= ALL
    }
}

impl Compared<'_> {
    /// A profile's modes are tried point by point, until none agrees in `more` more bits.
    fn best_mode(
        &self,
        profile: &'static Profile,
        contract: RoundingContract,
        more: f64,
        agreement: &mut impl FnMut(RoundingContract) -> Result<Option<Agreed>, Failure>,
    ) -> Result<Option<FoundPrecision>, Failure> {
        let Some(mut agreed) = agreement(contract)? else { return Ok(None) };
        let mut best = agreed.found(contract, profile.name);
        // Of what is f32 throughout, ranks' partial sums are sums in another order.
        let is_of_sums = |contract: &RoundingContract| {
            contract.ranks > 1 && contract.activations == Storage::F32 && !contract.narrows()
        };
        // Images alone are convolved, and what is narrower is TF32 as it is.
        let convolves = self.media.is_some() && contract.activations == Storage::F32;
        loop {
            let before = best.bits;
            for others in profile.modes {
                // As usual first: any other way of this point is taken back.
                let usual = usual(best.contract, &profile.contract, others)?;
                let ways = others.iter().map(|way| usual.in_way(way));
                for contract in std::iter::once(Ok(usual)).chain(ways) {
                    let contract = contract?;
                    let as_plain = self.config.quantization.is_none() && contract.inputs != best.contract.inputs;
                    let as_plain = as_plain || contract.convolutions != best.contract.convolutions && !convolves;
                    if agreed.is_all() || contract == best.contract || as_plain || is_of_sums(&contract) {
                        continue;
                    }
                    if let Some(own) = agreement(contract)?.filter(|own| own.bits > best.bits + more) {
                        (agreed, best) = (own, own.found(contract, profile.name));
                    }
                }
            }
            if best.bits <= before {
                return Ok(Some(best));
            }
        }
    }

    /// The share of values that equal the twin's at some sites; `None` where none of these is shown.
    pub fn share_at(&self, contract: RoundingContract, is_of: fn(Site) -> bool) -> Result<Option<f64>, Failure> {
        let of_sites = self.agreements(contract, 0)?.into_iter().filter(|(at, _)| is_of(at.site));
        let (count, equal) =
            of_sites.fold((0, 0), |(count, equal), (_, agreement)| (count + agreement.count, equal + agreement.equal));
        Ok((count > 0).then(|| equal as f64 / count as f64))
    }

    /// The shares of values that equal the twin's and of bits that agree, as means over the sites that are wanted; `None` where
    /// none of these is shown.
    pub fn agreement_at(
        &self,
        contract: RoundingContract,
        is_wanted: impl Fn(Site) -> bool,
    ) -> Result<Option<(f64, f64)>, Failure> {
        Ok(means(self.agreements(contract, 0)?, is_wanted).map(|Agreed { share, bits, .. }| (share, bits)))
    }

    /// The share of bits that agree, as a mean over some sites: those in the first layers, or else in the first layer that has any.
    pub fn bits_at(&self, contract: RoundingContract, sites: &BTreeSet<Site>) -> Result<Option<f64>, Failure> {
        let (layers, first) = (self.config.num_hidden_layers, telling_layers(self.config));
        let Some(nearest) = sites.iter().map(|site| layer_of(*site, layers)).min() else { return Ok(None) };
        let telling = if nearest < first { 0..first } else { nearest..nearest + 1 };
        let agreements = self.agreements_in(contract, telling, 0)?;
        Ok(means(agreements, |site| sites.contains(&site)).map(|agreed| agreed.bits))
    }

    /// How many values equal the twin's, in all layers and forward passes.
    pub fn equal_in_all(&self, contract: RoundingContract) -> Result<usize, Failure> {
        let agreements = self.agreements_of(contract, 0..self.config.num_hidden_layers, 0)?;
        Ok(agreements.iter().map(|(_, agreement)| agreement.equal).sum())
    }

    /// Whether at each of some sites as few values are not the twin's as a right candidate may have; of what is stored in f32, as a
    /// router's weights are, a function's last bit may be any.
    pub fn is_right_at(&self, contract: RoundingContract, is_of: fn(Site) -> bool) -> Result<bool, Failure> {
        let agreements = self.agreements(contract, ORDERS)?;
        let is_right = |(at, agreement): &(At, Agreement)| {
            let is_wide = storage_at(at.site, &contract) == Storage::F32;
            agreement.is_right() || is_wide && agreement.has_predicted_bits(Storage::F32)
        };
        Ok(agreements.iter().filter(|(at, _)| is_of(at.site)).all(is_right))
    }

    /// Whether at every site no more values are others than sums in other orders make so.
    fn is_as_predicted(&self, contract: RoundingContract) -> Result<bool, Failure> {
        let agreements = self.agreements(contract, ORDERS)?;
        Ok(!agreements.is_empty()
            && agreements.iter().all(|(_, agreement)| agreement.is_as_predicted(contract.activations)))
    }

    /// How values stand to the twin's in the first layers and the first forward pass; where nothing of these layers is shown, in
    /// all. By so many runs in other orders is predicted how many values are others.
    fn agreements(&self, contract: RoundingContract, orders: usize) -> Result<Vec<(At, Agreement)>, Failure> {
        self.agreements_until(1, contract, orders)
    }

    /// The same in so many forward passes, if there are as many.
    fn agreements_until(
        &self,
        passes: usize,
        contract: RoundingContract,
        orders: usize,
    ) -> Result<Vec<(At, Agreement)>, Failure> {
        let (first, layers) = (telling_layers(self.config), self.config.num_hidden_layers);
        let some = Compared { steps: &self.steps[..passes.min(self.steps.len())], ..*self };
        let is_first = |site: &Site| layer_of(*site, layers) < first;
        let is_shown = |site: Site| self.candidate.has(At { step: 0, site });
        let mut agreements = Vec::new();
        if first < layers && Site::all(self.config).filter(is_first).any(is_shown) {
            agreements = some.agreements_of(contract, 0..first, orders)?;
        }
        if agreements.is_empty() {
            agreements = some.agreements_of(contract, 0..layers, orders)?;
        }
        Ok(agreements)
    }

    /// The same in the first forward pass, and some layers.
    fn agreements_in(
        &self,
        contract: RoundingContract,
        layers: Range<usize>,
        orders: usize,
    ) -> Result<Vec<(At, Agreement)>, Failure> {
        Compared { steps: &self.steps[..1], ..*self }.agreements_of(contract, layers, orders)
    }

    /// The same in all forward passes.
    fn agreements_of(
        self,
        contract: RoundingContract,
        layers: Range<usize>,
        orders: usize,
    ) -> Result<Vec<(At, Agreement)>, Failure> {
        let comparison = Comparison::new(self, contract);
        let model = comparison.model()?;
        comparison.verification(&model, &[Lens::Local], layers).agreements_beside(orders)
    }
}

/// How values stand to the twin's at the sites that are wanted; `None` where there are none.
fn means(mut agreements: Vec<(At, Agreement)>, is_wanted: impl Fn(Site) -> bool) -> Option<Agreed> {
    agreements.retain(|(at, _)| is_wanted(at.site));
    let mean = |of: fn(&Agreement) -> f64| {
        agreements.iter().map(|(_, agreement)| of(agreement)).sum::<f64>() / agreements.len() as f64
    };
    let bits = |agreement: &Agreement| if agreement.bits < NOTHING { 0.0 } else { agreement.bits };
    let least = agreements.iter().map(|(_, agreement)| agreement.share()).fold(1.0, f64::min);
    (!agreements.is_empty()).then(|| Agreed { share: mean(Agreement::share), bits: mean(bits), least })
}

/// The share of bits below which a site has none in common with the twin: three of 24, an eighth of the values' size. What is wrong
/// there is no rounding, and tells nothing of it.
const NOTHING: f64 = 0.125;

/// The first layers, until two with experts are among them, or all that there are, and one that chooses blocks of keys if there is
/// one.
fn telling_layers(config: &Config) -> usize {
    let of_experts = |layer: &usize| config.layer(*layer).feed_forward != FeedForward::Dense;
    let sparse = (0..config.num_hidden_layers).find(|layer| config.index_of(*layer).is_some());
    let experts = (0..config.num_hidden_layers).filter(of_experts).take(2).last();
    experts.max(sparse).map_or(config.num_hidden_layers, |last| last + 1)
}

/// The layer with which a site is run, of so many: what stands before all with the first, what follows with the last.
fn layer_of(site: Site, layers: usize) -> usize {
    match site {
        Site::FinalNorm | Site::LmHead | Site::Logits => layers - 1,
        site => site.layer().unwrap_or(0),
    }
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
