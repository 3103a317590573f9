//! Names that nobody knows, told by values: names that are one but for a layer's number are those of the site whose values, as the
//! reference computes them from the tokens, are by far the nearest to theirs.

use fixtures::activations::manifest::Manifest;
use fixtures::names::at::At;
use fixtures::names::families::{Family, Taken, Told};
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use ndarray::Array2;
use reference::{LayerSite, Semantics, Site};

use super::computed::Computed;
use super::model::Model;
use super::teller::{FURTHER, Known, Most, Tokens, places, read};
use crate::failure::Failure;

/// How far a tensor may be from what it is, where most of the dump is known by names: behind these, roundings to bf16 leave less.
const CLOSE: f64 = 1.0 / 64.0;

/// Whether fewer than half of the names are known.
pub(super) fn are_unknown(dump: &Sited) -> bool {
    2 * dump.reading().unknown.len() > dump.dump().names().count()
}

/// A dump with names that are told by values, where a prompt is known; `None` where there is none, or no name is told.
pub(super) fn told(
    values: &Sited,
    given: Option<&str>,
    reading: (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Option<Sited>, Failure> {
    let Some(known) = Known::of(values, given, reading, manifest)? else { return Ok(None) };
    // What a word alone means among names that nobody knows, values tell as well.
    let unsure = values.forgetting(&values.bare());
    let values = &unsure;
    let stacked = match values.unstacked(known.tokens.all.len()) {
        Some(stacked) if !are_unknown(&stacked) => return Ok(Some(stacked)),
        stacked => stacked,
    };
    let tellers = [Some(values), stacked.as_ref()].into_iter().flatten();
    let told = tellers.map(|values| (values, known.teller(values).most_that_are_told()));
    let (values, most) = told.rev().max_by_key(|(_, most)| most.tensors).expect("one is as it is");
    if most.found.is_empty() {
        return Ok(None);
    }
    let is_all = most.tensors == values.reading().unknown.len();
    let (known, most) = if is_all { (known, most) } else { known.told_further(values, most, reading)? };
    let most = most.found;
    Ok(Some(known.displacing(read_as(values, &most).knowing(values), most)))
}

/// The dump under the names that these families were told to be.
fn read_as(values: &Sited, told: &[(Family, Told)]) -> Sited {
    let own = NameMap::of_families(told.iter().map(|(family, told)| (family, told.meant)));
    let maps: Vec<NameMap> = NameMap::shipped().into_iter().map(|map| own.over(map)).collect();
    values.under_maps(&maps)
}

/// A dump of one call of whose names, numbers alone, nothing is known, that are told by values; `None` where fewer than half are.
pub(super) fn told_of_numbers(
    values: &Sited,
    given: Option<&str>,
    reading: (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Option<Sited>, Failure> {
    let Some(known) = Known::of(values, given, reading, manifest)? else { return Ok(None) };
    let Most { tensors, found: most } = known.teller(values).most_that_are_told();
    let are_most = 2 * tensors > values.dump().names().count();
    let told = || most.iter().map(|(_, told)| told.clone()).collect();
    Ok(are_most.then(|| values.under_families(&most).having_told(told())))
}

/// A dump of whose names most are known, with the rest that values tell, of sites that are nothing else's: of a family one tensor at
/// least is as near as rounding leaves it. What is near none so, and only nearer to one than to all others, is not taken for it.
pub(super) fn told_beside(
    values: &Sited,
    given: Option<&str>,
    reading: (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Option<Sited>, Failure> {
    if values.reading().unknown.is_empty() {
        return Ok(None);
    }
    let Some(tokens) = Tokens::of(values, given, reading.0, manifest)? else { return Ok(None) };
    let named = values.reading().values.iter().filter(|(at, place)| at.step == 0 && place.sites.len() == 1);
    let own =
        named.filter(|(at, _)| is_plain(at.site)).filter_map(|(at, place)| finite(values, &place.tensor, at.site));
    let computed = Computed::from(own.collect(), &tokens.all, reading)?;
    let known = Known { tokens, computed };
    let teller = known.teller(values);
    let mut most = teller.most_that_are_told().found;
    most.retain(|one| places(one).all(|((site, _), _)| is_plain(site) && holder(values, site).is_none()));
    let is_close = |one: &(Family, Told)| {
        places(one).any(|((site, tensor), _)| teller.apart_at(&tensor, site).is_some_and(|apart| apart <= CLOSE))
    };
    let (close, unsure): (Vec<_>, Vec<_>) = most.into_iter().partition(is_close);
    let as_taken = |taken: Taken| move |(_, told): &(Family, Told)| Told { taken, ..told.clone() };
    let all = close.iter().map(as_taken(Taken::Beside)).chain(unsure.iter().map(as_taken(Taken::Not)));
    let all: Vec<Told> = all.collect();
    if all.is_empty() {
        return Ok(None);
    }
    Ok(Some(values.shared().knowing(&read_as(values, &close)).having_told(all)))
}

/// A tensor as a site's values, where all of them are numbers.
fn finite(values: &Sited, tensor: &str, site: Site) -> Option<(Site, Array2<f64>)> {
    let shown = read(values, tensor, site)?;
    shown.iter().all(|x| x.is_finite()).then_some((site, shown))
}

/// Whether a site's values are no choice, nor what is made of one.
fn is_plain(site: Site) -> bool {
    !matches!(site, Site::Layer(_, LayerSite::GateWeights)) && !site.is_choice()
}

impl Known {
    /// What is told by what the reference computes from what is told already, if that is more: roundings of all layers before, or a fault
    /// there, do not move it. With it what was computed.
    fn told_further(self, values: &Sited, told: Most, reading: (&Model, &Semantics)) -> Result<(Self, Most), Failure> {
        let shown = told.found.iter().flat_map(places).map(|(shown, _)| shown);
        let own = shown.filter(|(site, _)| is_plain(*site)).filter_map(|(site, tensor)| finite(values, &tensor, site));
        let computed = Computed::from(own.collect(), &self.tokens.all, reading)?;
        let further = Known { tokens: self.tokens, computed };
        let again = further.teller(values).most_that_are_told();
        let is_more = again.tensors > told.tensors;
        Ok(if is_more { (further, again) } else { (Known { computed: self.computed, ..further }, told) })
    }

    /// The same dump of one call, in which a list of a bare name, such as `h`, which is taken for the stream behind each layer, is what
    /// values tell, where they are much further from that, or others are that.
    fn displacing(&self, values: Sited, mut told: Vec<(Family, Told)>) -> Sited {
        let having = |values: Sited, told: Vec<(Family, Told)>| {
            values.having_told(told.into_iter().map(|(_, told)| told).collect())
        };
        let listed = if values.sizes().len() > 1 { Vec::new() } else { values.listed() };
        if listed.is_empty() {
            return having(values, told);
        }
        let forgetting = values.forgetting(&listed);
        let again = self.teller(&forgetting).most_that_are_told().found.into_iter();
        let is_of_list = |(family, _): &(Family, Told)| family.tensors.values().any(|name| listed.contains(name));
        let own: Vec<(Family, Told)> =
            again.filter(is_of_list).map(|(family, told)| named_as_dumped(family, told)).collect();
        let is_other = |one: &(Family, Told)| {
            let other = |((site, tensor), apart): ((Site, String), f64)| {
                holder(&values, site).is_some_and(|held| listed.contains(&held))
                    && self.is_nearer(&values, &(site, tensor), apart)
            };
            places(one).any(other)
        };
        let is_misread = |(family, told): &(Family, Told)| {
            let mut named = family.tensors.values().filter_map(|name| self.named(&values, name));
            named.any(|apart| FURTHER * told.apart < apart)
        };
        if !told.iter().any(is_other) && !own.iter().any(is_misread) {
            return having(values, told);
        }
        told.extend(own);
        let all = told.iter().flat_map(places).map(|(place, _)| place);
        let free: Vec<(Site, String)> = all.filter(|(site, _)| holder(&forgetting, *site).is_none()).collect();
        having(forgetting.placing(&free), told)
    }

    /// How far a tensor is from what its name says, if that is computed.
    fn named(&self, values: &Sited, tensor: &str) -> Option<f64> {
        let mut places = values.reading().values.iter().filter(|(at, place)| at.step == 0 && place.tensor == tensor);
        let site = places.next()?.0.site;
        self.teller(values).apart_at(tensor, site)
    }

    /// Whether a tensor is much nearer to a site than the one that names have there.
    fn is_nearer(&self, values: &Sited, (site, tensor): &(Site, String), apart: f64) -> bool {
        let other = holder(values, *site).filter(|other| other != tensor);
        let other = other.and_then(|other| self.teller(values).apart_at(&other, *site));
        other.is_some_and(|other| FURTHER * apart < other)
    }
}

/// The tensor that is read as a site of the first call.
fn holder(values: &Sited, site: Site) -> Option<String> {
    values.reading().values.get(&At { step: 0, site }).map(|place| place.tensor.clone())
}

/// What was told, under the name that the first tensor has in the dump.
fn named_as_dumped(family: Family, told: Told) -> (Family, Told) {
    let first = family.tensors.values().next().cloned().unwrap_or_default();
    let from = if family.tensors.len() > 1 { format!("{first} and its like") } else { first };
    (family, Told { from, ..told })
}
