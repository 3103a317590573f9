//! What is said of a site, and what follows from it for the site's values.

use ndarray::Array2;

use crate::diagnose::search::Bench;
use crate::diagnose::share::Share;

/// How much of the squares of what was off may be left in the rows of which something is said: of values that have nothing to do with
/// what is right, half is left where nothing stands in their place.
const LEFT: f64 = 0.25;

/// Channels of a row that is the candidate's within roundings, at least, and how many times as far off as these it was.
const CHANNELS: usize = 16;
const FAR: f64 = 16.0;

/// Sentences that hold together.
pub(super) struct Solution {
    said: Vec<String>,
    /// The site's values under them, without rounding; `None` where the sentences do not say what they are.
    values: Option<Array2<f64>>,
    /// The same as they are stored, where all that is rounded before that is known.
    stored: Option<Array2<f64>>,
}

impl Solution {
    pub(super) fn new(said: Vec<String>, values: Array2<f64>) -> Self {
        Solution { said, values: Some(values), stored: None }
    }

    /// Of a sentence from which no value follows.
    pub(super) fn without_values(said: String) -> Self {
        Solution { said: vec![said], values: None, stored: None }
    }

    /// The same, with words before the first sentence.
    pub(super) fn before(mut self, words: &str) -> Self {
        if let Some(first) = self.said.first_mut() {
            first.insert_str(0, words);
        }
        self
    }

    /// The same with values as they are stored, if these reproduce more than those that are rounded once.
    pub(super) fn or_stored(mut self, bench: &Bench<'_, '_>, stored: Array2<f64>) -> Self {
        if bench.equal(&stored).equal > self.share(bench).equal {
            self.stored = Some(stored);
        }
        self
    }

    /// Whether values follow from them.
    pub(super) fn has_values(&self) -> bool {
        self.values.is_some()
    }

    /// The site's values under them, as they are stored.
    fn stored(&self, bench: &Bench<'_, '_>) -> Option<Array2<f64>> {
        self.stored.clone().or_else(|| self.values.as_ref().map(|values| bench.stored(values)))
    }

    /// Values that are the candidate's under them.
    pub(super) fn share(&self, bench: &Bench<'_, '_>) -> Share {
        self.stored(bench).map(|stored| bench.equal(&stored)).unwrap_or_default()
    }

    /// Whether it makes more values the candidate's than the unchanged twin has.
    pub(super) fn is_more(&self, bench: &Bench<'_, '_>) -> bool {
        self.stored(bench).is_none_or(|stored| bench.is_more(&stored))
    }

    /// Whether another says more of all values that this says something of.
    pub(super) fn is_less_than(&self, other: &Solution, bench: &Bench<'_, '_>) -> bool {
        let (Some(own), Some(others)) = (&self.values, &other.values) else { return false };
        let mut changed = (0..own.nrows()).filter(|row| own.row(*row) != bench.ideal.row(*row));
        changed.all(|row| others.row(row) != bench.ideal.row(row)) && other.share(bench).exceeds(self.share(bench))
    }

    /// The sentences, the last with the share of values that they reproduce; none where that is the unchanged twin's, or more by
    /// no more than chance makes it.
    pub(super) fn told(mut self, bench: &Bench<'_, '_>) -> Vec<String> {
        let (Some(stored), Some(values)) = (self.stored(bench), self.values) else { return self.said };
        let is_reproduced = bench.is_more(&stored) || is_within(bench, &values, &stored);
        if !is_reproduced || !comes_near(bench, &values, &stored) {
            return Vec::new();
        }
        let percent = |share: Share| 100.0 * share.equal as f64 / share.count.max(1) as f64;
        let (under, without) = (percent(bench.equal(&stored)), percent(bench.equal(&bench.twin.computed)));
        let together = if self.said.len() > 1 { "together these reproduce" } else { "reproduces" };
        if let Some(last) = self.said.last_mut() {
            *last = format!("{last} ({together} {under:.1} % of values bit for bit, without it {without:.1} %)");
        }
        self.said
    }
}

/// Whether rows that have other values are the candidate's within roundings, and were far off: of few rows, the bits that are
/// reproduced are too few to tell.
fn is_within(bench: &Bench<'_, '_>, values: &Array2<f64>, stored: &Array2<f64>) -> bool {
    let norm = |of: &Array2<f64>, row: usize| {
        let apart = &bench.candidate.row(row) - &of.row(row);
        apart.dot(&apart).sqrt()
    };
    let is = |row: usize| {
        let own = bench.candidate.row(row);
        let limit = bench.rounding() * own.dot(&own).sqrt();
        norm(stored, row) <= limit && norm(&bench.twin.computed, row) > FAR * limit
    };
    let mut other = (0..values.nrows()).filter(|row| values.row(*row) != bench.ideal.row(*row)).peekable();
    values.ncols() >= CHANNELS && other.peek().is_some() && other.all(is)
}

/// Whether most of what was off is gone in the rows that have other values.
fn comes_near(bench: &Bench<'_, '_>, values: &Array2<f64>, stored: &Array2<f64>) -> bool {
    let apart = |of: &Array2<f64>, row: usize| {
        let apart = &bench.candidate.row(row) - &of.row(row);
        bench.counts()[row] * apart.dot(&apart)
    };
    let other = (0..values.nrows()).filter(|row| values.row(*row) != bench.ideal.row(*row));
    let (was, is) =
        other.fold((0.0, 0.0), |(was, is), row| (was + apart(&bench.twin.computed, row), is + apart(stored, row)));
    is <= LEFT * was
}
