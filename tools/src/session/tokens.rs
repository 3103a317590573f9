//! The decoded tokens of a comparison, judged.

use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use ndarray::{Array2, ArrayView1};
use reference::Site;
use reference::models::decoder::Decoder;

use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::decoded::{Decoded, judge_decoded};
use crate::judge::floor::MEMBERS;
use crate::judge::lens::Lens;
use crate::judge::loaded::Loaded;
use crate::judge::replay::Choices;
use crate::judge::verification::extent;

/// Judges the decoded tokens.
pub(super) fn judge_tokens(
    comparison: &Comparison<'_>,
    prompt: &Prompt,
    watch: &mut Watcher<'_>,
) -> Result<Decoded, Failure> {
    let Compared { candidate, steps, .. } = comparison.compared;
    let reference = comparison.model()?;
    let passes: Vec<usize> = steps.iter().map(Vec::len).collect();
    let mut choices = Choices::of(candidate, reference.config(), &passes)?;
    let tokens = (&prompt.tokens[..], &prompt.decoded[..]);
    watch(Progress::Begins { what: "verifying the decode", steps: 1 + MEMBERS });
    let mut made: Option<Made> = None;
    let is_first = |position: usize| match is_first(&comparison.compared, tokens, position)? {
        None => {
            let made = match &mut made {
                Some(made) => made,
                none => none.insert(Made::of(comparison, &reference)?),
            };
            Ok(made.has_first(tokens, position))
        }
        shown => Ok(shown),
    };
    let contract = comparison.contract;
    let decoded = judge_decoded(&reference, tokens, contract, &mut choices, is_first, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(decoded)
}

/// The logits that the head makes of the candidate's own final norm, where it shows that of every token.
struct Made(Option<Array2<f64>>);

impl Made {
    fn of(comparison: &Comparison<'_>, reference: &Decoder<'_>) -> Result<Self, Failure> {
        let Compared { candidate, config, steps, media, .. } = comparison.compared;
        let has_norm =
            |step: usize| Loaded::new(candidate, config, step, extent(steps, media, step)).has(Site::FinalNorm);
        if !(0..steps.len()).all(has_norm) {
            return Ok(Made(None));
        }
        let verification = comparison.verification(reference, &[Lens::Local], 0..config.num_hidden_layers);
        let mut rerun = verification.rerun(comparison.contract, Site::FinalNorm, &[Site::LmHead])?;
        let tokens: usize = steps.iter().map(Vec::len).sum();
        Ok(Made(rerun.beside.remove(&Site::LmHead).filter(|logits| logits.nrows() == tokens)))
    }

    /// Whether the token at a position of what was decoded is first in them.
    fn has_first(&self, (prompt, decoded): (&[u32], &[u32]), position: usize) -> Option<bool> {
        let row = self.0.as_ref().filter(|logits| prompt.len() + position <= logits.nrows())?;
        is_largest(row.row(prompt.len() - 1 + position), decoded[position])
    }
}

/// Whether no logit is larger than a token's, if it has one.
fn is_largest(row: ArrayView1<'_, f64>, token: u32) -> Option<bool> {
    row.get(token as usize).map(|own| row.iter().all(|logit| logit <= own))
}

/// Whether of some log-probabilities, where a token has one, that is the largest of all: of the likeliest, or of itself alone, more
/// probable than all others together.
fn is_likeliest(row: ArrayView1<'_, f64>, token: u32) -> Option<bool> {
    let are_likeliest = row.iter().filter(|log| **log != f64::NEG_INFINITY).count() > 1;
    let is_most = || row[token as usize].exp() > 0.5;
    is_largest(row, token).map(|is_largest| is_largest && (are_likeliest || is_most()))
}

/// Whether the token at a position of what was decoded is first in the candidate's logits, alone or with others; `None` where it
/// does not show them.
fn is_first(
    compared: &Compared<'_>,
    (prompt, decoded): (&[u32], &[u32]),
    position: usize,
) -> Result<Option<bool>, Failure> {
    let Compared { candidate, config, steps, media, .. } = *compared;
    let (mut step, mut row) = (0, prompt.len() - 1 + position);
    while steps.get(step).is_some_and(|tokens| tokens.len() <= row) {
        row -= steps[step].len();
        step += 1;
    }
    if step == steps.len() {
        return Ok(None);
    }
    let loaded = Loaded::new(candidate, config, step, extent(steps, media, step));
    let Some(site) = [Site::Logits, Site::LmHead].into_iter().find(|site| loaded.has(*site)) else { return Ok(None) };
    let place = match loaded.shown(site)? {
        Some(shown) => shown.iter().position(|token| *token == row),
        None => Some(row),
    };
    let Some(place) = place else { return Ok(None) };
    let values = loaded.value(site)?;
    let shows_some = candidate.measure(At { step, site }) == Measure::SomeLogProbs;
    let is_first = if shows_some { is_likeliest } else { is_largest };
    Ok(is_first(values.row(place), decoded[position]))
}
