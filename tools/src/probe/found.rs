//! What was found.

use std::fmt;

use reference::{RoundingContract, Storage};

use super::adder::bits_of;
pub use super::adder::{Adder, Direction, Subnormal};
use super::function::Kind;
use super::question::Question;
use super::tree::Tree;
use crate::failure::Failure;

/// What is told of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// What it computes.
    pub kind: Kind,
    /// In what order it adds, where that is a tree.
    pub order: Option<Tree>,
    /// The terms that the order has; `None` where it has all.
    pub places: Option<Vec<usize>>,
    /// How terms of either sign are added.
    pub adder: Option<Adder>,
    /// Significant bits of a sum of terms of one sign.
    pub bits: Option<i32>,
    /// What becomes of subnormal numbers.
    pub subnormal: Option<Subnormal>,
    /// How many random sums come out bit for bit as this order and this arithmetic have them, of how many.
    pub foretold: Option<(usize, usize)>,
    /// What it says of a precision: names and values of fields.
    pub fields: Vec<(&'static str, String)>,
    /// What is known of the precision, with these fields.
    pub precision: RoundingContract,
    /// All of it in words: what is told, and what is told of it.
    pub lines: Vec<(&'static str, String)>,
}

/// Width of the names in the words.
const NAMES: usize = 12;

impl Found {
    pub(super) fn new(question: &Question) -> Self {
        let plain = match question.storage {
            Storage::Real => RoundingContract::IDEAL,
            activations => RoundingContract { activations, ..RoundingContract::EAGER_BF16 },
        };
        Found {
            kind: question.kind,
            order: None,
            places: None,
            adder: None,
            bits: None,
            subnormal: None,
            foretold: None,
            fields: Vec::new(),
            precision: question.precision.unwrap_or(plain),
            lines: Vec::new(),
        }
    }

    pub(super) fn say(&mut self, what: &'static str, words: impl Into<String>) {
        self.lines.push((what, words.into()));
    }

    /// Lays fields over the precision.
    pub(super) fn set(&mut self, fields: Vec<(&'static str, String)>) -> Result<(), Failure> {
        for (field, value) in fields {
            self.precision = self.precision.with(field, &value)?;
            self.fields.push((field, value));
        }
        Ok(())
    }
}

/// Of a storage's numbers, in words.
pub(super) fn storage_words(storage: Storage) -> String {
    match storage {
        Storage::Real => "f64".into(),
        storage => storage.to_string(),
    }
}

/// Whether values of the one storage are rounded on their way to the other.
pub(super) fn narrows(from: i32, to: Storage) -> bool {
    bits_of(to) < from
}

/// A line for each thing that is told.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, words) in &self.lines {
            writeln!(f, "{what:NAMES$} {words}")?;
        }
        let fields: Vec<String> = self.fields.iter().map(|(field, value)| format!("{field}={value}")).collect();
        let said = if fields.is_empty() { "no field of it is told".to_owned() } else { fields.join(",") };
        write!(f, "{:NAMES$} {} ({said})", "precision", self.precision)
    }
}
