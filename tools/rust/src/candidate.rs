//! What is put next to the reference.

use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use tools::failure::Failure;
use tools::session::dumped::{Given, open_dump};
use tools::session::model::Model;

use crate::tensors::Tensors;

/// What is put next to the reference: a dump by its path, tensors in memory, or a built-in case's own values.
#[derive(Debug, Clone)]
pub enum Candidate {
    /// A file or a folder.
    Path(PathBuf),
    /// Tensors in memory.
    Tensors(Tensors),
    /// The values that come with a built-in case.
    Own,
}

impl Candidate {
    pub(crate) fn open(&self, given: &Given, model: &Model) -> Result<Dump, Failure> {
        match self {
            Candidate::Path(path) => open_dump(Some(path), given, model),
            Candidate::Tensors(tensors) => tensors.dump(),
            Candidate::Own => open_dump(None, given, model),
        }
    }

    /// It in a command; DUMP stands for tensors in memory, which [`Tensors::save`] writes.
    pub(crate) fn typed(&self) -> String {
        match self {
            Candidate::Path(path) => format!(" {}", path.display()),
            Candidate::Tensors(_) => " DUMP".to_owned(),
            Candidate::Own => String::new(),
        }
    }
}

impl From<Tensors> for Candidate {
    fn from(tensors: Tensors) -> Self {
        Candidate::Tensors(tensors)
    }
}

impl From<&Tensors> for Candidate {
    fn from(tensors: &Tensors) -> Self {
        Candidate::Tensors(tensors.clone())
    }
}

impl From<&str> for Candidate {
    fn from(path: &str) -> Self {
        Candidate::Path(path.into())
    }
}

impl From<&Path> for Candidate {
    fn from(path: &Path) -> Self {
        Candidate::Path(path.to_owned())
    }
}

impl From<PathBuf> for Candidate {
    fn from(path: PathBuf) -> Self {
        Candidate::Path(path)
    }
}

impl From<&PathBuf> for Candidate {
    fn from(path: &PathBuf) -> Self {
        Candidate::Path(path.clone())
    }
}
