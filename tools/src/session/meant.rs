//! What a dump's names mean: what they say, or where values say so, what they may mean otherwise.

use std::collections::BTreeSet;

use fixtures::activations::dump::Dump;
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use reference::{LayerSite, Semantics, Site};

use super::dumped::{Dumped, Given, require_intact};
use super::embedded;
use super::model::Model;
use super::normed;
use super::scored;
use super::told::{are_unknown, told, told_beside, told_of_numbers};
use super::understood::Understood;
use super::unnamed::{naming, no_site, of_one_rank, require_known};
use crate::failure::Failure;

/// The share of bits that are those of the twin, at least, where values are what names say; values of another site have few of them.
const LIKE: f64 = 0.6;

impl Dumped {
    /// Understands an opened dump of a model: each of its requests, of which there is one at least. Scores of a generation are logits,
    /// where it has none and nothing else was made of these.
    pub fn of(dump: Dump, given: &Given, model: &Model) -> Result<Vec<Self>, Failure> {
        let asked = dump.clone();
        let found = Dumped::read(dump, given, model);
        // What did not come from a server may have been taken for what is not there.
        require_intact(model, &asked)?;
        found
    }

    fn read(dump: Dump, given: &Given, model: &Model) -> Result<Vec<Self>, Failure> {
        if given.names.is_none()
            && let Some(logits) = scored::as_logits(&dump, model.checkpoint.config().vocab_size)
            && let Ok(found) = Dumped::named(logits, given, model)
            && let Dumped { values, steps, media, semantics, .. } = &found[0]
            && !scored::are_processed(values, (steps, media.as_ref()), (model, semantics))?
        {
            return Ok(found.into_iter().map(|one| Dumped { scored: true, ..one }).collect());
        }
        Dumped::named(dump, given, model)
    }

    /// The same, of what names say.
    fn named(dump: Dump, given: &Given, model: &Model) -> Result<Vec<Self>, Failure> {
        let mut manifest = dump.manifest().cloned();
        if given.padding_is_seen {
            manifest.iter_mut().flat_map(|manifest| &mut manifest.calls).for_each(|call| call.mask = None);
        }
        let semantics: Semantics =
            match (given.semantics.as_ref(), manifest.as_ref().and_then(|m| m.semantics.as_ref())) {
                (Some(given), _) => given.parse()?,
                (None, Some(dumped)) => dumped.parse()?,
                (None, None) => model.semantics()?,
            };
        let config = model.checkpoint.config().under(&semantics);
        let maps = NameMap::shipped_under(given.names.as_deref())?;
        let values = Sited::new(dump, &config, &maps);
        let values = match &config.vision {
            Some(_) => values.of_images(&given.shown.patches_of_images(model, values.dump())?, &maps).unwrap_or(values),
            None => values,
        };
        let is_nothing_known = values.sites().next().is_none() && !values.reading().unknown.is_empty();
        let told = if given.names.is_none() && (are_unknown(&values) || is_nothing_known) {
            told(&values, given.tokens.as_deref(), (model, &semantics), manifest.as_ref())?
        } else {
            None
        };
        let values = if let Some(told) = told {
            told
        } else {
            require_known(&values, given.names.as_deref())?;
            let told = || told_beside(&values, given.tokens.as_deref(), (model, &semantics), manifest.as_ref());
            let told = if given.names.is_none() { told()? } else { None };
            told.unwrap_or(values)
        };
        if values.sites().next().is_none() {
            return Err(no_site(&values));
        }
        if let Some((tensor, ranks)) = values.of_one_rank() {
            return Err(of_one_rank(&values, &tensor, ranks));
        }
        let unnamed = values.unnamed().filter(|_| given.names.is_none());
        let values = match values.normed_last() {
            Some(other) if normed::is_last(&other, model, &config)? => other,
            _ => values,
        };
        let understood = |values| Understood { values, manifest: manifest.clone(), semantics }.dumped(given, model);
        let (inputs, later) = match values.of_inputs() {
            Some(inputs) if embedded::any(&inputs, model) => (Some(inputs), None),
            inputs => (None, inputs),
        };
        let others = values.listing();
        let otherwise: Vec<Sited> = later.into_iter().chain(values.otherwise()).collect();
        let outputs = match (inputs.map(understood), understood(values)) {
            (Some(Ok(inputs)), Ok(outputs)) => {
                let is_nearer = inputs[0].layers_agree(model)? > outputs[0].layers_agree(model)?;
                return Ok(if is_nearer { inputs } else { outputs });
            }
            (Some(Ok(inputs)), Err(_)) => return Ok(inputs),
            (_, outputs) => match (Dumped::likeliest(outputs, otherwise, understood, model), unnamed) {
                (Err(refused), Some(unnamed)) => {
                    let of = (model, &semantics);
                    let told = told_of_numbers(&unnamed, given.tokens.as_deref(), of, manifest.as_ref())?;
                    return told.map_or(Err(refused), understood);
                }
                (outputs, _) => outputs?,
            },
        };
        Dumped::nearest(outputs, others.into_iter().filter_map(|other| understood(other).ok()), model)
    }

    /// Of what names may mean otherwise, the first that values say, where they are far from what names say at first, or where there are
    /// no tokens for that.
    fn likeliest(
        found: Result<Vec<Self>, Failure>,
        others: Vec<Sited>,
        understood: impl Fn(Sited) -> Result<Vec<Self>, Failure>,
        model: &Model,
    ) -> Result<Vec<Self>, Failure> {
        let mut seen: Option<BTreeSet<Site>> = None;
        for other in others {
            let (mut own, same) = (0.0, other.same_channels());
            if let Ok(found) = &found {
                let apart = found[0].values.apart(&other);
                if seen.as_ref() == Some(&apart) {
                    continue;
                }
                // What cannot be read under these names agrees with nothing.
                // Half-way from what is the same in any case to all.
                let enough = same.map_or(LIKE, |same| LIKE.max(f64::midpoint(same, 1.0)));
                own = found[0].agrees_at(&apart, model).unwrap_or(Some(0.0)).unwrap_or(1.0);
                if own >= enough {
                    seen = Some(apart);
                    continue;
                }
            }
            let apart = match &found {
                Ok(found) => other.apart(&found[0].values),
                Err(_) => other.sites().map(|at| at.site).collect(),
            };
            let attended = same.map_or_else(BTreeSet::new, |_| attended(&apart));
            let Ok(read) = understood(other) else { continue };
            if let Ok(Some(bits)) = read[0].agrees_at(&apart, model)
                && bits >= LIKE
                && bits > own
                && read[0].agrees_at(&attended, model).is_ok_and(|bits| bits.is_none_or(|bits| bits >= LIKE))
            {
                return Ok(read);
            }
        }
        found
    }

    /// Of a list with a tensor for each layer whose names may mean other values than layers' outputs, which it has not: those that it has.
    fn nearest(
        outputs: Vec<Self>,
        others: impl Iterator<Item = Vec<Self>>,
        model: &Model,
    ) -> Result<Vec<Self>, Failure> {
        let Some(list) = outputs[0].values.reading().list else { return Ok(outputs) };
        if outputs[0].list_agrees(model)? > 0.0 {
            return Ok(outputs);
        }
        let mut best: Option<(f64, Vec<Self>)> = None;
        for other in others {
            let agree = other[0].list_agrees(model)?;
            // What is passed on has the name of what passes it on.
            if agree > 0.0 && best.as_ref().is_none_or(|(most, _)| agree >= *most) {
                best = Some((agree, other));
            }
        }
        match best {
            Some((_, other)) => Ok(other),
            None if list.is_said => Ok(outputs),
            None => Err(Failure::new(format!(
                "{}: names are numbers alone, and values are far from everything in a layer that is as wide: its output, \
                 its attention's, its network's, norms",
                outputs[0].values.dump().path().display()
            ))
            .help(naming())),
        }
    }
}

/// What attention makes of queries and keys of these layers.
fn attended(sites: &BTreeSet<Site>) -> BTreeSet<Site> {
    let made = [LayerSite::Context, LayerSite::OProj, LayerSite::Attention, LayerSite::Residual];
    let layers = sites.iter().filter_map(|site| site.layer());
    layers.flat_map(|layer| made.map(|site| Site::Layer(layer, site))).collect()
}
