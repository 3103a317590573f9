//! What names that nobody knows are near to: of all that the reference computes from the tokens, by far the nearest.

use std::collections::BTreeMap;

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::Request;
use fixtures::activations::rows::inferred::Fed;
use fixtures::names::at::At;
use fixtures::names::families::{Family, Meant, Taken, Told};
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
pub(super) const FURTHER: f64 = 2.0;

/// The numbers of a family by which it is told.
const MEMBERS: usize = 3;

/// Values that tell what they are, at least: fewer are near something by chance.
const FEWEST: usize = 8;

/// What is told in the way to write names in which most are.
#[derive(Default)]
pub(super) struct Most {
    /// How many tensors, of all calls.
    pub(super) tensors: usize,
    pub(super) found: Vec<(Family, Told)>,
}

/// What a request was fed, and what the reference computes of it.
pub(super) struct Known {
    pub(super) tokens: Tokens,
    pub(super) computed: Computed,
}

impl Known {
    pub(super) fn of(
        values: &Sited,
        given: Option<&str>,
        (model, semantics): (&Model, &Semantics),
        manifest: Option<&Manifest>,
    ) -> Result<Option<Self>, Failure> {
        let Some(tokens) = Tokens::of(values, given, model, manifest)? else { return Ok(None) };
        let computed = Computed::of(&tokens.all, (model, semantics))?;
        Ok(Some(Known { tokens, computed }))
    }

    pub(super) fn teller<'a>(&'a self, values: &'a Sited) -> Teller<'a> {
        Teller { values, known: self }
    }
}

/// Where each tensor of a family is told to be, and how far it is from that.
pub(super) fn places((family, told): &(Family, Told)) -> impl Iterator<Item = ((Site, String), f64)> {
    let site = |(number, name): (&usize, &String)| Some(((told.meant.site(*number)?, name.clone()), told.apart));
    family.tensors.iter().filter_map(site)
}

/// All that a request was fed, as far as that is known, so many of them its prompt's.
pub(super) struct Tokens {
    pub(super) all: Vec<u32>,
    prompt: usize,
}

impl Tokens {
    /// The first of those that are known.
    pub(super) fn of(
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
pub(super) struct Teller<'a> {
    values: &'a Sited,
    known: &'a Known,
}

impl Teller<'_> {
    /// What is told of names in the way to write them in which most are told: of those of one call, each tells those of all.
    pub(super) fn most_that_are_told(&self) -> Most {
        let ways = self.values.families().into_iter().map(|(calls, families)| {
            let told = families.into_iter().filter_map(|family| Some((self.tell(&family)?, family)));
            let mut found: Vec<(Family, Told)> = Vec::new();
            for (told, mut family) in told {
                found.extend(self.normed_last(&mut family, &told));
                found.push((family, told));
            }
            self.keep_nearest(&mut found);
            self.keep_as_long(&mut found);
            Most { tensors: calls * found.iter().map(|(family, _)| family.tensors.len()).sum::<usize>(), found }
        });
        ways.rev().max_by_key(|most| most.tensors).unwrap_or_default()
    }

    /// Of the stream behind each layer the last, taken from its family, where that is much nearer to what the head reads: as transformers
    /// returns `hidden_states`.
    fn normed_last(&self, family: &mut Family, told: &Told) -> Option<(Family, Told)> {
        let (number, tensor) = family.tensors.last_key_value().map(|(number, tensor)| (*number, tensor.clone()))?;
        let last = Site::Layer(self.known.computed.config.num_hidden_layers - 1, LayerSite::Output);
        let site = told.meant.site(number).filter(|site| *site == last)?;
        let apart = self.apart_at(&tensor, Site::FinalNorm)?;
        if family.tensors.len() == 1 || FURTHER * apart >= self.apart_at(&tensor, site)? {
            return None;
        }
        family.tensors.remove(&number);
        let from = family.name(number);
        let told = Told { from: from.clone(), meant: Meant::Alone(Site::FinalNorm), apart, taken: Taken::AmongFew };
        Some((Family { from, tensors: BTreeMap::from([(0, tensor)]) }, told))
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
        let mut seen: BTreeMap<_, Option<Array2<f64>>> = BTreeMap::new();
        for meant in self.known.computed.sites(columns).flat_map(|site| ways(family, site, &self.known.computed.config))
        {
            if found.iter().any(|(_, other)| *other == meant) {
                continue;
            }
            let each = self.members(family, meant).map(|(number, site)| {
                let key = (number, site.shape(&self.known.computed.config, Extent::new(1, 1)), site.has_heads());
                let shown = seen.entry(key).or_insert_with(|| read(self.values, &family.tensors[&number], site));
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
        is_clear.then(|| Told { from: family.from.clone(), meant, apart, taken: Taken::AmongFew })
    }

    /// The first members whose values are computed, and what they would be.
    fn members(&self, family: &Family, meant: Meant) -> impl Iterator<Item = (usize, Site)> {
        let numbers = family.tensors.keys().copied();
        let sites = numbers.filter_map(move |number| Some((number, meant.site(number)?)));
        sites.filter(|(_, site)| self.known.computed.values.contains_key(site)).take(MEMBERS)
    }

    /// How far a tensor is from a site, if that is computed and it may be that.
    pub(super) fn apart_at(&self, tensor: &str, site: Site) -> Option<f64> {
        let shown = self.known.computed.values.contains_key(&site).then(|| read(self.values, tensor, site))??;
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

/// The rows of a tensor's first list, as those of a site.
pub(super) fn read(values: &Sited, tensor: &str, site: Site) -> Option<Array2<f64>> {
    let values = values.alone(tensor, site);
    let (size, at) = (*values.sizes().first()?, At { step: 0, site });
    let batch = size.batch.unwrap_or(1);
    let rows = size.rows.filter(|rows| *rows > 0 && rows.is_multiple_of(batch))?;
    let all = values.of(Request::of_call(0, (batch, rows / batch)));
    let read = if all.has(at) { all.matrix::<f64>(at, Extent::new(rows, rows)).ok()? } else { return None };
    let list = read.nrows().min(rows / batch);
    Some(read.slice_move(s![..list, ..]))
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
