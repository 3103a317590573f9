//! A row of the ledger: what a document says, and what its numbers are when they are computed again.

use serde::Serialize;

use super::document::Document;
use super::unit::Unit;
use super::verdict::Verdict;

/// A claim of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Its label in the specification.
    pub id: &'static str,
    /// The document.
    pub document: Document,
    /// Chapters or sections, as the document numbers them; empty where it has none.
    pub place: &'static str,
    /// What it says, in English; numbers and formulas as they are printed.
    pub claim: &'static str,
    /// Its numbers.
    pub figures: Vec<Figure>,
    /// Why it is off, or what is to be known where it is not.
    pub note: String,
    /// What is to be thought of it.
    pub verdict: Verdict,
}

/// A number of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// As it is printed, with its unit; empty if it is not stated.
    pub stated: String,
    /// In the same unit, a digit longer.
    pub recomputed: String,
    /// (stated − recomputed) / recomputed, where both are numbers and the latter is not 0.
    pub relative_difference: Option<f64>,
    /// What is to be thought of it.
    pub verdict: Verdict,
}

/// A claim without numbers as yet.
pub fn claim(id: &'static str, document: Document, place: &'static str, claim: &'static str) -> Claim {
    Claim { id, document, place, claim, figures: Vec::new(), note: String::new(), verdict: Verdict::Holds }
}

/// The number that a text prints, and its decimals.
fn printed(text: &str) -> (f64, usize) {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (text.replace(',', "").parse().expect("a number is stated"), decimals)
}

impl Claim {
    /// A rounded number of `unit`, and what it is in parameters, operations, bytes or ones.
    #[must_use]
    pub fn rounded(self, stated: &str, unit: Unit, recomputed: f64) -> Self {
        let (number, decimals) = printed(stated);
        let verdict = Verdict::rounded(number, recomputed / unit.scale, decimals);
        self.number(stated, unit, recomputed, verdict)
    }

    /// A number all of whose digits are stated.
    #[must_use]
    pub fn exact(self, stated: &str, unit: Unit, recomputed: f64) -> Self {
        let verdict = Verdict::exact(printed(stated).0 * unit.scale, recomputed);
        self.number(stated, unit, recomputed, verdict)
    }

    /// A count of things, all of whose digits are stated.
    #[must_use]
    pub fn count(self, stated: &str, recomputed: usize) -> Self {
        self.exact(stated, super::unit::ONE, recomputed as f64)
    }

    /// Something that is so or not, with what it is decided by.
    #[must_use]
    pub fn so(self, stated: &str, decided_by: String, is_so: bool) -> Self {
        let (stated, verdict) = (stated.to_owned(), Verdict::of(is_so));
        self.with(Figure { stated, recomputed: decided_by, relative_difference: None, verdict })
    }

    /// A number that the documents lack.
    #[must_use]
    pub fn unstated(self, unit: Unit, recomputed: f64) -> Self {
        let recomputed = unit.show(recomputed, 0);
        let figure =
            Figure { stated: String::new(), recomputed, relative_difference: None, verdict: Verdict::Unstated };
        self.with(figure)
    }

    /// What it says follows from no hyperparameter; its arithmetic must be right, though.
    #[must_use]
    pub fn external(mut self) -> Self {
        if self.verdict == Verdict::Holds {
            self.verdict = Verdict::External;
        }
        self
    }

    /// Why it is off, or what is to be known where it is not.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn number(self, stated: &str, unit: Unit, recomputed: f64, verdict: Verdict) -> Self {
        let (number, decimals) = printed(stated);
        let relative = (number * unit.scale - recomputed) / recomputed;
        self.with(Figure {
            stated: unit.with(stated),
            recomputed: unit.show(recomputed, decimals),
            relative_difference: relative.is_finite().then_some(relative),
            verdict,
        })
    }

    fn with(mut self, figure: Figure) -> Self {
        self.verdict = self.verdict.max(figure.verdict);
        self.figures.push(figure);
        self
    }
}
