//! What is found in a unit of work, and how it is stored: as CBOR, which holds every number as it is, NaN and infinity among
//! them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::diagnose::detection::Detection;
use crate::failure::Failure;
use crate::judge::decoded::Decoded;
use crate::judge::exact::Bits;
use crate::judge::found::Found;

/// What is found of a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What lenses find on layers.
    Lenses {
        /// At sites.
        found: Box<Found>,
        /// How the values stand to those of the candidate's exact twin, where there is one.
        exact: Option<Vec<Bits>>,
    },
    /// What is said of the decoded tokens.
    Decode(Decoded),
    /// What the candidate's values can show.
    Coverage(Detection),
}

/// The bytes as which something is stored.
pub(super) fn stored(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(|error| Failure::new(format!("cannot be stored: {error}")))?;
    Ok(bytes)
}

/// What was stored, or why it cannot be read.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    ciborium::from_reader(bytes).map_err(|error| error.to_string())
}
