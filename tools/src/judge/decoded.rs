//! Puts a candidate's decoded tokens next to the reference's.
//!
//! The reference reads the candidate's own tokens, so that every position is compared, after a divergence too. Where the
//! candidate chose another token, that is legal if rounding explains it: the reference's margin between the two lies within
//! the head's own error bound (a tie), or within what correct implementations' logits differ by (drift). Where the candidate shows which experts it chose, the reference
//! goes by these, so that what another legal choice leads to is not taken for noise.

use ndarray::Array2;
use reference::media::Media;
use reference::models::decoder::{Decoder, Stream};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::argmax;
use reference::run::Run;
use reference::{Error, RoundingContract, Tracked};
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::failure::Failure;
use crate::judge::floor::{MEMBERS, difference_limit};
use crate::judge::replay::Choices;
use crate::judge::verdict::Verdict;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decoded {
    /// The candidate's tokens.
    pub tokens: Vec<u32>,
    /// The reference's margin at each position: its largest logit less its second.
    pub margins: Vec<f64>,
    /// Where the candidate chose otherwise.
    pub divergences: Vec<Divergence>,
}

/// A position at which the candidate did not choose the reference's token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Which of the decoded tokens, from 0.
    pub position: usize,
    /// The candidate's token.
    pub candidate: u32,
    /// The reference's.
    pub reference: u32,
    /// The reference's logit of its own token less that of the candidate's.
    pub margin: f64,
    /// What the rounding of the head's own two logits explains.
    pub rounding: f64,
    /// What noise of the whole model explains.
    pub limit: f64,
    /// Which of these explains it.
    pub cause: Cause,
}

/// What explains another token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// The head's own rounding.
    Tie,
    /// The noise of the whole model.
    Drift,
    /// The candidate's own logits have another token first: it was sampled, given, or put behind the end.
    NotGreedy,
    /// Neither.
    Fault,
}

impl Divergence {
    /// A tie, or what stands for another choice that is legal, or a fault.
    pub fn verdict(&self) -> Verdict {
        match self.cause {
            Cause::Tie | Cause::Drift | Cause::NotGreedy => Verdict::Tie,
            Cause::Fault => Verdict::Fault,
        }
    }
}

impl Decoded {
    /// The worst of all divergences.
    pub fn verdict(&self) -> Verdict {
        self.divergences.iter().map(Divergence::verdict).max().unwrap_or(Verdict::Exact)
    }

    /// Whether a token is the reference's, and none is another because of noise, which may make any other then.
    pub fn says_something(&self) -> bool {
        let drifts = self.divergences.iter().any(|divergence| divergence.cause == Cause::Drift);
        self.divergences.len() < self.tokens.len() && !drifts
    }
}

/// Judges `tokens`, which the candidate decoded after `prompt`, choosing the experts in `choices` as far as they are known.
/// `is_first` says whether a position's token is first in the candidate's own logits, or in those of its final norm, if either is
/// known; if it is not, it was not decoded greedily, and nothing is to be said of it. `progress` is told of each of `1 + MEMBERS` passes.
pub fn judge_decoded(
    model: &Decoder<'_>,
    (prompt, tokens): (&[u32], &[u32]),
    contract: RoundingContract,
    choices: &mut Choices,
    mut is_first: impl FnMut(usize) -> Result<Option<bool>, Failure>,
    mut progress: impl FnMut(),
) -> Result<Decoded, Failure> {
    let read = [prompt, &tokens[..tokens.len().saturating_sub(1)]].concat();
    let stream = stream(model, &read, prompt, &mut Run::new(RoundingContract::IDEAL, choices))?;
    let exact = Stream::from(Tracked::exact(stream.stored.value));
    let truth = model.head(&exact, &mut Run::bounding(contract, choices))?;
    let (truth, error) = (&truth.value, truth.error_or_exact().certain);
    progress();
    let mut found = Decoded { tokens: tokens.to_vec(), margins: Vec::new(), divergences: Vec::new() };
    for (position, (&candidate, row)) in tokens.iter().zip(truth.rows()).enumerate() {
        let own = argmax(row).map_err(Error::from)?;
        found.margins.push(own.margin);
        if own.token != candidate {
            let margin = row[own.token as usize] - row.get(candidate as usize).copied().unwrap_or(f64::NEG_INFINITY);
            let at = |token: u32| error.get((position, token as usize)).copied().unwrap_or(0.0);
            let (reference, rounding) = (own.token, at(own.token) + at(candidate));
            let cause = match is_first(position)? {
                _ if margin <= rounding => Cause::Tie,
                Some(false) => Cause::NotGreedy,
                Some(true) | None => Cause::Fault,
            };
            found.divergences.push(Divergence { position, candidate, reference, margin, rounding, limit: 0.0, cause });
        }
    }
    if found.divergences.iter().all(|divergence| divergence.cause == Cause::NotGreedy) {
        return Ok(found);
    }
    let mut drawn: Vec<Array2<f64>> = Vec::with_capacity(MEMBERS);
    for seed in 1..=MEMBERS as u64 {
        let run = &mut Run::new(contract.stochastic(seed), choices);
        drawn.push(model.head(&self::stream(model, &read, prompt, run)?, run)?.value);
        progress();
    }
    for divergence in &mut found.divergences {
        let gap = |z: &Array2<f64>| {
            let at = |token| z.get((divergence.position, token as usize)).copied().unwrap_or(f64::NEG_INFINITY);
            at(divergence.reference) - at(divergence.candidate)
        };
        divergence.limit = difference_limit(drawn.iter().map(|z| gap(z) - divergence.margin));
        if divergence.cause == Cause::Fault && divergence.margin <= divergence.limit {
            divergence.cause = Cause::Drift;
        }
    }
    Ok(found)
}

/// The residual stream after the last layer, of the last token of `prompt` and each after it.
fn stream(model: &Decoder<'_>, read: &[u32], prompt: &[u32], run: &mut Run<'_, f64>) -> Result<Stream<f64>, Error> {
    let mut cache = KvCache::new(model.config().num_hidden_layers);
    // All is read at once here, and so is what later calls show.
    let media = model.media().map(Media::together);
    let seeing = model.clone().seeing(media.as_ref());
    let features = seeing.features(0, run)?;
    let embedded = model.embed(read, 0, run)?;
    let mut stream = Stream::from(seeing.scatter((0, prompt), embedded, &features, run)?);
    let table = model.rope_table(0, read.len(), run);
    for layer in 0..model.config().num_hidden_layers {
        stream = model.layer(layer, &stream, &table, &mut cache, run)?;
    }
    let rows: Vec<usize> = (prompt.len() - 1..read.len()).collect();
    Ok(Stream::from(stream.stored.select(&rows)))
}
