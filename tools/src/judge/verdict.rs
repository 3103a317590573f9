//! What is said of a site.

use std::fmt;

use reference::Site;
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::judge::agreement::Agreement;
use crate::judge::chosen::Chosen;
use crate::judge::lens::Lens;
use crate::judge::spread::Spread;
use crate::judge::structure::Structure;

/// How a site fares, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verdict {
    /// Every value is the reference's, rounded to the candidate's type.
    Exact,
    /// Within the error bound, or within the noise floor.
    Within,
    /// Another choice, which scores within their bounds could have made.
    Tie,
    /// The candidate has no such activation.
    Missing,
    /// The comparison says nothing: all is zero, or the bound is above the signal.
    Inconclusive,
    /// Inside the certain bound and outside the probable one.
    Suspicious,
    /// Outside.
    Fault,
}

/// By what a site was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// The a-priori bound of each element.
    Bound,
    /// A measured noise floor of so many runs with stochastic rounding: the way from the last known values has more
    /// than one matrix product, and a bound carried through them would be vacuous.
    NoiseFloor(usize),
    /// The intervals of the scores by which a choice was made.
    Intervals,
}

/// The element that stands out most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// Its index in the dumped tensor, without a batch axis.
    pub index: Vec<usize>,
    /// What the candidate has.
    pub candidate: f64,
    /// What the reference has.
    pub reference: f64,
    /// How far they may be apart.
    pub bound: f64,
    /// Their distance in units of that.
    pub ratio: f64,
}

/// A token that other experts were chosen for than the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flip {
    /// The token.
    pub token: usize,
    /// Whether rounding can explain it.
    pub legal: bool,
}

/// Which token a row of logits makes the likeliest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Top {
    /// The row.
    pub token: usize,
    /// The candidate's.
    pub candidate: u32,
    /// The reference's.
    pub reference: u32,
    /// The reference's largest logit less its second.
    pub margin: f64,
}

/// What errors of logits do to the probabilities of the next token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    /// KL(reference‖candidate) in nats, the largest of all tokens.
    pub divergence: f64,
    /// What it may be, by the bounds of the logits.
    pub bound: f64,
}

/// One site under one lens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    /// The forward pass.
    pub step: usize,
    /// The position of the pass's first token.
    pub first: usize,
    /// The place.
    pub site: Site,
    /// The lens.
    pub lens: Lens,
    /// What is said.
    pub verdict: Verdict,
    /// By what.
    pub judged_by: JudgedBy,
    /// Elements, or tokens that chose.
    pub count: usize,
    /// How many are the reference's own, rounded.
    pub equal: usize,
    /// How many of a right implementation's are expected not to be, where the bound tells.
    pub unequal_expected: Option<f64>,
    /// Under the local lens, how the values stand to those of the candidate's twin.
    pub twin: Option<Agreement>,
    /// Structure in what is not the twin's, which rounding does not explain.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub structures: Vec<Structure>,
    /// One that is improbable by itself, and may be chance among all that is looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<Structure>,
    /// How many are outside.
    pub faults: usize,
    /// How many are inside the certain bound and outside the probable one.
    pub suspicious: usize,
    /// ‖candidate − reference‖ / ‖reference‖.
    pub deviation: f64,
    /// The same of a correct implementation's noise, where it was measured: the largest of the runs.
    pub floor: Option<f64>,
    /// How far a run may stray and still be within the noise floor's limit, its errors spread as is typical.
    pub limit: Option<f64>,
    /// The share of right implementations that stray less, as these runs predict it.
    pub quantile: Option<f64>,
    /// Under the layer lens, how much of the deviation at the layer's output came in with its input.
    pub carried: Option<f64>,
    /// The element that stands out most.
    pub worst: Option<Worst>,
    /// Sites on the way here that the candidate does not show: these operators were judged together.
    pub segment: Vec<Site>,
    /// What else there is to say, in a sentence.
    pub note: Option<String>,
    /// At a choice of experts, the tokens whose experts differ.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flips: Vec<Flip>,
    /// How the errors are spread; a report in JSON has no pictures.
    #[serde(skip)]
    pub spread: Option<Spread>,
    /// At a choice, what was chosen.
    #[serde(skip)]
    pub chosen: Option<Chosen>,
    /// At the logits, what their errors do.
    pub likelihood: Option<Likelihood>,
    /// At the logits, the likeliest token of each row, as far as all are numbers.
    #[serde(skip)]
    pub tops: Vec<Top>,
}

impl fmt::Display for JudgedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JudgedBy::Bound => f.write_str("error bound"),
            JudgedBy::NoiseFloor(runs) => write!(f, "noise floor of {runs} runs"),
            JudgedBy::Intervals => f.write_str("score intervals"),
        }
    }
}

impl SiteReport {
    /// Of a site that is not judged, or not yet.
    pub fn missing(step: usize, site: Site, lens: Lens) -> Self {
        SiteReport {
            step,
            first: 0,
            site,
            lens,
            verdict: Verdict::Missing,
            judged_by: JudgedBy::Bound,
            count: 0,
            equal: 0,
            unequal_expected: None,
            twin: None,
            structures: Vec::new(),
            hint: None,
            faults: 0,
            suspicious: 0,
            deviation: 0.0,
            floor: None,
            limit: None,
            quantile: None,
            carried: None,
            worst: None,
            segment: Vec::new(),
            note: None,
            flips: Vec::new(),
            spread: None,
            chosen: None,
            likelihood: None,
            tops: Vec::new(),
        }
    }
}

impl SiteReport {
    /// Takes how the values stand to the twin's. A site whose every value is the twin's, bit for bit, is what a right
    /// implementation of this precision computes, however far its roundings happen to add up. So is one that has as many of them as is
    /// predicted where the noise floor's limit is above the signal, if these are more than chance makes equal.
    pub fn stands_to_twin(&mut self, agreement: Option<Agreement>) {
        self.twin = agreement;
        let Some(agreement) = agreement else { return };
        if agreement.equal == agreement.count && self.verdict == Verdict::Suspicious {
            (self.verdict, self.suspicious) = (Verdict::Within, 0);
        }
        let is_drowned = self.verdict == Verdict::Inconclusive && self.limit.is_some_and(|limit| limit > 1.0);
        if !is_drowned || !agreement.predicts_equal() {
            return;
        }
        let (equal, expected) = (100.0 * agreement.share(), 100.0 * agreement.expected());
        let seen = format!(
            "{}; {equal:.1} % of values are the twin's, bit for bit, where {expected:.1} % are expected of a right one",
            self.note.take().unwrap_or_default()
        );
        self.note = Some(if agreement.has_predicted_equal() {
            self.verdict = Verdict::Within;
            seen
        } else {
            format!("{seen}: it may be wrong, or computed in a precision that is none of those known")
        });
    }
}
