//! A dump whose tokens, rounding and reading are known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use fixtures::activations::ranks::{counted, merged};
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use reference::media::Media;
use reference::ranks::Ranks;
use reference::{LayerSite, Semantics, Site};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::session::answered;
use crate::session::compared::compared;
use crate::session::embedded;
use crate::session::model::Model;
use crate::session::normed;
use crate::session::pixels::Shown;
use crate::session::precision::Known;
use crate::session::prompt::Prompt;
use crate::session::scored;
use crate::session::told::{are_unknown, told, told_of_numbers};
use crate::session::understood::Understood;
use crate::session::unnamed::{naming, no_site, of_one_rank, require_known};

/// The share of bits that are those of the twin, at least, where values are what names say; values of another site have few of them.
const LIKE: f64 = 0.6;

/// What is known of a dump beside what it says itself.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The tokens that it was made from: 1,2,3 or @file.json, a list or an object with `tokens`.
    pub tokens: Option<String>,
    /// What the candidate rounds, and where.
    pub precision: Option<String>,
    /// A map from the engine's names to sites, beside those that ship.
    pub names: Option<PathBuf>,
    /// What the prompt shows.
    pub shown: Shown,
    /// The reading of the documents, as a text.
    pub semantics: Option<String>,
    /// Whether slots of padding are read as tokens, as an engine takes them that ignores its mask.
    pub padding_is_seen: bool,
}

/// One request of a dump, as it can be put next to a model.
#[derive(Debug)]
pub struct Dumped {
    /// Its values.
    pub values: Sited,
    /// Which request this is, of so many.
    pub request: (usize, usize),
    /// The prompt, and what was decoded after it.
    pub prompt: Prompt,
    /// Calls before it that are of other tokens, and are left out.
    pub aside: usize,
    /// Tokens at its end that are known by their embeddings alone.
    pub embedded: usize,
    /// Tokens at its end that are known as the likeliest by the logits before each.
    pub likeliest: usize,
    /// Whether its logits are called scores.
    pub scored: bool,
    /// Tokens at the end of what was given that the dump has no rows of.
    pub unread: usize,
    /// Slots of its list that nobody said are padding, and that are by the values.
    pub padding: usize,
    /// Rows of its calls that are of no request.
    pub filled: usize,
    /// Which row of each call it has, where rows change places between calls.
    pub beam: Option<Vec<usize>>,
    /// The tokens of each forward pass.
    pub steps: Vec<Vec<u32>>,
    /// How its engine rounds.
    pub known: Known,
    /// The reading of the documents.
    pub semantics: Semantics,
    /// What the prompt shows.
    pub media: Option<Media>,
    /// Where what attention reads before its rows comes from.
    pub prefix: Prefix,
}

/// Where what attention reads before a request's rows comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// There is nothing before them, or nobody knows it.
    Own,
    /// The same request follows once more, with a prefix that is computed.
    Beside,
    /// It is computed of the tokens. Such a request is another once more, and what hangs on one value alone is left out.
    Computed,
}

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
            values
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

    /// The share of bits of what a list has that are those of the twin.
    fn list_agrees(&self, model: &Model) -> Result<f64, Failure> {
        let list = self.values.reading().list;
        let is_listed = |site| matches!((site, list), (Site::Layer(_, site), Some(list)) if site == list.of);
        let agreement = self.compared(model).agreement_at(self.known.contract, is_listed)?;
        Ok(agreement.map_or(0.0, |(_, bits)| bits))
    }

    /// The share of bits of what layers put out that are those of the twin; none, where nothing of it is shown.
    fn layers_agree(&self, model: &Model) -> Result<f64, Failure> {
        let is_output = |site| matches!(site, Site::Layer(_, LayerSite::Output));
        let agreement = self.compared(model).agreement_at(self.known.contract, is_output)?;
        Ok(agreement.map_or(0.0, |(_, bits)| bits))
    }

    /// The share of bits at some sites that are those of the twin.
    fn agrees_at(&self, sites: &BTreeSet<Site>, model: &Model) -> Result<Option<f64>, Failure> {
        self.compared(model).bits_at(self.known.contract, sites)
    }

    fn compared<'a>(&'a self, model: &'a Model) -> Compared<'a> {
        compared((model, self.semantics), &self.values, (&self.steps, self.prompt.tokens.len()), self.media.as_ref())
    }

    /// It, and the model that it is put next to.
    pub fn comparison<'a>(&'a self, model: &'a Model) -> Comparison<'a> {
        let comparison = Comparison::new(self.compared(model), self.known.contract);
        Comparison { is_found: self.known.is_found, ..comparison }
    }
}

/// What attention makes of queries and keys of these layers.
fn attended(sites: &BTreeSet<Site>) -> BTreeSet<Site> {
    let made = [LayerSite::Context, LayerSite::OProj, LayerSite::Attention, LayerSite::Residual];
    let layers = sites.iter().filter_map(|site| site.layer());
    layers.flat_map(|layer| made.map(|site| Site::Layer(layer, site))).collect()
}

/// Refused, if something of a model or a dump did not come from a server when it was looked at.
pub(super) fn require_intact(model: &Model, dump: &Dump) -> Result<(), Failure> {
    Ok(model.checkpoint.intact().and_then(|()| dump.intact())?)
}

/// Opens a dump, in a folder of ranks' parts alone what they make together; without one, a built-in case's own values.
pub fn open_dump(path: Option<&Path>, given: &Given, model: &Model) -> Result<Dump, Failure> {
    match (path, &model.case) {
        (Some(path), _) => match counted(path)? {
            Some(ranks) => open_ranks(path, ranks, model),
            None => match answered::opened(path, given.tokens.as_deref(), model.checkpoint.config().vocab_size)? {
                Some(answer) => Ok(answer),
                None => Ok(Dump::open(path)?),
            },
        },
        (None, Some(case)) => Ok(case.expected()?),
        (None, None) => Err(Failure::new("no dump is named").help("parity verify MODEL DUMP --tokens @file.json")),
    }
}

/// Opens what so many ranks dumped, a folder or a file each.
pub fn open_ranks(path: &Path, ranks: usize, model: &Model) -> Result<Dump, Failure> {
    let config = model.checkpoint.config();
    let ranks = Ranks::of_attention(config, ranks).map_err(|error| {
        Failure::new(error.to_string())
            .help("give --tp as many ranks as the engine ran on, of a model that they can share")
    })?;
    Ok(merged(path, config, &ranks)?)
}
