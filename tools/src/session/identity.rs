//! What makes two verifications the same: what was found by one is of use to the other.

use fixtures::fingerprint::Fingerprint;
use reference::media::Media;
use serde::{Deserialize, Serialize};

use super::dumped::Dumped;
use super::model::Model;
use crate::judge::lens::Lens;

/// The version of what is stored of a unit; raised when that changes, or what a verdict means.
const STORED: u32 = 1;

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
            version: format!("{} ({STORED})", env!("CARGO_PKG_VERSION")),
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
        let pairs = facts(self).into_iter().zip(facts(other));
        let differing = pairs.into_iter().find(|((_, own), (_, others))| own != others);
        differing.map(|((what, own), (_, others))| (what, [own, others]))
    }
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
