//! Names that nobody knows, told by values: names that are one but for a layer's number are those of the site whose values, as the
//! reference computes them from the tokens, are by far the nearest to theirs.

use std::collections::BTreeMap;

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::Request;
use fixtures::activations::rows::inferred::Fed;
use fixtures::names::at::At;
use fixtures::names::families::{Family, Meant, Told};
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use ndarray::{Array2, s};
use reference::config::Config;
use reference::site::Extent;
use reference::{LayerSite, Semantics, Site};

use super::computed::{Computed, in_order, off};
use super::inferred::all_of;
use super::model::Model;
use super::{inputs, rows};
use crate::failure::Failure;

/// How far values may be from what they are, in parts of its size: a fault before them may be as large.
const NEAR: f64 = 0.5;

/// The same of a name that says no layer: it may be any step on the way. Roundings to bf16 leave some hundredths of the last values.
const NEAR_ALONE: f64 = 0.1;

/// The same of an embedding, which is looked up: roundings to bf16 leave 2⁻⁹.
const NEAR_LOOKED_UP: f64 = 1.0 / 64.0;

/// How many times as far all else is, at least.
const FURTHER: f64 = 2.0;

/// The numbers of a family by which it is told.
const MEMBERS: usize = 3;

/// Values that tell what they are, at least: fewer are near something by chance.
const FEWEST: usize = 8;

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
    let own = NameMap::of_families(most.iter().map(|(family, told)| (family, told.meant)));
    let maps: Vec<NameMap> = NameMap::shipped().into_iter().map(|map| own.over(map)).collect();
    Ok(Some(known.displacing(values.under_maps(&maps).knowing(values), most)))
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

/// What is told in the way to write names in which most are.
#[derive(Default)]
struct Most {
    /// How many tensors, of all calls.
    tensors: usize,
    found: Vec<(Family, Told)>,
}

/// What a request was fed, and what the reference computes of it.
struct Known {
    tokens: Tokens,
    computed: Computed,
}

impl Known {
    fn of(
        values: &Sited,
        given: Option<&str>,
        (model, semantics): (&Model, &Semantics),
        manifest: Option<&Manifest>,
    ) -> Result<Option<Self>, Failure> {
        let Some(tokens) = Tokens::of(values, given, model, manifest)? else { return Ok(None) };
        let computed = Computed::of(&tokens.all, (model, semantics))?;
        Ok(Some(Known { tokens, computed }))
    }

    fn teller<'a>(&'a self, values: &'a Sited) -> Teller<'a> {
        Teller { values, known: self }
    }

    /// What is told by what the reference computes from what is told already, if that is more: roundings of all layers before, or a fault
    /// there, do not move it. With it what was computed.
    fn told_further(self, values: &Sited, told: Most, reading: (&Model, &Semantics)) -> Result<(Self, Most), Failure> {
        let teller = self.teller(values);
        let is_plain = |site: Site| !matches!(site, Site::Layer(_, LayerSite::GateWeights)) && !site.is_choice();
        let own = told.found.iter().flat_map(places).filter_map(|((site, tensor), _)| {
            let shown = is_plain(site).then(|| teller.read(&tensor, site))??;
            shown.iter().all(|x| x.is_finite()).then_some((site, shown))
        });
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

/// Where each tensor of a family is told to be, and how far it is from that.
fn places((family, told): &(Family, Told)) -> impl Iterator<Item = ((Site, String), f64)> {
    let site = |(number, name): (&usize, &String)| Some(((told.meant.site(*number)?, name.clone()), told.apart));
    family.tensors.iter().filter_map(site)
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

/// All that a request was fed, as far as that is known, so many of them its prompt's.
struct Tokens {
    all: Vec<u32>,
    prompt: usize,
}

impl Tokens {
    /// The first of those that are known.
    fn of(
        values: &Sited,
        given: Option<&str>,
        model: &Model,
        manifest: Option<&Manifest>,
    ) -> Result<Option<Self>, Failure> {
        let known = match (rows::prompts_known(given, model)?, manifest.and_then(|manifest| manifest.tokens.as_ref())) {
            (Some(known), _) => Some(known),
            (None, Some(tokens)) => Some(vec![Fed::new(tokens, &[])]),
            (None, None) => inputs::prompts(values, model.checkpoint.config())?,
        };
        let first = known.as_ref().and_then(|known| known.first());
        let tokens = first.map(|first| Tokens { all: all_of(first), prompt: first.tokens().len() });
        Ok(tokens.filter(|tokens| tokens.prompt > 0))
    }
}

/// Tells what families are.
struct Teller<'a> {
    values: &'a Sited,
    known: &'a Known,
}

impl Teller<'_> {
    /// What is told of names in the way to write them in which most are told: of those of one call, each tells those of all.
    fn most_that_are_told(&self) -> Most {
        let ways = self.values.families().into_iter().map(|(calls, families)| {
            let told = families.into_iter().filter_map(|family| Some((self.tell(&family)?, family)));
            let mut found: Vec<(Family, Told)> = told.map(|(told, family)| (family, told)).collect();
            self.keep_nearest(&mut found);
            self.keep_as_long(&mut found);
            Most { tensors: calls * found.iter().map(|(family, _)| family.tensors.len()).sum::<usize>(), found }
        });
        ways.rev().max_by_key(|most| most.tensors).unwrap_or_default()
    }

    /// Leaves of those that are told to be the same site the nearest, and what is as near.
    fn keep_nearest(&self, found: &mut Vec<(Family, Told)>) {
        let aparts = |one: &(Family, Told)| {
            let apart = |((site, tensor), _): ((Site, String), f64)| Some((site, self.apart_at(&tensor, site)?));
            places(one).filter_map(apart).collect::<Vec<(Site, f64)>>()
        };
        let each: Vec<Vec<(Site, f64)>> = found.iter().map(aparts).collect();
        let mut nearest: BTreeMap<Site, f64> = BTreeMap::new();
        for (site, apart) in each.iter().flatten() {
            let nearest = nearest.entry(*site).or_insert(f64::INFINITY);
            *nearest = nearest.min(*apart);
        }
        let is_near = |each: &Vec<(Site, f64)>| each.iter().all(|(site, apart)| *apart <= FURTHER * nearest[site]);
        let mut are_near = each.iter().map(is_near);
        found.retain(|_| are_near.next().unwrap_or(true));
    }

    /// Leaves out what is told less clearly and has more rows than all that is told clearly: of rows that experts were sent, some are
    /// a token's where others are another's.
    fn keep_as_long(&self, found: &mut Vec<(Family, Told)>) {
        let is_clear = |(_, told): &&(Family, Told)| told.apart <= NEAR_ALONE;
        let rows = |one: &(Family, Told)| {
            let ((site, tensor), _) = places(one).next()?;
            self.values.alone(&tensor, site).sizes().first()?.rows
        };
        let Some(most) = found.iter().filter(is_clear).filter_map(rows).max() else { return };
        found.retain(|one| is_clear(&one) || rows(one).is_none_or(|rows| rows <= most));
    }

    /// What a family is: what it is near to, if all else is much further.
    fn tell(&self, family: &Family) -> Option<Told> {
        let first = family.tensors.values().next()?;
        let columns = *self.values.dump().find(first)?.shape.last()?;
        let mut found: Vec<(Vec<f64>, Meant)> = Vec::new();
        let mut read: BTreeMap<_, Option<Array2<f64>>> = BTreeMap::new();
        for meant in self.known.computed.sites(columns).flat_map(|site| ways(family, site, &self.known.computed.config))
        {
            if found.iter().any(|(_, other)| *other == meant) {
                continue;
            }
            let each = self.members(family, meant).map(|(number, site)| {
                let key = (number, site.shape(&self.known.computed.config, Extent::new(1, 1)), site.has_heads());
                let shown = read.entry(key).or_insert_with(|| self.read(&family.tensors[&number], site));
                shown.as_ref().map_or(f64::INFINITY, |shown| self.apart(&in_order(site, shown.clone()), site))
            });
            found.push((each.collect(), meant));
        }
        let near = if family.is_of_layers() { NEAR } else { NEAR_ALONE };
        let all = |each: &[f64]| each.iter().map(|apart| apart.min(1.0)).sum::<f64>() / each.len() as f64;
        // What a mistake in a layer moves, the first one still tells.
        let first = |each: &[f64]| each.first().copied().unwrap_or(f64::NAN);
        self.nearest(family, &found, all, near).or_else(|| self.nearest(family, &found, first, NEAR_ALONE))
    }

    /// Of what a family may mean, the nearest, if it is near and all that is anything else much further.
    fn nearest(
        &self,
        family: &Family,
        found: &[(Vec<f64>, Meant)],
        apart: impl Fn(&[f64]) -> f64,
        near: f64,
    ) -> Option<Told> {
        let found = found.iter().map(|(each, meant)| (apart(each), *meant));
        let mut found: Vec<(f64, Meant)> = found.filter(|(apart, _)| !apart.is_nan()).collect();
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let (apart, meant) = *found.first()?;
        let expected = |meant| self.members(family, meant).map(|(_, site)| &self.known.computed.values[&site]);
        let next = found.iter().find(|(_, other)| !expected(meant).eq(expected(*other)));
        let is_looked_up = matches!(meant, Meant::Alone(Site::Embedding | Site::InputsEmbeds));
        let near = if is_looked_up { near.min(NEAR_LOOKED_UP) } else { near };
        let is_clear = apart <= near && next.is_none_or(|(next, _)| FURTHER * apart <= *next);
        is_clear.then(|| Told { from: family.from.clone(), meant, apart })
    }

    /// The first members whose values are computed, and what they would be.
    fn members(&self, family: &Family, meant: Meant) -> impl Iterator<Item = (usize, Site)> {
        let numbers = family.tensors.keys().copied();
        let sites = numbers.filter_map(move |number| Some((number, meant.site(number)?)));
        sites.filter(|(_, site)| self.known.computed.values.contains_key(site)).take(MEMBERS)
    }

    /// The rows of a tensor's first list, as those of a site.
    fn read(&self, tensor: &str, site: Site) -> Option<Array2<f64>> {
        let values = self.values.alone(tensor, site);
        let (size, at) = (*values.sizes().first()?, At { step: 0, site });
        let batch = size.batch.unwrap_or(1);
        let rows = size.rows.filter(|rows| *rows > 0 && rows.is_multiple_of(batch))?;
        let all = values.of(Request::of_call(0, (batch, rows / batch)));
        let read = if all.has(at) { all.matrix::<f64>(at, Extent::new(rows, rows)).ok()? } else { return None };
        let list = read.nrows().min(rows / batch);
        Some(read.slice_move(s![..list, ..]))
    }

    /// How far a tensor is from a site, if that is computed and it may be that.
    fn apart_at(&self, tensor: &str, site: Site) -> Option<f64> {
        let shown = self.known.computed.values.contains_key(&site).then(|| self.read(tensor, site))??;
        Some(self.apart(&in_order(site, shown), site))
    }

    /// How far rows are from those of a site, in parts of their size: of the first of them, or of the last of the prompt or of all. Few
    /// values, or such as are all the same, as a single expert's weights are 1, are far from everything.
    fn apart(&self, shown: &Array2<f64>, site: Site) -> f64 {
        let computed = &self.known.computed.values[&site];
        if shown.len() < FEWEST || shown.iter().all(|x| *x == shown[(0, 0)]) {
            return f64::INFINITY;
        }
        let all = computed.nrows();
        let first = (0, 0, shown.nrows().min(all));
        let last = [self.known.tokens.prompt, self.known.tokens.all.len()].map(|end| {
            let count = shown.nrows().min(end);
            (shown.nrows() - count, end - count, count)
        });
        let of = |(from, at, count): (usize, usize, usize)| {
            off(shown.slice(s![from..from + count, ..]), computed.slice(s![at..at + count, ..]))
        };
        [first].into_iter().chain(last).map(of).fold(f64::INFINITY, f64::min)
    }
}

/// What a family may mean, if it has a site.
fn ways(family: &Family, site: Site, config: &Config) -> Vec<Meant> {
    let Site::Layer(_, of_layer) = site else {
        return if family.is_of_layers() { Vec::new() } else { vec![Meant::Alone(site)] };
    };
    if !family.is_of_layers() {
        return vec![Meant::Alone(site)];
    }
    let counts_from_0 = family.tensors.contains_key(&0);
    let stream = if Site::InputsEmbeds.exists(config) { Site::InputsEmbeds } else { Site::Embedding };
    let before = (counts_from_0 && of_layer == LayerSite::Output).then_some(stream);
    let ways = [(0, None), (1, before)].map(|(above, before)| Meant::InLayers { site: of_layer, above, before });
    let is_any = |meant: &Meant| {
        let mut sites = family.tensors.keys().map(|number| meant.site(*number));
        sites.all(|site| site.is_some_and(|site| site.exists(config)))
    };
    ways.into_iter().filter(is_any).collect()
}
