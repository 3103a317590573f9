//! Choices that scores within their bounds could have made, and that the twin is nowhere near to making.
//!
//! A bound covers every rounding on the way to the scores. The twin performs them, and what is left is the order of sums, which its runs
//! in other orders show.

use reference::Real;

use super::legal::set;
use super::substitution::SeenChoice;
use crate::judge::verdict::{SiteReport, Verdict, Worst};

/// How many standard deviations of runs in other orders two scores are apart, at least: of seven runs, the fewest, more is rarer than
/// 1e-8, by Student's t.
const APART: f64 = 32.0;

/// And how many roundings of f32, of a score and of 1, which no sigmoid is above: its exponential is within four, and the sum, the
/// reciprocal, the bias and a rounding besides are one each.
const LAST_BITS: f64 = 8.0;

/// Rows of a choice that the twin does not explain.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanged {
    /// How many.
    pub rows: usize,
    /// The clearest of them.
    pub worst: Worst,
    /// It in words.
    pub note: String,
}

impl Exchanged {
    /// Of a twin's choice, and those of its runs in other orders.
    pub(super) fn of(own: &SeenChoice, others: &[SeenChoice]) -> Option<Self> {
        let rows = (0..own.candidate.nrows()).filter_map(|row| own.exchanged(row, others));
        let (mut count, mut worst) = (0, None::<Pair>);
        for pair in rows {
            count += 1;
            worst = worst.filter(|worst| worst.gap / worst.limit >= pair.gap / pair.limit).or(Some(pair));
        }
        let Pair { row, chosen: (chosen, score), left: (left, threshold), gap, limit } = worst?;
        let (what, token) = (own.what(), own.token(row));
        let note = format!(
            "token {token} chose {what} {chosen} (score {score:.6}) over {what} {left} (score {threshold:.6}): within what roundings \
             can do at most, but where they are performed the order of sums moves these scores by less than {limit:.1e}; {count} of {} \
             choices are so",
            own.candidate.nrows()
        );
        let worst = Worst {
            index: own.index(row, chosen),
            candidate: score,
            reference: threshold,
            bound: limit,
            ratio: gap / limit,
        };
        Some(Exchanged { rows: count, worst, note })
    }

    /// Makes a site suspicious, and no fault: it is the twin of a precision that may have been found.
    pub(super) fn tell(self, report: &mut SiteReport) {
        if report.verdict < Verdict::Suspicious {
            (report.verdict, report.suspicious) = (Verdict::Suspicious, self.rows);
            (report.worst, report.note) = (Some(self.worst), Some(self.note));
        }
    }
}

/// What was chosen and what was left, with their scores.
struct Pair {
    row: usize,
    chosen: (usize, f64),
    left: (usize, f64),
    gap: f64,
    limit: f64,
}

impl SeenChoice {
    fn exchanged(&self, row: usize, others: &[SeenChoice]) -> Option<Pair> {
        let (candidate, own) = (set(&self.candidate, row), set(&self.chosen, row));
        let choices = self.scores.dim().1;
        if candidate == own || candidate.len() != own.len() || candidate.iter().any(|choice| *choice >= choices) {
            return None;
        }
        let scores = self.scores.value.row(row);
        let by_score = |a: &usize, b: &usize| scores[*a].total_cmp(&scores[*b]);
        let chosen = candidate.iter().copied().min_by(by_score)?;
        let left = (0..choices).filter(|choice| !candidate.contains(choice)).max_by(by_score)?;
        let gap_in = |of: &SeenChoice| of.scores.value[[row, left]] - of.scores.value[[row, chosen]];
        let gap = gap_in(self);
        let squares: f64 = others.iter().map(|other| (gap_in(other) - gap).powi(2)).sum();
        let spread = (squares / others.len().max(1) as f64).sqrt();
        let last = LAST_BITS * f32::UNIT_ROUNDOFF * (2.0 + scores[chosen].abs() + scores[left].abs());
        let limit = APART * spread + last;
        let pair = Pair { row, chosen: (chosen, scores[chosen]), left: (left, scores[left]), gap, limit };
        (gap.is_finite() && limit.is_finite() && gap > limit).then_some(pair)
    }
}
