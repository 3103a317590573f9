//! `scores` of a generation, which nobody changed: `generate(output_scores=True)` gives what temperature, penalties and filters make of
//! logits, and logits where there are none of these.
//!
//! ```text
//! −∞ somewhere                                        filters: no logits
//! all are the reference's logits times one number     a temperature
//! those of tokens that were read alone are others     penalties
//! ```

use std::collections::{BTreeMap, HashSet};

use fixtures::Dtype;
use fixtures::activations::dump::Dump;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::{Array2, Axis};
use reference::media::Media;
use reference::{Semantics, Site};

use super::computed::{Computed, MOST_LOGITS, NEARER, off};
use super::model::Model;
use crate::failure::Failure;
use crate::judge::verification::extent;

/// How far a temperature is from 1, at least: roundings to bf16 stretch all logits by less.
const STRETCHED: f64 = 1.0 / 64.0;

/// A dump without logits whose scores may be some, by the name of these.
pub(super) fn as_logits(dump: &Dump, vocabulary: usize) -> Option<Dump> {
    let segments = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
    let is_logits =
        |name: &str| segments(name).iter().any(|segment| segment.contains("logits") || segment == "lm_head");
    let named = |name: &str| {
        let mut segments = segments(name);
        let last = segments.iter().rposition(|segment| !segment.bytes().all(|byte| byte.is_ascii_digit()))?;
        if segments[last] != "scores" || dump.find(name)?.shape.last() != Some(&vocabulary) {
            return None;
        }
        "logits".clone_into(&mut segments[last]);
        Some((name.to_owned(), segments.join(".")))
    };
    let names: BTreeMap<String, String> = dump.names().filter_map(named).collect();
    let is_unfiltered = |name: &String| {
        dump.tensor(name).is_ok_and(|tensor| {
            let is_float = matches!(tensor.dtype(), Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F64);
            is_float && tensor.values::<f64>().iter().all(|z| z.is_finite())
        })
    };
    let may_be = !names.is_empty() && !dump.names().any(is_logits) && names.keys().all(is_unfiltered);
    may_be.then(|| dump.clone().renamed(&names))
}

/// Whether scores of these passes that are read as logits are something that temperature or penalties made of the reference's.
pub(super) fn are_processed(
    values: &Sited,
    (steps, media): (&[Vec<u32>], Option<&Media>),
    (model, semantics): (&Model, &Semantics),
) -> Result<bool, Failure> {
    let at = At { step: 0, site: Site::Logits };
    let Some(tokens) = steps.first().filter(|_| values.has(at)) else { return Ok(false) };
    if tokens.len() * model.checkpoint.config().vocab_size > MOST_LOGITS {
        return Ok(true); // of what is not asked nothing is known
    }
    let extent = extent(steps, media, 0);
    let scores: Array2<f64> = values.matrix(at, extent)?;
    let Some(logits) = Computed::at(Site::Logits, tokens, (model, semantics))? else { return Ok(false) };
    let shown = values.shown(at, extent)?.unwrap_or_else(|| (0..tokens.len()).collect());
    let Some(row) = shown.last().filter(|_| scores.nrows() == shown.len()) else { return Ok(false) };
    let last = scores.select(Axis(0), &[scores.nrows() - 1]);
    let logits = logits.select(Axis(0), &[*row]);
    let apart = off(last.view(), logits.view());
    let by = (&last * &logits).sum() / (&logits * &logits).sum();
    if (by - 1.0).abs() > STRETCHED && off(last.view(), (by * &logits).view()) <= NEARER * apart {
        return Ok(true);
    }
    let read: HashSet<usize> = tokens.iter().map(|token| *token as usize).collect();
    let others: Vec<usize> = (0..logits.ncols()).filter(|token| !read.contains(token)).collect();
    let [last, logits] = [last, logits].map(|row| row.select(Axis(1), &others));
    Ok(!others.is_empty() && off(last.view(), logits.view()) <= NEARER * apart)
}
