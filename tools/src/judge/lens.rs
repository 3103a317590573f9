//! Lenses: from which values the reference starts, and where it is put next to the candidate.

use reference::Site;
use serde::{Deserialize, Serialize};
use strum::Display;

/// A way of looking.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Lens {
    /// Each operator is recomputed from the candidate's own inputs to it.
    Local,
    /// Each layer is recomputed from the candidate's own input to it.
    Layer,
    /// The reference runs from the tokens. Only what is chosen on the way is the candidate's where that is shown: choices are judged
    /// by the local lens, and another would jump.
    Global,
}

impl Lens {
    /// All, in the order in which they look: the local lens finds choices that the candidate does not show, for the others.
    pub const ALL: [Lens; 3] = [Lens::Local, Lens::Layer, Lens::Global];

    /// Whether the reference goes on with the candidate's value.
    pub(crate) fn substitutes(self, site: Site) -> bool {
        match self {
            Lens::Local => true,
            Lens::Layer => site.is_stream(),
            Lens::Global => false,
        }
    }

    /// Whether the candidate's value is judged.
    pub(crate) fn judges(self, site: Site) -> bool {
        match self {
            Lens::Local => true,
            Lens::Layer => site.is_stream() && site != Site::Embedding || site == Site::Logits,
            Lens::Global => site.is_stream() || site == Site::Logits,
        }
    }

    /// Whether errors are bounded a priori. Over a whole layer that would be vacuous.
    pub(crate) fn bounds(self) -> bool {
        self == Lens::Local
    }
}
