//! Puts a candidate's decoded tokens next to the reference's.
//!
//! The reference reads the candidate's own tokens, so that every position is compared, after a divergence too. Where the
//! candidate chose another token, that is legal if noise explains it: the reference's margin between the two lies
//! within what correct implementations' logits differ by. Where the candidate shows which experts it chose, the reference
//! goes by these, so that what another legal choice leads to is not taken for noise.

use ndarray::Array2;
use reference::models::decoder::{Decoder, Stream};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::argmax;
use reference::run::Run;
use reference::{Error, RoundingContract};
use serde::Serialize;

use crate::lens::{MEMBERS, difference_limit};
use crate::replay::Choices;
use crate::verdict::Verdict;

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decoded {
    /// The candidate's tokens.
    pub tokens: Vec<u32>,
    /// The reference's margin at each position: its largest logit less its second.
    pub margins: Vec<f64>,
    /// Where the candidate chose otherwise.
    pub divergences: Vec<Divergence>,
}

/// A position at which the candidate did not choose the reference's token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// Which of the decoded tokens, from 0.
    pub position: usize,
    /// The candidate's token.
    pub candidate: u32,
    /// The reference's.
    pub reference: u32,
    /// The reference's logit of its own token less that of the candidate's.
    pub margin: f64,
    /// What noise explains.
    pub limit: f64,
    /// Tie or fault.
    pub verdict: Verdict,
}

impl Decoded {
    /// The worst of all divergences.
    pub fn verdict(&self) -> Verdict {
        self.divergences.iter().map(|d| d.verdict).max().unwrap_or(Verdict::Exact)
    }
}

/// Judges `tokens`, which the candidate decoded greedily after `prompt`, choosing the experts in `choices` as far as they
/// are known; `progress` is told of each of `1 + MEMBERS` passes.
pub fn judge_decoded(
    model: &Decoder<'_>,
    (prompt, tokens): (&[u32], &[u32]),
    contract: RoundingContract,
    choices: &mut Choices,
    mut progress: impl FnMut(),
) -> Result<Decoded, Error> {
    let read = [prompt, &tokens[..tokens.len().saturating_sub(1)]].concat();
    let mut logits = |contract| logits(model, &read, prompt.len() - 1, &mut Run::new(contract, choices));
    let truth = logits(RoundingContract::IDEAL)?;
    progress();
    let mut found = Decoded { tokens: tokens.to_vec(), margins: Vec::new(), divergences: Vec::new() };
    for (position, (&candidate, row)) in tokens.iter().zip(truth.rows()).enumerate() {
        let own = argmax(row)?;
        found.margins.push(own.margin);
        if own.token != candidate {
            let margin = row[own.token as usize] - row.get(candidate as usize).copied().unwrap_or(f64::NEG_INFINITY);
            let (reference, verdict) = (own.token, Verdict::Fault);
            found.divergences.push(Divergence { position, candidate, reference, margin, limit: 0.0, verdict });
        }
    }
    if found.divergences.is_empty() {
        return Ok(found);
    }
    let mut drawn: Vec<Array2<f64>> = Vec::with_capacity(MEMBERS);
    for seed in 1..=MEMBERS as u64 {
        drawn.push(logits(contract.stochastic(seed))?);
        progress();
    }
    for divergence in &mut found.divergences {
        let gap = |z: &Array2<f64>| {
            let at = |token| z.get((divergence.position, token as usize)).copied().unwrap_or(f64::NEG_INFINITY);
            at(divergence.reference) - at(divergence.candidate)
        };
        divergence.limit = difference_limit(drawn.iter().map(|z| gap(z) - divergence.margin));
        if divergence.margin <= divergence.limit {
            divergence.verdict = Verdict::Tie;
        }
    }
    Ok(found)
}

/// The logits after each token from `first` on.
fn logits(model: &Decoder<'_>, read: &[u32], first: usize, run: &mut Run<'_, f64>) -> Result<Array2<f64>, Error> {
    let mut cache = KvCache::new(model.config().num_hidden_layers);
    let mut stream = Stream::from(model.embed(read, 0, run)?);
    let table = model.rope_table(0, read.len(), run);
    for layer in 0..model.config().num_hidden_layers {
        stream = model.layer(layer, &stream, &table, &mut cache, run)?;
    }
    let rows: Vec<usize> = (first..read.len()).collect();
    Ok(model.head(&Stream::from(stream.stored.select(&rows)), run)?.value)
}
