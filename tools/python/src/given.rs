//! What a call is about, as Python hands it over.

use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::source::HeldTensor;
use pyo3::prelude::*;
use tools::failure::Failure;
use tools::session::dumped::{self, open_dump};
use tools::session::model::Model;
use tools::session::pixels::Shown;

use crate::tensors::{Lent, held};

/// What tensors in memory are called in messages.
const IN_MEMORY: &str = "tensors in memory";

/// A dump: a path, or tensors with the text of their manifest.
#[derive(FromPyObject)]
pub(crate) enum DumpGiven<'py> {
    Path(PathBuf),
    Tensors(Vec<Lent<'py>>, Option<String>),
}

/// The same without Python's lock; nothing for a built-in case's own values.
#[derive(Clone)]
pub(crate) enum DumpAt {
    Own,
    Path(PathBuf),
    Tensors(Vec<HeldTensor>, Option<String>),
}

impl DumpAt {
    pub(crate) fn of(given: Option<DumpGiven<'_>>) -> PyResult<Self> {
        Ok(match given {
            None => DumpAt::Own,
            Some(DumpGiven::Path(path)) => DumpAt::Path(path),
            Some(DumpGiven::Tensors(tensors, manifest)) => {
                DumpAt::Tensors(tensors.into_iter().map(held).collect::<PyResult<_>>()?, manifest)
            }
        })
    }

    /// Opens it, for a model of which it may be the case's own.
    pub(crate) fn open(&self, given: &dumped::Given, model: &Model) -> Result<Dump, Failure> {
        match self {
            DumpAt::Own => open_dump(None, given, model),
            DumpAt::Path(path) => open_dump(Some(path), given, model),
            DumpAt::Tensors(..) => self.open_alone(),
        }
    }

    /// Opens it without a model.
    pub(crate) fn open_alone(&self) -> Result<Dump, Failure> {
        match self {
            DumpAt::Own => Err(Failure::new("no dump is named").help("give a path, or a mapping of names to tensors")),
            DumpAt::Path(path) => Ok(Dump::open(path)?),
            DumpAt::Tensors(tensors, manifest) => {
                let manifest =
                    manifest.as_deref().map(|text| Manifest::parse(Path::new(IN_MEMORY), text)).transpose()?;
                Ok(Dump::of_tensors(IN_MEMORY, tensors.iter().cloned(), manifest)?)
            }
        }
    }
}

/// What is known of a dump beside what it says itself.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Known {
    tokens: Option<String>,
    precision: Option<String>,
    names: Option<PathBuf>,
    semantics: Option<String>,
    shown: ShownGiven,
}

/// What a prompt shows.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ShownGiven {
    pixels: Option<PathBuf>,
    images: Vec<PathBuf>,
    videos: Vec<PathBuf>,
}

impl From<ShownGiven> for Shown {
    fn from(ShownGiven { pixels, images, videos }: ShownGiven) -> Self {
        Shown { pixels, image: images, video: videos }
    }
}

impl From<Known> for dumped::Given {
    fn from(Known { tokens, precision, names, semantics, shown }: Known) -> Self {
        dumped::Given { tokens, precision, names, semantics, shown: shown.into(), padding_is_seen: false }
    }
}

/// Which part of a model is looked at.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Part {
    pub(crate) layers: Option<String>,
    pub(crate) sites: Vec<String>,
}
