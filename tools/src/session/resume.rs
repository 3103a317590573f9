//! A folder in which finished units of work are kept, so that a command that was interrupted goes on where it was.
//!
//! `parity-resume.json` says of what work the folder is: a folder of other work is refused. Beside it are the files of what is done,
//! each under its own name only when it is whole, with a SHA-256. What is damaged all the same is done again.
//!
//! Of a verification, a unit is a file: the SHA-256 of the rest, and the rest.

use std::fs;
use std::path::{Path, PathBuf};

use fixtures::fingerprint::sha256;
use fixtures::whole;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::part::{self, Part};
use super::units::{Kind, Unit};
use crate::failure::Failure;

/// The file that says what the folder is of.
const OF: &str = "parity-resume.json";

/// How the names of the units' files end.
const ENDING: &str = "unit";

/// Hexadecimal digits of a SHA-256.
const HASH: usize = 64;

/// A folder of finished work.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// What work is of: what was done of the same is of use to it.
pub(super) trait Origin: Serialize + DeserializeOwned {
    /// The command that does it.
    const COMMAND: &'static str;

    /// Why what was done of `found` is of no use, if it is not.
    fn refusal(&self, found: &Self) -> Option<String>;
}

/// What the folder says.
#[derive(Debug, Serialize, Deserialize)]
struct Of<T> {
    command: String,
    of: T,
}

impl Folder {
    /// Opens a folder, or begins one. Refused, if it is of other work, or has other files.
    pub(super) fn open<T: Origin>(path: &Path, origin: &T) -> Result<Self, Failure> {
        let refused = |problem: String| {
            let help = "name another folder for --resume, a new or empty one, or what the same command made";
            Failure::new(format!("{}: {problem}", path.display())).help(help)
        };
        fs::create_dir_all(path).map_err(|error| refused(format!("cannot be made: {error}")))?;
        let of = path.join(OF);
        if !of.exists() {
            let entries = fs::read_dir(path).map_err(|error| refused(format!("cannot be listed: {error}")))?;
            let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            // A hidden one may be what a killed command left.
            match names.find(|name| !name.starts_with('.')) {
                None => {
                    let text = serde_json::to_vec_pretty(&Of { command: T::COMMAND.to_owned(), of: origin });
                    whole::write(&of, &text.expect("it is plain data"))?;
                    return Ok(Folder(path.to_owned()));
                }
                Some(name) if !of.exists() => {
                    let problem = format!("has {name} and no {OF}, expected an empty folder or one that --resume made");
                    return Err(refused(problem));
                }
                // Another shard began the folder just now.
                Some(_) => {}
            }
        }
        let text = fs::read(&of).map_err(|error| refused(format!("{OF} cannot be read: {error}")))?;
        let nothing = |error: serde_json::Error| refused(format!("{OF} says nothing: {error}"));
        let found: Of<serde_json::Value> = serde_json::from_slice(&text).map_err(nothing)?;
        if found.command != T::COMMAND {
            let problem = format!("is of parity {}, this is parity {}", found.command, T::COMMAND);
            return Err(refused(problem));
        }
        let found: T = serde_json::from_value(found.of).map_err(nothing)?;
        origin.refusal(&found).map_or(Ok(Folder(path.to_owned())), |why| Err(refused(why)))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What was found in a unit, if it is done; or why what is there cannot be used.
    pub(super) fn part(&self, unit: &Unit) -> Result<Option<Part>, String> {
        let path = self.file(unit);
        if !path.exists() {
            return Ok(None);
        }
        let damaged = |why: String| format!("{} is damaged, and done again: {why}", path.display());
        let bytes = fs::read(&path).map_err(|error| damaged(error.to_string()))?;
        let (hash, rest) =
            bytes.split_at_checked(HASH).ok_or_else(|| damaged(format!("it has {} bytes", bytes.len())))?;
        let found = sha256(rest);
        if found.as_bytes() != hash {
            return Err(damaged("its hash is another than it says".into()));
        }
        part::read(rest).map(Some).map_err(damaged)
    }

    /// Keeps what was found in a unit.
    pub(super) fn keep(&self, unit: &Unit, part: &Part) -> Result<(), Failure> {
        let rest = part::stored(part)?;
        Ok(whole::write(&self.file(unit), &[sha256(&rest).into_bytes(), rest].concat())?)
    }

    fn file(&self, Unit { request, kind, layers }: &Unit) -> PathBuf {
        let kind = match kind {
            Kind::Layers => "layers",
            Kind::Global => "global",
            Kind::Decode => "decode",
            Kind::Coverage => "coverage",
        };
        self.0.join(format!("request-{request}-{kind}-{}-{}.{ENDING}", layers.start, layers.end))
    }
}
