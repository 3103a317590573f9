//! How a stated number is held to what is recomputed.

use serde::Serialize;
use strum::Display;

/// What is to be thought of a claim. The worst of its figures' is a claim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Recomputed, it reads as stated, to the last digit that is printed.
    Holds,
    /// It reads otherwise, but is within 1 %.
    Close,
    /// Neither.
    Fails,
    /// It follows from no hyperparameter: measured elsewhere, or arithmetic on what was.
    External,
    /// A number that the documents lack.
    Unstated,
}

/// How far a number that reads otherwise may be from what is recomputed, of that.
const CLOSE: f64 = 0.01;

impl Verdict {
    /// Of a number that is rounded to so many decimals of a unit; halves are rounded up, as people round.
    pub fn rounded(stated: f64, recomputed: f64, decimals: usize) -> Self {
        let digits = 10_f64.powi(i32::try_from(decimals).expect("a printed number is short"));
        if (stated * digits).round() == (recomputed * digits).round() {
            return Verdict::Holds;
        }
        let is_close = recomputed.is_finite() && (stated - recomputed).abs() <= CLOSE * recomputed.abs();
        if is_close { Verdict::Close } else { Verdict::Fails }
    }

    /// Of a number all of whose digits are stated: nothing is near to it.
    pub fn exact(stated: f64, recomputed: f64) -> Self {
        Verdict::of(stated == recomputed)
    }

    /// Of something that is so or not.
    pub fn of(is_so: bool) -> Self {
        if is_so { Verdict::Holds } else { Verdict::Fails }
    }

    /// Whether it is one that does not stand as stated.
    pub fn is_failing(self) -> bool {
        matches!(self, Verdict::Close | Verdict::Fails)
    }
}
