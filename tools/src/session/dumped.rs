//! A dump whose tokens, rounding and reading are known.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use fixtures::activations::ranks::{counted, merged};
use fixtures::names::sited::Sited;
use reference::media::Media;
use reference::ranks::Ranks;
use reference::{LayerSite, Semantics, Site};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::session::answered;
use crate::session::compared::compared;
use crate::session::model::Model;
use crate::session::pixels::Shown;
use crate::session::precision::Known;
use crate::session::prompt::Prompt;

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
    /// The share of bits of what a list has that are those of the twin.
    pub(super) fn list_agrees(&self, model: &Model) -> Result<f64, Failure> {
        let list = self.values.reading().list;
        let is_listed = |site| matches!((site, list), (Site::Layer(_, site), Some(list)) if site == list.of);
        let agreement = self.compared(model).agreement_at(self.known.contract, is_listed)?;
        Ok(agreement.map_or(0.0, |(_, bits)| bits))
    }

    /// The share of bits of what layers put out that are those of the twin; none, where nothing of it is shown.
    pub(super) fn layers_agree(&self, model: &Model) -> Result<f64, Failure> {
        let is_output = |site| matches!(site, Site::Layer(_, LayerSite::Output));
        let agreement = self.compared(model).agreement_at(self.known.contract, is_output)?;
        Ok(agreement.map_or(0.0, |(_, bits)| bits))
    }

    /// The share of bits at some sites that are those of the twin.
    pub(super) fn agrees_at(&self, sites: &BTreeSet<Site>, model: &Model) -> Result<Option<f64>, Failure> {
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
