//! Which tokens' rows logits are that are fewer than the tokens, where neither what was decoded nor an embedding says it: those at which
//! what the reference computes is much nearer to them than at the last ones. Of a loss, all tokens but the last have rows; of what was
//! scored behind a context, those from one before it on.

use std::ops::Range;

use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use ndarray::{Array2, Axis, s};
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{RoundingContract, Semantics, Site};

use super::computed::off;
use super::generated::{Generated, generated, logits};
use super::inferred::{Inferred, is_unpadded, misfit};
use super::model::Model;
use crate::failure::Failure;

/// How far rows are from what the reference computes, in parts of how far those are that they would be else, at most.
const NEARER: f64 = 0.5;

/// Logits of all tokens that are computed at most.
const MOST: usize = 1 << 27;

/// The calls of a dump that shows logits alone, in fewer rows than one prompt has tokens.
pub(super) fn of_logits(
    values: &Sited,
    one: &Fed,
    sizes: &[Size],
    reading: (&Model, &Semantics),
) -> Result<Option<Inferred>, Failure> {
    if !is_unpadded(one) || !one.decoded.is_empty() {
        return Ok(None);
    }
    let tokens = one.tokens();
    let Some(Generated { fed, unread }) = generated(values, &tokens, sizes)? else { return Ok(None) };
    let is_open = sizes.len() == 1 && unread == 0;
    let window = if is_open { window(values, &tokens, reading)? } else { None };
    // Rows that end at the last token but one are the last of what was read.
    let is_unread = window.as_ref().is_some_and(|window| window.end + 1 == tokens.len());
    let fed = if is_unread { Fed::new(&tokens[..tokens.len() - 1], &[]) } else { fed };
    let mut unsaid = sizes.to_vec();
    unsaid[0] = Size::default();
    let mut calls = inferred::calls(std::slice::from_ref(&fed), &unsaid).map_err(misfit)?;
    calls[0].window = window.filter(|_| !is_unread);
    Ok(Some(Inferred { calls, known: Some(vec![fed]), embedded: 0, unread: unread + usize::from(is_unread) }))
}

/// The tokens whose rows the one call's logits are, if these are not the last ones.
fn window(
    values: &Sited,
    tokens: &[u32],
    (model, semantics): (&Model, &Semantics),
) -> Result<Option<Range<usize>>, Failure> {
    let config = model.checkpoint.config();
    let Some(rows) = logits(values, 1)?.filter(|rows| rows.len() < tokens.len()) else { return Ok(None) };
    let is_whole = |row: &Vec<f64>| row.len() == config.vocab_size;
    if tokens.len().saturating_mul(config.vocab_size) > MOST || !rows.iter().all(is_whole) {
        return Ok(None);
    }
    let count = rows.len();
    let shown = Array2::from_shape_fn((count, config.vocab_size), |at| rows[at.0][at.1]);
    let measures = [Site::LmHead, Site::Logits].map(|site| values.measure(At { step: 0, site }));
    let measure = measures.into_iter().find(|measure| *measure != Measure::Logits).unwrap_or_default();
    let in_measure = |logits| if measure == Measure::Logits { logits } else { centred(logits) };
    let shown = in_measure(if measure == Measure::Probs { shown.mapv_into(f64::ln) } else { shown });
    let decoder = Decoder::new(config, *semantics, &model.checkpoint)?;
    let mut probe = NoProbe;
    let mut run = Run::new(RoundingContract::IDEAL, &mut probe);
    let computed = decoder.forward::<f64>(tokens, &mut KvCache::new(config.num_hidden_layers), &mut run)?.value;
    let computed = in_measure(computed);
    let off = |first: usize| off(shown.view(), computed.slice(s![first..first + count, ..]));
    let last = tokens.len() - count;
    let nearest = (0..last).map(|first| (off(first), first)).min_by(|one, other| one.0.total_cmp(&other.0));
    Ok(nearest.filter(|(nearest, _)| *nearest <= NEARER * off(last)).map(|(_, first)| first..first + count))
}

/// Rows less their means: log-probabilities are logits less a number of each row.
fn centred(mut rows: Array2<f64>) -> Array2<f64> {
    for mut row in rows.axis_iter_mut(Axis(0)) {
        let mean = row.sum() / row.len() as f64;
        row -= mean;
    }
    rows
}
