//! The decoded tokens of a comparison, judged.

use reference::Site;

use super::progress::{Progress, Watcher};
use super::prompt::Prompt;
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::comparison::Comparison;
use crate::judge::decoded::{Decoded, judge_decoded};
use crate::judge::floor::MEMBERS;
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
    let is_first = |position: usize| is_first(&comparison.compared, tokens, position);
    let contract = comparison.contract;
    let decoded = judge_decoded(&reference, tokens, contract, &mut choices, is_first, || watch(Progress::Step))?;
    watch(Progress::Ends);
    Ok(decoded)
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
    let largest = values.row(place).fold(f64::NEG_INFINITY, |most, logit| most.max(*logit));
    Ok(values.row(place).get(decoded[position] as usize).map(|logit| *logit >= largest))
}
