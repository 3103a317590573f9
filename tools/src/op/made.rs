//! What an operator makes, and how a candidate's stands to it.

use std::fmt;

use ndarray::{Array1, Array2, Axis};
use reference::bound::{ErrorBound, confidence};
use reference::compare::{Comparison, compare};
use reference::{RoundingContract, Storage, Tracked};

use crate::judge::legal::{Choices, Row};

/// How far a candidate of a precision may be from a value.
type Bound = dyn Fn(&RoundingContract, &Array2<f64>) -> ErrorBound;

/// An output as the reference computes it in f64.
pub struct Made {
    /// Its name.
    pub name: &'static str,
    /// Its values \[rows, columns\]; of a choice, the scores by which it is made.
    pub value: Array2<f64>,
    /// What is chosen, where a candidate shows that.
    pub chosen: Option<Chosen>,
    bound: Box<Bound>,
}

/// What the reference chooses by scores.
#[derive(Debug)]
pub struct Chosen {
    /// What that is, in a word.
    pub what: &'static str,
    /// The columns of each row, [`NONE`](reference::site::NONE) where there is none left.
    pub columns: Array2<usize>,
}

/// How often a comparison may call one right value suspicious.
const FALSE_SUSPICION: f64 = 1e-6;

impl Made {
    /// An output, with its bound under a precision.
    pub(super) fn of(
        name: &'static str,
        value: Array2<f64>,
        bound: impl Fn(&RoundingContract, &Array2<f64>) -> ErrorBound + 'static,
    ) -> Self {
        Made { name, value, chosen: None, bound: Box::new(bound) }
    }

    /// An output that is copied: no precision rounds it.
    pub(super) fn copied(name: &'static str, value: Array2<f64>) -> Self {
        Made::of(name, value, |_, value| ErrorBound::exact(value.dim()))
    }

    /// An output that is copied, and stored in the activations' type.
    pub(super) fn stored(name: &'static str, value: Array2<f64>) -> Self {
        Made::of(name, value, |contract, value| {
            ErrorBound::exact(value.dim()).rounded(value.view(), contract.stored().storage)
        })
    }

    /// An output of one row, whose bound follows from the u of the arithmetic and has no probable part.
    pub(super) fn of_row(name: &'static str, value: Array1<f64>, bound: impl Fn(f64) -> Array1<f64> + 'static) -> Self {
        Made::of(name, value.insert_axis(Axis(0)), move |contract, _| {
            let certain = bound(contract.unit()).insert_axis(Axis(0));
            ErrorBound { sigma: certain.clone(), certain, carried: 0 }
        })
    }

    /// The scores of a choice, of which candidates show what was chosen.
    pub(super) fn choosing(self, what: &'static str, columns: Array2<usize>) -> Self {
        Made { chosen: Some(Chosen { what, columns }), ..self }
    }

    /// How far a candidate of this precision may be off.
    pub fn bound(&self, contract: &RoundingContract) -> ErrorBound {
        (self.bound)(contract, &self.value)
    }

    /// How a candidate's values, stored in a type, stand to it.
    pub fn compared(&self, candidate: &Array2<f64>, storage: Storage, contract: &RoundingContract) -> Comparison {
        let lambda = confidence(candidate.len(), FALSE_SUSPICION);
        compare(candidate.view(), self.value.view(), &self.bound(contract), storage, lambda)
    }

    /// How a candidate's choices stand to these scores, row by row, and what is wrong with the first that is.
    pub fn compared_choices(
        &self,
        chosen: &Chosen,
        candidate: &Array2<usize>,
        contract: &RoundingContract,
    ) -> (Comparison, Option<String>) {
        let scores = Tracked { value: self.value.clone(), error: Some(self.bound(contract)) };
        let choices = Choices { what: chosen.what, scores: &scores, own: &chosen.columns, candidate };
        let mut found = Comparison { count: candidate.nrows(), ..Comparison::default() };
        let mut wrong = None;
        for row in 0..candidate.nrows() {
            match choices.row(row, &format!("row {row}"), |column| vec![row, column]) {
                Row::Same => found.equal += 1,
                Row::Legal => found.suspicious += 1,
                Row::Illegal { note, .. } => {
                    found.faults += 1;
                    wrong.get_or_insert(note);
                }
            }
        }
        (found, wrong)
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("name", &self.name).field("value", &self.value).finish_non_exhaustive()
    }
}
