//! Shards: a verification in several commands, on as many machines, and what they found put together.
//!
//! A shard's file says which shard it is, of how many, of what verification and which units of work it did, for people and
//! programs; what it found is stored beside that. Of all files together the reports are made as a single command makes them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fixtures::fingerprint::sha256;
use fixtures::whole::claim::require_kept;
use serde::{Deserialize, Serialize};

use super::identity::Identity;
use super::outline::Outline;
use super::part::{self, Part};
use super::units::Unit;
use crate::failure::Failure;
use crate::report::content::Report;
use crate::report::figures::{counted, numbered};

/// The version of a shard's file.
const SCHEMA: u32 = 1;

/// Missing shards that are told.
const TOLD: usize = 20;

/// One of several shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    number: usize,
    /// Of how many.
    of: usize,
}

/// What a shard did and found, as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShardFile {
    schema: u32,
    shard: Shard,
    /// The SHA-256 of all else.
    sha256: String,
    /// What is verified.
    identity: Identity,
    /// What restricts it, and what is demanded, as it was typed.
    asked: String,
    /// Every unit of it, in order.
    units: Vec<Unit>,
    /// Those that this shard did.
    done: Range<usize>,
    /// [`Stored`], in base 64.
    stored: String,
}

/// What is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    outline: Outline,
    parts: Vec<Part>,
}

impl Shard {
    /// Which, from 0.
    pub(super) fn index(self) -> usize {
        self.number - 1
    }

    /// Of how many.
    pub(super) fn of(self) -> usize {
        self.of
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let shard = parsed.map(|(number, of)| Shard { number, of });
        shard
            .filter(|shard| (1..=shard.of).contains(&shard.number))
            .ok_or_else(|| "expected I/N with I from 1 to N, such as 1/8 for the first of eight shards".to_owned())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} of {}", self.number, self.of)
    }
}

impl ShardFile {
    /// Of a shard that did some of the units of a verification.
    pub(super) fn new(
        shard: Shard,
        (identity, outline): (Identity, Outline),
        (units, done): (Vec<Unit>, Range<usize>),
        parts: Vec<Part>,
    ) -> Result<Self, Failure> {
        let asked = format!("{} {}", outline.selection, outline.demands).trim().to_owned();
        let stored = BASE64_STANDARD.encode(part::stored(&Stored { outline, parts })?);
        let mut file = ShardFile { schema: SCHEMA, shard, sha256: String::new(), identity, asked, units, done, stored };
        file.sha256 = file.hash()?;
        Ok(file)
    }

    fn hash(&self) -> Result<String, Failure> {
        let ShardFile { schema, shard, sha256: _, identity, asked, units, done, stored } = self;
        Ok(sha256(&part::stored(&(schema, shard, identity, asked, units, done, stored))?))
    }

    /// What it did, in words.
    pub fn told(&self) -> String {
        let (done, all) = (&self.units[self.done.clone()], counted(self.units.len(), "unit"));
        match done {
            [] => format!("{}: empty, the others have all of the {all} of work", self.shard),
            [one] => format!("{}: 1 of {all} of work, {one}", self.shard),
            [first, .., last] => {
                format!("{}: {} of {all} of work, from {first} to {last}", self.shard, done.len())
            }
        }
    }

    /// Reads a shard's file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let refused = |problem: String| {
            Failure::new(format!("{}: {problem}", path.display())).help(
                "give what `parity verify … --shard I/N --json FILE` wrote; a file that is damaged is made again by it",
            )
        };
        require_kept(path)?;
        let text = fs::read_to_string(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| refused(format!("is no whole shard: {error}")))?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(schema) if value.get("shard").is_some() && schema != u64::from(SCHEMA) => {
                return Err(refused(format!("is a shard of schema {schema}, expected {SCHEMA}")));
            }
            _ => {}
        }
        let file: ShardFile =
            serde_json::from_value(value).map_err(|error| refused(format!("is no shard: {error}")))?;
        let ShardFile { shard: Shard { number, of }, units, done, .. } = &file;
        if !(1..=*of).contains(number) || done.start > done.end || done.end > units.len() {
            return Err(refused(format!("says it is shard {number} of {of}, with units {done:?} of {}", units.len())));
        }
        if file.hash()? != file.sha256 {
            return Err(refused("is damaged: its hash is another than it says".to_owned()));
        }
        Ok(file)
    }
}

/// The reports of a verification, of the files of all its shards. Refused if one is missing, there twice or of something else.
pub fn merge(mut files: Vec<(PathBuf, ShardFile)>) -> Result<Vec<Report>, Failure> {
    let Some(((first_path, first), others)) = files.split_first() else {
        return Err(Failure::new("no shard is given").help("name the files of all shards"));
    };
    for (path, file) in others {
        require_same((first_path, first), (path, file))?;
    }
    let of = first.shard.of;
    files.sort_by_key(|(_, file)| file.shard.number);
    if let Some([one, other]) = files.windows(2).find(|two| two[0].1.shard == two[1].1.shard) {
        let problem = format!("{} and {} are both {}", one.0.display(), other.0.display(), one.1.shard);
        return Err(Failure::new(problem).help("give each shard once"));
    }
    if files.len() < of {
        return Err(incomplete(&files, of));
    }
    let (mut outline, mut parts, mut next) = (None, Vec::new(), 0);
    for (path, ShardFile { stored, units, done, .. }) in files {
        if done.start != next {
            let problem = format!("{} begins at unit {}, expected {next}", path.display(), done.start);
            return Err(Failure::new(problem).help("make all shards again with one version of parity"));
        }
        next = done.end;
        let stored = BASE64_STANDARD.decode(&stored).map_err(|error| error.to_string());
        let stored: Stored = stored.and_then(|bytes| part::read(&bytes)).map_err(|error| {
            Failure::new(format!("{}: what it found cannot be read: {error}", path.display())).help("make it again")
        })?;
        if stored.parts.len() != done.len() {
            let (found, expected) = (stored.parts.len(), done.len());
            let problem = format!("{}: holds {found} parts, expected {expected}", path.display());
            return Err(Failure::new(problem).help("make it again"));
        }
        let outline = outline.get_or_insert(stored.outline);
        let requests = units[done].iter().map(|unit| unit.request);
        parts.extend(requests.zip(stored.parts).filter(|(request, _)| *request < outline.requests.len()));
    }
    outline.expect("there is a shard").reports(parts)
}

/// What is said of files that are not all of so many shards.
fn incomplete(files: &[(PathBuf, ShardFile)], of: usize) -> Failure {
    let given: BTreeSet<usize> = files.iter().map(|(_, file)| file.shard.number).collect();
    let told: Vec<usize> = (1..=of).filter(|number| !given.contains(number)).take(TOLD).collect();
    let more = of - given.len() - told.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let are = if told.len() == 1 { "is" } else { "are" };
    let problem = format!("{}{more} of {of} {are} missing: {} given", numbered("shard", &told), given.len());
    let first = told[0];
    let again = format!("run `parity verify … --shard {first}/{of} --json FILE` with the other options as they were");
    Failure::new(problem).help(again)
}

/// Refused if two files are not of one verification.
fn require_same((first_path, first): (&Path, &ShardFile), (path, file): (&Path, &ShardFile)) -> Result<(), Failure> {
    let (path, first_path) = (path.display(), first_path.display());
    let help = "merge the shards of one verification: the same version, model, dump and options, --shard I/N apart";
    if let Some((what, [own, others])) = file.identity.difference(&first.identity) {
        let problem = format!("{path} has another {what} than {first_path}: {own}, expected {others}");
        return Err(Failure::new(problem).help(help));
    }
    if file.shard.of != first.shard.of {
        return Err(Failure::new(format!("{path} is {}, and {first_path} {}", file.shard, first.shard)).help(help));
    }
    if file.asked != first.asked {
        let text = |asked: &str| if asked.is_empty() { "nothing".to_owned() } else { asked.to_owned() };
        let (own, others) = (text(&file.asked), text(&first.asked));
        let problem = format!("{path} was asked {own}, and {first_path} {others}, expected the same");
        return Err(Failure::new(problem).help(help));
    }
    if file.units != first.units {
        let (own, others) = (file.units.len(), first.units.len());
        let problem = format!("{path} is of another list of work than {first_path}: {own} units, expected {others}");
        return Err(Failure::new(problem).help(help));
    }
    Ok(())
}
