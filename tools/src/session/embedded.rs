//! Tokens that a dump shows by their embeddings, where nobody says what they were.

use fixtures::activations::rows::Request;
use fixtures::activations::rows::inferred::{Fed, Size};
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::{Array2, ArrayView1};
use reference::site::Extent;
use reference::weights::{Weight, Weights};
use reference::{Site, Storage};

use super::inferred::is_unpadded;
use super::model::Model;
use crate::failure::Failure;

/// How far an embedding that was cast is from the checkpoint's, in units of it: half a step of bfloat16, the coarsest type, with
/// room for the second of two casts.
const APART: f64 = 1.0 / 128.0;

/// Channels by which rows are told apart before all are compared.
const FIRST: usize = 8;

/// Rows of the embedding that are widened at once.
const PANEL: usize = 1024;

/// The tokens of each slot of each list of a call; nothing, where a row is no token's embedding.
pub(super) type Lists = Vec<Vec<Option<u32>>>;

/// The tokens of each call, if each shows the embeddings of all its rows.
pub(super) fn tokens(values: &Sited, model: &Model) -> Result<Option<Vec<Lists>>, Failure> {
    let mut calls = Vec::new();
    for (call, size) in values.sizes().into_iter().enumerate() {
        let batch = size.batch.unwrap_or(1);
        let Some(rows) = size.rows.filter(|rows| *rows > 0 && rows.is_multiple_of(batch)) else { return Ok(None) };
        let (all, extent) = (Request::of_call(call, (batch, rows / batch)), Extent::new(rows, rows));
        let all = values.of(all);
        // What goes into the first layer has the same rows, but for those of images.
        let shown = [Site::Embedding, Site::InputsEmbeds].map(|site| At { step: 0, site });
        let Some(at) = shown.into_iter().find(|at| all.has(*at)) else { return Ok(None) };
        if all.shown(at, extent)?.is_some() {
            return Ok(None);
        }
        let Ok(shown) = all.matrix::<f64>(at, extent) else { return Ok(None) };
        if shown.nrows() != rows {
            return Ok(None);
        }
        calls.push((rows / batch, shown));
    }
    let table = model.checkpoint.get(Weight::Embedding).map_err(reference::Error::from)?;
    let mut found: Vec<Vec<Option<u32>>> = calls.iter().map(|(_, shown)| vec![None; shown.nrows()]).collect();
    for first in (0..table.dim().0).step_by(PANEL) {
        let panel: Array2<f64> = table.panel(first, PANEL.min(table.dim().0 - first));
        for ((_, shown), found) in calls.iter().zip(&mut found) {
            for (row, found) in shown.rows().into_iter().zip(found).filter(|(_, found)| found.is_none()) {
                let token = panel.rows().into_iter().position(|own| is_row(row, own));
                *found = token.and_then(|token| u32::try_from(first + token).ok());
            }
        }
    }
    let in_lists =
        |((width, _), found): (&(usize, _), Vec<Option<u32>>)| found.chunks(*width).map(<[_]>::to_vec).collect();
    Ok(Some(calls.iter().zip(found).map(in_lists).collect()))
}

/// Prompts that are packed one behind the other, in the order in which embeddings show them: what schedules requests may take the
/// longest first. As they are, where nothing shows another order.
pub(super) fn in_order(known: &[Fed], values: &Sited, model: &Model) -> Result<Vec<Fed>, Failure> {
    let all: usize = known.iter().map(|one| one.slots.len()).sum();
    let is_packed = |size: &Size| size.rows == Some(all) && size.batch.unwrap_or(1) == 1;
    if known.len() < 2 || !known.iter().all(is_unpadded) || !values.sizes().first().is_some_and(is_packed) {
        return Ok(known.to_vec());
    }
    let lists = tokens(values, model)?;
    let Some([shown]) = lists.as_ref().and_then(|calls| calls.first()).map(Vec::as_slice) else {
        return Ok(known.to_vec());
    };
    Ok(as_shown(known, shown, |_, _| true).unwrap_or_else(|| known.to_vec()))
}

/// Prompts in the order of rows that show them, one behind the other, if these do, of those that may be in a place.
pub(super) fn as_shown(known: &[Fed], shown: &[Option<u32>], may_be: impl Fn(&Fed, usize) -> bool) -> Option<Vec<Fed>> {
    let (mut left, mut ordered, mut rest) = (known.to_vec(), Vec::new(), shown);
    while !left.is_empty() {
        let is_next = |one: &Fed| one.tokens().iter().zip(rest).all(|(said, shown)| Some(*said) == *shown);
        let next = left.iter().position(|one| is_next(one) && may_be(one, ordered.len()))?;
        rest = &rest[left[next].slots.len().min(rest.len())..];
        ordered.push(left.remove(next));
    }
    Some(ordered)
}

/// Whether a row of what it shows of the embeddings, if it shows them all, is a token's.
pub(super) fn any(values: &Sited, model: &Model) -> bool {
    let lists = tokens(values, model).ok().flatten();
    lists.is_some_and(|calls| calls.iter().flatten().flatten().any(Option::is_some))
}

/// Whether a row is a token's embedding, perhaps cast. Of tokens with equal embeddings, which compute the same, any will do.
fn is_row(row: ArrayView1<'_, f64>, own: ArrayView1<'_, f64>) -> bool {
    // What is small is rounded to a multiple of the smallest number of f16, or flushed.
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= APART * b.abs() + Storage::F16.underflow();
    row.len() == own.len() && row.iter().zip(own).take(FIRST).all(near) && row.iter().zip(own).all(near)
}
