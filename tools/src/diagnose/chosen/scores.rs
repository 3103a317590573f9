//! By what scores experts are chosen, where these are no scores with their bias.
//!
//! ```text
//! C(i) = the k largest of f(zᵢ) + c·b        solved for c, or for f among functions of the logits; right are c = 1 and σ
//! ```
//!
//! of a token i with logits z \[n, E\] and the bias b \[E\]. Each expert that was chosen, beside each that was not, says whether c is
//! more or less than a number.

use fixtures::names::at::At;
use ndarray::{Array2, ArrayView1, s};
use reference::weights::{LayerWeight, Weight};
use reference::{Error, LayerSite, Real, RoundingContract, Site};

use super::barred::{Set, TIES, sets};
use crate::diagnose::catalogue::assumption::Assumption;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::rechosen::Rechosen;

/// Choices that are off, at least.
const FEWEST: usize = 4;

/// How far a score may be below one that was not chosen: roundings of f32.
const SAME: f64 = 1e-6;

/// Of a token's logits, the bias, and an expert.
type Score = fn(ArrayView1<'_, f64>, &[f64], usize) -> f64;

/// What experts may be chosen by.
const SCORES: [(&str, Score); 5] = [
    ("the logits with their bias", |z, b, e| z[e] + b[e]),
    ("the softmax of the logits, with its bias", |z, b, e| softmax(z, e) + b[e]),
    ("the scores times their bias", |z, b, e| z[e].sigmoid() * b[e]),
    ("the scores with the sigmoid of the bias", |z, b, e| z[e].sigmoid() + b[e].sigmoid()),
    ("the bias alone", |_, b, e| b[e]),
];

fn softmax(z: ArrayView1<'_, f64>, e: usize) -> f64 {
    let most = z.fold(f64::NEG_INFINITY, |most, z| most.max(*z));
    (z[e] - most).exp() / z.iter().map(|z| (z - most).exp()).sum::<f64>()
}

/// What is said of a pass.
pub(super) fn describe(
    (comparison, assumption): (&Comparison<'_>, &Assumption),
    at: At,
    pass: &Rechosen,
) -> Result<Option<String>, Failure> {
    let Some(layer) = at.site.layer() else { return Ok(None) };
    let of = |site| Site::Layer(layer, site);
    let is_shown = |site: &LayerSite| comparison.compared.candidate.has(At { site: of(*site), ..at });
    let behind = [LayerSite::GateWeights, LayerSite::Experts, LayerSite::Mlp, LayerSite::Output];
    let Some(behind) = behind.into_iter().find(is_shown) else { return Ok(None) };
    let before: usize = comparison.compared.steps[..at.step].iter().map(Vec::len).sum();
    let (logits, bias) = comparison.under(assumption, comparison.around(at.site), |verification| {
        let rerun = verification.rerun(RoundingContract::IDEAL, of(behind), &[of(LayerSite::GateLogits)])?;
        let bias = Weight::Layer(layer, LayerWeight::CorrectionBias);
        let bias = verification.model.weights().get(bias).map_err(Error::from)?.dense::<f64>();
        Ok((rerun.beside.get(&of(LayerSite::GateLogits)).cloned(), bias.into_iter().collect::<Vec<f64>>()))
    })?;
    let (own, candidate) = (sets(&pass.own), sets(&pass.candidate));
    let Some(logits) = logits.filter(|z| z.nrows() >= before + own.len() && z.ncols() == bias.len()) else {
        return Ok(None);
    };
    let off = own.iter().zip(&candidate).filter(|(own, candidate)| own != candidate).count();
    let rows = s![before..before + own.len(), ..];
    let made = Made { logits: &logits.slice(rows).to_owned(), bias: &bias, chosen: &candidate };
    let by = made.by().filter(|_| off >= FEWEST);
    Ok(by.map(|by| format!("experts are chosen by {by}: {off} of {} choices are off", own.len())))
}

/// Choices of some rows, and what they are made of.
pub(in crate::diagnose) struct Made<'a> {
    pub(in crate::diagnose) logits: &'a Array2<f64>,
    pub(in crate::diagnose) bias: &'a [f64],
    pub(in crate::diagnose) chosen: &'a [Set],
}

impl Made<'_> {
    /// By what scores next to all are made, if by any that is known: of several, all.
    pub(in crate::diagnose) fn by(&self) -> Option<String> {
        let rules = SCORES.iter().filter(|(_, score)| self.are_largest(*score)).map(|(name, _)| (*name).to_owned());
        let rules: Vec<String> = self.by_times_bias().into_iter().chain(rules).collect();
        (!rules.is_empty()).then(|| rules.join(", or by "))
    }

    /// Whether next to all are those with the largest scores.
    fn are_largest(&self, score: Score) -> bool {
        let against = self.chosen.iter().enumerate().filter(|(row, chosen)| {
            let z = self.logits.row(*row);
            let of = |is_in: bool| (0..self.bias.len()).filter(move |e| chosen.contains(e) == is_in);
            let least = of(true).map(|e| score(z, self.bias, e)).fold(f64::INFINITY, f64::min);
            let best = of(false).map(|e| score(z, self.bias, e)).fold(f64::NEG_INFINITY, f64::max);
            least < best - SAME
        });
        TIES * against.count() <= self.chosen.len()
    }

    /// Whether they are those of the scores and a multiple of the bias, which no number but another than 1 is.
    fn by_times_bias(&self) -> Option<String> {
        let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
        for (row, chosen) in self.chosen.iter().enumerate() {
            let s = self.logits.row(row).mapv(f64::sigmoid);
            for i in chosen.iter().copied().filter(|e| *e < self.bias.len()) {
                for j in (0..self.bias.len()).filter(|e| !chosen.contains(e)) {
                    let (scores, biases) = (s[i] - s[j], self.bias[i] - self.bias[j]);
                    // sᵢ + c·bᵢ ≥ sⱼ + c·bⱼ
                    if biases > 0.0 {
                        least = least.max((-scores - SAME) / biases);
                    } else if biases < 0.0 {
                        most = most.min((scores + SAME) / -biases);
                    } else if scores < -SAME {
                        return None;
                    }
                }
            }
        }
        let is_other = most < 1.0 || least > 1.0;
        (least <= most && is_other && least.is_finite() && most.is_finite())
            .then(|| format!("the scores with a multiple of their bias, by a number between {least:.4} and {most:.4}"))
    }
}
