//! Which choices of experts, and of blocks of keys, are legal.
//!
//! Scores sᵢ that may be off by eᵢ can lead to the choice C if and only if min over C of sᵢ + eᵢ ≥ max over the rest of
//! sⱼ − eⱼ. A legal choice that is not the reference's is a tie; any other is a fault.

use std::collections::BTreeSet;

use ndarray::Array2;
use reference::site::NONE;
use reference::{LayerSite, Site};

use super::chance::beyond;
use super::lens::Lens;
use super::substitution::SeenChoice;
use crate::judge::agreement::Agreement;
use crate::judge::chosen::{self, Chosen, Standing};
use crate::judge::verdict::{Flip, JudgedBy, SiteReport, Verdict, Worst};

/// One choice of a token.
enum Row {
    Same,
    Legal,
    /// With scores that say so, if scores do.
    Illegal {
        note: String,
        over: Option<Over>,
    },
}

/// A choice over one of a higher score.
struct Over {
    chosen: usize,
    score: f64,
    threshold: f64,
    bound: f64,
}

impl Row {
    fn standing(&self) -> Standing {
        match self {
            Row::Same => Standing::Same,
            Row::Legal => Standing::Legal,
            Row::Illegal { .. } => Standing::Illegal,
        }
    }
}

impl SeenChoice {
    pub(crate) fn report(&self, step: usize) -> SiteReport {
        let mut report = SiteReport {
            verdict: Verdict::Exact,
            judged_by: JudgedBy::Intervals,
            count: self.candidate.nrows(),
            unequal_expected: Some((0..self.candidate.nrows()).map(|row| self.expected(row)).sum()),
            ..SiteReport::missing(step, self.site, Lens::Local)
        };
        let mut standings = Vec::with_capacity(self.candidate.nrows());
        for row in 0..self.candidate.nrows() {
            let token = self.token(row);
            let judged = self.row(row);
            standings.push(judged.standing());
            match judged {
                Row::Same => report.equal += 1,
                Row::Legal => {
                    report.verdict = report.verdict.max(Verdict::Tie);
                    report.flips.push(Flip { token, legal: true });
                }
                Row::Illegal { note, over } => {
                    report.faults += 1;
                    report.flips.push(Flip { token, legal: false });
                    report.verdict = Verdict::Fault;
                    report.note.get_or_insert(note);
                    if let Some(Over { chosen, score, threshold, bound }) = over {
                        let ratio = (threshold - score).abs() / bound;
                        let index = self.index(row, chosen);
                        let worst = Worst { index, candidate: score, reference: threshold, bound, ratio };
                        report.worst.get_or_insert(worst);
                    }
                }
            }
        }
        report.deviation = (report.count - report.equal) as f64 / report.count.max(1) as f64;
        report.chosen = Some(self.picture(&standings));
        report
    }

    /// How the candidate's choices stand to the run's own.
    pub(crate) fn agreement(&self) -> Agreement {
        let count = self.candidate.nrows();
        let equal = (0..count).filter(|&row| set(&self.candidate, row) == set(&self.chosen, row)).count();
        Agreement { count, equal, bits: equal as f64 / count.max(1) as f64, unequal_expected: 0.0 }
    }

    /// The index of an element in the dumped tensor.
    fn index(&self, row: usize, column: usize) -> Vec<usize> {
        let (chooser, token) = (row / self.tokens, self.token(row));
        if self.candidate.nrows() == self.tokens { vec![token, column] } else { vec![chooser, token, column] }
    }

    /// The token of a row.
    fn token(&self, row: usize) -> usize {
        let token = row % self.tokens;
        self.shown.as_ref().map_or(token, |shown| shown[token])
    }

    fn picture(&self, standings: &[Standing]) -> Chosen {
        let choices = self.scores.dim().1;
        let rows = standings.iter().enumerate().map(|(row, &standing)| {
            let (chosen, own) = (set(&self.candidate, row), set(&self.chosen, row));
            let there = |choice: &usize| *choice < choices;
            let other = chosen.symmetric_difference(&own).copied().filter(there).collect();
            chosen::Row { chosen: chosen.into_iter().filter(there).collect(), other, standing }
        });
        Chosen::of((self.candidate.nrows(), choices), self.tokens, rows)
    }

    /// How probable it is that a right implementation chooses otherwise: that the errors of two scores, taken as normal,
    /// exchange one that is chosen and one that is not.
    fn expected(&self, row: usize) -> f64 {
        let error = self.scores.error_or_exact();
        let (scores, sigma) = (self.scores.value.row(row), error.sigma.row(row));
        let own = set(&self.chosen, row);
        let others = || (0..scores.len()).filter(|choice| !own.contains(choice));
        let exchanged = |i: usize, j: usize| beyond(scores[i] - scores[j], sigma[i].hypot(sigma[j])) / 2.0;
        own.iter().flat_map(|&i| others().map(move |j| exchanged(i, j))).sum::<f64>().min(1.0)
    }

    fn row(&self, row: usize) -> Row {
        let choices = self.scores.dim().1;
        let blocks = matches!(self.site, Site::Layer(_, LayerSite::Blocks));
        let (what, token) = (if blocks { "block" } else { "expert" }, self.token(row));
        let (chosen, own) = (set(&self.candidate, row), set(&self.chosen, row));
        let illegal = |note| Row::Illegal { note, over: None };
        let is_there = |choice: usize| choice < choices || blocks && choice == NONE;
        if let Some(slot) = self.candidate.row(row).iter().position(|&choice| !is_there(choice)) {
            let (choice, index) = (self.candidate[[row, slot]].cast_signed(), self.index(row, slot));
            let expected = format!("expected 0 to {}", choices - 1);
            return illegal(format!("token {token} chose {what} {choice} at {index:?}, {expected}"));
        }
        let count = |choices: &Array2<usize>| choices.row(row).iter().filter(|&&c| c != NONE).count();
        let (count, expected) = (count(&self.candidate), count(&self.chosen));
        if chosen.len() < count && own.len() == expected {
            return illegal(format!("token {token} chose {} {what} twice", if blocks { "a" } else { "an" }));
        }
        if chosen == own {
            return Row::Same;
        }
        if count != expected || chosen.len() != own.len() {
            return illegal(format!("token {token} chose {} {what}s, expected {}", chosen.len(), own.len()));
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
            "token {token} chose {what} {weakest} (score {score:.6}) over {what} {best_left} (score {threshold:.6}), \
             {:.1} times as far apart as rounding can explain",
            (threshold - score) / (e + f)
        );
        Row::Illegal { note, over: Some(Over { chosen: weakest, score, threshold, bound: e + f }) }
    }
}

/// What a row chose.
fn set(choices: &Array2<usize>, row: usize) -> BTreeSet<usize> {
    choices.row(row).iter().copied().filter(|&choice| choice != NONE).collect()
}
