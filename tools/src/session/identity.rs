//! What makes two verifications, or two runs, the same: what was found by one is of use to the other.

use fixtures::fingerprint::Fingerprint;
use reference::media::Media;
use serde::{Deserialize, Serialize};

use super::dumped::Dumped;
use super::model::Model;
use super::resume::Origin;
use crate::judge::lens::Lens;

/// The version of what is stored of a unit; raised when that changes, or what a verdict means.
const STORED: u32 = 1;

/// The version of what is stored of a run's phase; raised when that changes, or what the reference computes.
const STORED_OF_RUN: u32 = 1;

/// What a verification is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// The program's version, and that of what is stored.
    version: String,
    /// Fingerprints of configuration and weights, of the dump's files, and of tokens and pixels.
    model: String,
    dump: String,
    prompt: String,
    /// What sites the dump's names stand for.
    names: String,
    precision: String,
    semantics: String,
    lenses: Vec<Lens>,
}

/// When the files were written that it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Dates {
    pub(super) model: String,
    pub(super) dump: String,
}

/// A verification, and when the files were written that it is of.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Verifying {
    pub(super) identity: Identity,
    pub(super) dates: Dates,
}

/// What a run of the reference is of, and when the model's files were written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Running {
    version: String,
    model: String,
    prompt: String,
    precision: String,
    semantics: String,
    /// What is written of it.
    sites: String,
    /// How tokens are chosen after the prompt. How many is not said: what was done of a shorter run is of use to a longer one.
    choosing: String,
    written: String,
}

impl Identity {
    /// Of the requests of a dump, of which there is one at least, under these lenses.
    pub(super) fn of(model: &Model, requests: &[Dumped], lenses: &[Lens]) -> (Self, Dates) {
        let first = &requests[0];
        let (own, dump) = (model.checkpoint.fingerprint(), first.values.dump().fingerprint());
        let (mut prompt, mut names) = (Fingerprint::default(), Fingerprint::default());
        for dumped in requests {
            prompt.numbers(&dumped.prompt.tokens);
            prompt.numbers(&dumped.prompt.decoded);
            dumped.steps.iter().for_each(|step| prompt.numbers(step));
            dumped.media.iter().flat_map(Media::calls).for_each(|media| add_media(&mut prompt, media));
        }
        for (at, place) in &first.values.reading().values {
            names.text(&format!("{at} {place:?}"));
        }
        let identity = Identity {
            version: version(STORED),
            model: own.content(),
            dump: dump.content(),
            prompt: prompt.content(),
            names: names.content(),
            precision: first.known.contract.to_string(),
            semantics: first.semantics.to_string(),
            lenses: lenses.to_vec(),
        };
        (identity, Dates { model: own.dates(), dump: dump.dates() })
    }

    /// The first thing in which two differ, and what it is in each.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, [String; 2])> {
        let facts = |of: &Self| {
            let lenses: Vec<String> = of.lenses.iter().map(ToString::to_string).collect();
            [
                ("version of parity", of.version.clone()),
                ("model", fingerprint(&of.model)),
                ("dump", fingerprint(&of.dump)),
                ("prompt", fingerprint(&of.prompt)),
                ("map of names", fingerprint(&of.names)),
                ("precision", of.precision.clone()),
                ("reading of the documents", of.semantics.clone()),
                ("choice of lenses", lenses.join(", ")),
            ]
        };
        differing(facts(self), facts(other))
    }
}

impl Running {
    /// Of a prompt with what it shows, which the model reads so and of which sites are written.
    pub(super) fn of(
        model: &Model,
        (tokens, media): (&[u32], Option<&Media>),
        [precision, semantics, sites, choosing]: [String; 4],
    ) -> Self {
        let (own, mut prompt) = (model.checkpoint.fingerprint(), Fingerprint::default());
        prompt.numbers(tokens);
        if let Some(media) = media {
            add_media(&mut prompt, media);
        }
        let (version, prompt) = (version(STORED_OF_RUN), prompt.content());
        let (model, written) = (own.content(), own.dates());
        Running { version, model, prompt, precision, semantics, sites, choosing, written }
    }
}

impl Origin for Verifying {
    const COMMAND: &'static str = "verify";

    fn refusal(&self, found: &Self) -> Option<String> {
        if let Some(difference) = found.identity.difference(&self.identity) {
            return Some(of_another(difference));
        }
        let what = if found.dates.model == self.dates.model { "dump" } else { "model" };
        (found.dates != self.dates).then(|| written_again(what))
    }
}

impl Origin for Running {
    const COMMAND: &'static str = "run";

    fn refusal(&self, found: &Self) -> Option<String> {
        let facts = |of: &Self| {
            [
                ("version of parity", of.version.clone()),
                ("model", fingerprint(&of.model)),
                ("prompt", fingerprint(&of.prompt)),
                ("precision", of.precision.clone()),
                ("reading of the documents", of.semantics.clone()),
                ("choice of what is written", of.sites.clone()),
                ("way to choose tokens", of.choosing.clone()),
            ]
        };
        let difference = differing(facts(found), facts(self)).map(of_another);
        difference.or_else(|| (found.written != self.written).then(|| written_again("model")))
    }
}

/// The version of the program, and that of what is stored.
fn version(stored: u32) -> String {
    format!("{} ({stored})", env!("CARGO_PKG_VERSION"))
}

/// The first fact that is another, and what it is in each.
fn differing<const N: usize>(
    own: [(&'static str, String); N],
    others: [(&'static str, String); N],
) -> Option<(&'static str, [String; 2])> {
    let differing = own.into_iter().zip(others).find(|((_, own), (_, others))| own != others);
    differing.map(|((what, own), (_, others))| (what, [own, others]))
}

fn of_another((what, [found, expected]): (&str, [String; 2])) -> String {
    format!("is of another {what}: {found}, this is {expected}")
}

fn written_again(what: &str) -> String {
    format!("files of the {what} were written again since it was begun")
}

fn fingerprint(digits: &str) -> String {
    format!("fingerprint {}", digits.get(..12).unwrap_or(digits))
}

fn add_media(to: &mut Fingerprint, media: &Media) {
    for (medium, pixels) in media.passes() {
        to.text(&format!("{medium:?} {:?}", pixels.grids));
        to.numbers(&pixels.values.iter().map(|pixel| pixel.to_bits()).collect::<Vec<u32>>());
    }
}
