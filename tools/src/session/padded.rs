//! Padding that nobody says: lists of tokens that begin or end in one token again and again, or go on behind what was said, where values
//! are those of the rest alone.

use fixtures::activations::rows::Request;
use fixtures::activations::rows::inferred::Fed;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::{Array2, ArrayView2, Axis, s};
use reference::site::Extent;
use reference::{LayerSite, Semantics, Site};

use super::computed::{Computed, off};
use super::inferred::{all_of, is_unpadded};
use super::model::Model;
use crate::failure::Failure;

/// The fewest tokens in a row that may be padding.
const FEWEST: usize = 2;

/// How far the median row is at least from what it would be without padding, in parts of its size: roundings to bf16 leave less.
const FAR: f64 = 0.05;

/// How many times as far it is.
const FURTHER: f64 = 2.0;

/// So many slots of padding before a prompt, and behind it.
type Ends = (usize, usize);

/// The prompts with their padding, where some have any that is not said, and the dump's first call shows it.
pub(super) fn padded(
    fed: &[Fed],
    values: &Sited,
    (model, semantics): (&Model, &Semantics),
) -> Result<Option<Vec<Fed>>, Failure> {
    let of_one = |one: &Fed| one.slots.len() + one.decoded.len();
    let width = fed.first().map_or(0, of_one);
    let are_alike = fed.iter().all(|one| is_unpadded(one) && of_one(one) == width);
    let rows = values.sizes().first().and_then(|size| size.rows);
    if !are_alike || rows != Some(fed.len() * width) {
        return Ok(None);
    }
    let mut found = fed.to_vec();
    for (number, one) in found.iter_mut().enumerate() {
        if one.masked {
            continue;
        }
        let list = List { values, size: (fed.len(), width), number };
        if let Some((before, after)) = list.padding((&all_of(one), one.decoded.len()), model, semantics)? {
            one.slots[..before].fill(None);
            one.slots.truncate(width - after);
            one.slots.resize(width, None);
            one.decoded.clear();
        }
    }
    Ok((found != fed).then_some(found))
}

/// A list of slots of the first call, of so many lists of so many slots.
struct List<'a> {
    values: &'a Sited,
    size: (usize, usize),
    number: usize,
}

impl List<'_> {
    /// Its padding, if it has any, among its tokens, the last of which nobody said.
    fn padding(
        &self,
        (tokens, unsaid): (&[u32], usize),
        model: &Model,
        semantics: &Semantics,
    ) -> Result<Option<Ends>, Failure> {
        let may_be = |count: usize| if (FEWEST..self.size.1).contains(&count) { count } else { 0 };
        let (before, after) = if unsaid > 0 {
            (0, unsaid)
        } else {
            let first = tokens.iter().take_while(|token| Some(*token) == tokens.first());
            let last = tokens.iter().rev().take_while(|token| Some(*token) == tokens.last());
            (may_be(first.count()), may_be(last.count()))
        };
        if before + after == 0 {
            return Ok(None);
        }
        let whole = Computed::of(tokens, (model, semantics))?;
        if after > 0 && self.is_behind(after, &whole)? {
            return Ok(Some((0, after)));
        }
        if before == 0 {
            return Ok(None);
        }
        let alone = Computed::of(&tokens[before..], (model, semantics))?;
        Ok(self.is_before(before, &whole, &alone)?.then_some((before, 0)))
    }

    /// Whether the rows behind so many slots are everywhere nearer to those of the tokens there alone, if they are to either.
    fn is_before(&self, padding: usize, whole: &Computed, alone: &Computed) -> Result<bool, Failure> {
        let (mut says_so, mut says_no) = (false, false);
        for (site, rows) in self.shown(whole)? {
            let Some(of_alone) = alone.values.get(&site) else { continue };
            let [rows, of_whole] = [&rows, &whole.values[&site]].map(|all| all.slice(s![padding.., ..]));
            let (with, without) = (median(rows, of_whole), median(rows, of_alone.view()));
            says_so |= with > FAR && with > FURTHER * without;
            says_no |= without > FAR && without > FURTHER * with;
        }
        Ok(says_so && !says_no)
    }

    /// Whether somewhere so many rows at the end are far from what they would be, and those before them are not.
    fn is_behind(&self, padding: usize, whole: &Computed) -> Result<bool, Failure> {
        let end = self.size.1 - padding;
        let is_far = |(site, rows): (Site, Array2<f64>)| {
            let computed = &whole.values[&site];
            let real = median(rows.slice(s![..end, ..]), computed.slice(s![..end, ..]));
            let padding = median(rows.slice(s![end.., ..]), computed.slice(s![end.., ..]));
            padding > FAR && padding > FURTHER * real
        };
        Ok(self.shown(whole)?.into_iter().any(is_far))
    }

    /// Its rows at the sites that are computed, where the dump has all of them: neither of choices, nor of what is turned by positions.
    fn shown(&self, computed: &Computed) -> Result<Vec<(Site, Array2<f64>)>, Failure> {
        let (lists, width) = self.size;
        let all = self.values.of(Request::of_call(0, self.size));
        let mut found = Vec::new();
        for (site, expected) in &computed.values {
            let (at, extent) = (At { step: 0, site: *site }, Extent::new(lists * width, width));
            if is_chosen_or_turned(*site) || !all.has(at) {
                continue;
            }
            let rows = all.matrix::<f64>(at, extent)?;
            if rows.dim() == (lists * width, expected.ncols()) {
                let own = self.number * width..(self.number + 1) * width;
                found.push((*site, rows.slice_move(s![own, ..])));
            }
        }
        Ok(found)
    }
}

/// What engines count positions for in other ways, or write in any order.
fn is_chosen_or_turned(site: Site) -> bool {
    use LayerSite::{GateExperts, GateWeights, IndexKRope, IndexQRope, KRope, QRope};
    match site {
        Site::RopeCos | Site::RopeSin => true,
        Site::Layer(_, of) => matches!(of, GateExperts | GateWeights | IndexKRope | IndexQRope | KRope | QRope),
        _ => false,
    }
}

/// How far the median row is from what is computed.
fn median(rows: ArrayView2<'_, f64>, computed: ArrayView2<'_, f64>) -> f64 {
    let each = rows.axis_chunks_iter(Axis(0), 1).zip(computed.axis_chunks_iter(Axis(0), 1));
    let mut apart: Vec<f64> = each.map(|(one, other)| off(one, other)).collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() / 2).copied().unwrap_or(0.0)
}
