//! The text of the kernels and their headers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::embedded;
use crate::error::Error;

/// Files by name: the kernels and all that they include.
#[derive(Debug, Clone)]
pub struct Sources(BTreeMap<String, Cow<'static, str>>);

impl Sources {
    /// The files that this crate was built from.
    pub fn embedded() -> Self {
        Self(embedded::SOURCES.iter().map(|&(name, text)| (name.to_owned(), Cow::Borrowed(text))).collect())
    }

    /// The same with one more file, or with another text of a file.
    #[must_use]
    pub fn with(mut self, file: &str, text: impl Into<String>) -> Self {
        self.0.insert(file.to_owned(), Cow::Owned(text.into()));
        self
    }

    /// The same with `from` replaced by `to` in `file`, where it must be exactly once.
    pub fn edit(self, file: &str, from: &str, to: &str) -> Result<Self, Error> {
        let text = self.text(file).unwrap_or_default();
        let times = text.matches(from).count();
        if times != 1 {
            return Err(Error::Edit { file: file.to_owned(), text: from.to_owned(), times });
        }
        let edited = text.replacen(from, to, 1);
        Ok(self.with(file, edited))
    }

    /// The text of a file.
    pub fn text(&self, file: &str) -> Option<&str> {
        self.0.get(file).map(AsRef::as_ref)
    }

    /// The line, from 1, on which `text` begins in `file`, where it must be exactly once.
    pub fn line_of(&self, file: &str, text: &str) -> Result<u32, Error> {
        let whole = self.text(file).unwrap_or_default();
        let places: Vec<_> = whole.match_indices(text).collect();
        let [(place, _)] = places[..] else {
            return Err(Error::Edit { file: file.to_owned(), text: text.to_owned(), times: places.len() });
        };
        let line = whole[..place].matches('\n').count() + 1;
        Ok(u32::try_from(line).expect("files are shorter than 2³² lines"))
    }

    /// Every file with its text.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (name.as_str(), text.as_ref()))
    }
}
