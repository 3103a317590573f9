//! The decoded tokens of a comparison, judged.

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

/// Whether no logit is larger than a token's, if it has one. One that is shown alone is the largest for sure where it is more probable
/// than all others together.
fn is_largest(row: ArrayView1<'_, f64>, token: u32) -> Option<bool> {
    let own = *row.get(token as usize)?;
    let is_alone = row.iter().filter(|logit| **logit != f64::NEG_INFINITY).count() == 1;
    Some(row.iter().all(|logit| *logit <= own) && (!is_alone || own.exp() > 0.5))
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
    Ok(is_largest(values.row(place), decoded[position]))
}
