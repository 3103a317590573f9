//! Which choices of experts are legal.
//!
//! Scores sᵢ that may be off by eᵢ can lead to the choice C if and only if min over C of sᵢ + eᵢ ≥ max over the rest of
//! sⱼ − eⱼ. A legal choice that is not the reference's is a tie; any other is a fault.

use std::collections::BTreeSet;

use super::Lens;
use super::chance::beyond;
use super::substitution::SeenChoice;
use crate::verdict::{Flip, JudgedBy, SiteReport, Verdict, Worst};

/// One token's choice.
enum Row {
    Same,
    Legal,
    Illegal { expert: usize, note: String, score: f64, threshold: f64, bound: f64 },
}

impl SeenChoice {
    pub(crate) fn report(&self, step: usize) -> SiteReport {
        let mut report = SiteReport {
            verdict: Verdict::Exact,
            judged_by: JudgedBy::Intervals,
            count: self.candidate.nrows(),
            unequal_expected: Some((0..self.candidate.nrows()).map(|token| self.expected(token)).sum()),
            ..SiteReport::missing(step, self.site, Lens::Local)
        };
        for token in 0..self.candidate.nrows() {
            match self.row(token) {
                Row::Same => report.equal += 1,
                Row::Legal => {
                    report.verdict = report.verdict.max(Verdict::Tie);
                    report.flips.push(Flip { token, legal: true });
                }
                Row::Illegal { expert, note, score, threshold, bound } => {
                    report.faults += 1;
                    report.flips.push(Flip { token, legal: false });
                    report.verdict = Verdict::Fault;
                    report.note.get_or_insert(note);
                    let ratio = (threshold - score).abs() / bound;
                    let worst =
                        Worst { index: vec![token, expert], candidate: score, reference: threshold, bound, ratio };
                    report.worst.get_or_insert(worst);
                }
            }
        }
        report.deviation = (report.count - report.equal) as f64 / report.count.max(1) as f64;
        report
    }

    /// How probable it is that a right implementation chooses otherwise: that the errors of two scores, taken as normal,
    /// exchange one that is chosen and one that is not.
    fn expected(&self, token: usize) -> f64 {
        let error = self.scores.error_or_exact();
        let (scores, sigma) = (self.scores.value.row(token), error.sigma.row(token));
        let own: BTreeSet<usize> = self.chosen.row(token).iter().copied().collect();
        let others = || (0..scores.len()).filter(|expert| !own.contains(expert));
        let exchanged = |i: usize, j: usize| beyond(scores[i] - scores[j], sigma[i].hypot(sigma[j])) / 2.0;
        own.iter().flat_map(|&i| others().map(move |j| exchanged(i, j))).sum::<f64>().min(1.0)
    }

    fn row(&self, token: usize) -> Row {
        let experts = self.scores.dim().1;
        let chosen: BTreeSet<usize> = self.candidate.row(token).iter().copied().collect();
        let own: BTreeSet<usize> = self.chosen.row(token).iter().copied().collect();
        let illegal = |expert, note| Row::Illegal { expert, note, score: 0.0, threshold: 0.0, bound: 0.0 };
        if let Some(&expert) = chosen.iter().find(|&&e| e >= experts) {
            return illegal(expert, format!("token {token} chose expert {expert} of {experts}"));
        }
        if chosen.len() < self.candidate.ncols() {
            return illegal(0, format!("token {token} chose an expert twice"));
        }
        if chosen == own {
            return Row::Same;
        }
        let error = self.scores.error_or_exact();
        let score = |e: usize| (self.scores.value[[token, e]], error.certain[[token, e]]);
        let lowest = |e: usize| score(e).0 + score(e).1;
        let highest = |e: usize| score(e).0 - score(e).1;
        let weakest = chosen.iter().copied().min_by(|&a, &b| lowest(a).total_cmp(&lowest(b)));
        let best_left = (0..experts).filter(|e| !chosen.contains(e)).max_by(|&a, &b| highest(a).total_cmp(&highest(b)));
        let (Some(weakest), Some(best_left)) = (weakest, best_left) else { return Row::Same };
        if lowest(weakest) >= highest(best_left) {
            return Row::Legal;
        }
        let ((score, e), (threshold, f)) = (score(weakest), score(best_left));
        let note = format!(
            "token {token} chose expert {weakest} (score {score:.6}) over expert {best_left} (score {threshold:.6}), \
             {:.1} times as far apart as rounding can explain",
            (threshold - score) / (e + f)
        );
        Row::Illegal { expert: weakest, note, score, threshold, bound: e + f }
    }
}
