//! Which choices are legal.
//!
//! Scores sᵢ that may be off by eᵢ can lead to the choice C if and only if min over C of sᵢ + eᵢ ≥ max over the rest of
//! sⱼ − eⱼ. A legal choice that is not the reference's is a tie; any other is a fault.

use std::collections::BTreeSet;

use ndarray::Array2;
use reference::Tracked;
use reference::site::NONE;

/// Choices by rows of scores.
pub(crate) struct Choices<'a> {
    /// What is chosen, in a word.
    pub(crate) what: &'a str,
    /// By what it is, with their errors.
    pub(crate) scores: &'a Tracked<f64>,
    /// What the reference chose, [`NONE`] where nothing was left.
    pub(crate) own: &'a Array2<usize>,
    /// What the candidate chose.
    pub(crate) candidate: &'a Array2<usize>,
}

/// One row of a candidate.
pub(crate) enum Row {
    /// The reference's.
    Same,
    /// Another that rounding may lead to.
    Legal,
    /// Another, with scores that say so, if scores do.
    Illegal {
        /// What is wrong.
        note: String,
        /// What was chosen over what.
        over: Option<Over>,
    },
}

/// A choice over one of a higher score.
pub(crate) struct Over {
    pub(crate) chosen: usize,
    pub(crate) score: f64,
    pub(crate) threshold: f64,
    pub(crate) bound: f64,
}

impl Choices<'_> {
    /// How a row stands, of `who`, whose columns are at `index` of what the candidate shows.
    pub(crate) fn row(&self, row: usize, who: &str, index: impl Fn(usize) -> Vec<usize>) -> Row {
        let (choices, what) = (self.scores.dim().1, self.what);
        let (chosen, own) = (set(self.candidate, row), set(self.own, row));
        let illegal = |note| Row::Illegal { note, over: None };
        let may_be_none = what == BLOCK;
        let is_there = |choice: usize| choice < choices || may_be_none && choice == NONE;
        if let Some(slot) = self.candidate.row(row).iter().position(|&choice| !is_there(choice)) {
            let (choice, index) = (self.candidate[[row, slot]].cast_signed(), index(slot));
            let expected = format!("expected 0 to {}", choices - 1);
            return illegal(format!("{who} chose {what} {choice} at {index:?}, {expected}"));
        }
        let count = |choices: &Array2<usize>| choices.row(row).iter().filter(|&&c| c != NONE).count();
        let (count, expected) = (count(self.candidate), count(self.own));
        if chosen.len() < count && own.len() == expected {
            let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            return illegal(format!("{who} chose {article} {what} twice"));
        }
        if chosen == own {
            return Row::Same;
        }
        if count != expected || chosen.len() != own.len() {
            return illegal(format!("{who} chose {} {what}s, expected {}", chosen.len(), own.len()));
        }
        let error = self.scores.error_or_exact();
        let score = |c: usize| (self.scores.value[[row, c]], error.certain[[row, c]]);
        let lowest = |c: usize| score(c).0 + score(c).1;
        let highest = |c: usize| score(c).0 - score(c).1;
        let weakest = chosen.iter().copied().min_by(|&a, &b| lowest(a).total_cmp(&lowest(b)));
        let best_left = (0..choices).filter(|c| !chosen.contains(c)).max_by(|&a, &b| highest(a).total_cmp(&highest(b)));
        let (Some(weakest), Some(best_left)) = (weakest, best_left) else { return Row::Same };
        if lowest(weakest) >= highest(best_left) {
            return Row::Legal;
        }
        let ((score, e), (threshold, f)) = (score(weakest), score(best_left));
        let note = format!(
            "{who} chose {what} {weakest} (score {score:.6}) over {what} {best_left} (score {threshold:.6}), \
             {:.1} times as far apart as rounding can explain",
            (threshold - score) / (e + f)
        );
        Row::Illegal { note, over: Some(Over { chosen: weakest, score, threshold, bound: e + f }) }
    }
}

/// What may be chosen less often than there is room for.
pub(crate) const BLOCK: &str = "block";

/// What a row chose.
pub(crate) fn set(choices: &Array2<usize>, row: usize) -> BTreeSet<usize> {
    choices.row(row).iter().copied().filter(|&choice| choice != NONE).collect()
}
