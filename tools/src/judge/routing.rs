//! Choices of experts, and of blocks of keys, next to the reference's.

use reference::{LayerSite, Site};

use super::chance::beyond;
use super::legal::{BLOCK, Choices, Over, Row, set};
use super::lens::Lens;
use super::substitution::SeenChoice;
use crate::judge::agreement::Agreement;
use crate::judge::chosen::{self, Chosen, Standing};
use crate::judge::verdict::{Flip, JudgedBy, SiteReport, Verdict, Worst};

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
        if let Some(why) = &self.unknown {
            return SiteReport {
                verdict: Verdict::Inconclusive,
                note: Some(why.clone()),
                unequal_expected: None,
                ..report
            };
        }
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
                    // Of one token, both.
                    if let (Some(Over { chosen, score, threshold, bound }), None) = (over, &report.worst) {
                        let ratio = (threshold - score).abs() / bound;
                        let index = self.index(row, chosen);
                        report.worst = Some(Worst { index, candidate: score, reference: threshold, bound, ratio });
                        report.note = Some(note);
                    } else {
                        report.note.get_or_insert(note);
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
        Agreement { count, equal, bits: equal as f64 / count.max(1) as f64, unequal_expected: 0.0, bits_expected: 0.0 }
    }

    /// The index of an element in the dumped tensor.
    pub(super) fn index(&self, row: usize, column: usize) -> Vec<usize> {
        let (chooser, token) = (row / self.tokens, self.token(row));
        if self.candidate.nrows() == self.tokens { vec![token, column] } else { vec![chooser, token, column] }
    }

    /// The token of a row.
    pub(super) fn token(&self, row: usize) -> usize {
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

    /// What is chosen, in a word.
    pub(super) fn what(&self) -> &'static str {
        if matches!(self.site, Site::Layer(_, LayerSite::Blocks)) { BLOCK } else { "expert" }
    }

    fn row(&self, row: usize) -> Row {
        let choices =
            Choices { what: self.what(), scores: &self.scores, own: &self.chosen, candidate: &self.candidate };
        choices.row(row, &format!("token {}", self.token(row)), |slot| self.index(row, slot))
    }
}
