//! A reading of the documents as a command line or a file states it.

use std::fmt;
use std::str::FromStr;

use super::Semantics;
use crate::error::ParseError;

/// The presets by name.
const PRESETS: [(&str, Semantics); 2] = [("documents", Semantics::DOCUMENTS), ("released", Semantics::RELEASED)];

/// `PRESET[,field=value]…`, where the preset is `documents` or `released`.
impl FromStr for Semantics {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let mut parts = s.split(',');
        let name = parts.next().unwrap_or_default();
        let preset = PRESETS.into_iter().find(|(preset, _)| *preset == name).map(|(_, semantics)| semantics);
        let preset = preset.ok_or_else(|| ParseError::new("semantics preset", name, "documents or released"))?;
        parts.try_fold(preset, |semantics, part| match part.split_once('=') {
            Some((field, value)) => semantics.with(field, value),
            None => Err(ParseError::new("semantics override", part, "field=value")),
        })
    }
}

/// The closest preset and what differs from it, in the form that parses.
impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differing = |preset: &Semantics| {
            let own = self.fields().into_iter().zip(preset.fields());
            own.filter(|(own, preset)| own != preset).map(|((name, value), _)| format!(",{name}={value}"))
        };
        let (name, closest) =
            PRESETS.iter().min_by_key(|(_, preset)| differing(preset).count()).expect("there are presets");
        f.write_str(name)?;
        differing(closest).try_for_each(|field| f.write_str(&field))
    }
}
