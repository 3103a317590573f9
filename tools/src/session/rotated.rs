//! Positions that a dump shows by its rotation table, where nobody says what they were.

use std::ops::Range;

use fixtures::activations::rows::Request;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::config::Config;
use reference::ops::rope::inverse_frequencies;
use reference::semantics::{PositionShift, Shifted};
use reference::site::Extent;
use reference::{LayerSite, Semantics, Site, Storage};

use super::computed::{Computed, NEARER, off};
use super::model::Model;
use crate::failure::Failure;

/// How far a cosine or a sine that was cast to bfloat16, the coarsest type, is from its own value: half a step below 1.
const OF_BF16: f64 = 1.0 / 512.0;

/// The same of f16.
const OF_F16: f64 = 1.0 / 4096.0;

/// The same of what a function in f32 makes of it: within eight units in the last place, as the least exact of a GPU's is.
const OF_F32: f64 = 1.0 / (1 << 21) as f64;

/// What the angle itself is off by for each radian, for it is an f32.
const ANGLE: f64 = 1.0 / 8_388_608.0;

/// Positions at which most begin: one that alone fits a table in f32 among these is it, whatever fits as well far behind, where angles
/// are known less. By chance a position fits one frequency with 2⁻²¹/π, and all of these with one in a thousand.
const FIRST: usize = 1 << 12;

/// Positions that are looked through.
const POSITIONS: usize = 1 << 20;

/// By how much a request's positions are above its own, where nobody says by which position its first token was rotated: by none, or by
/// its slots of padding, where these were counted. The rotation table tells, or queries and keys do. Position 0 is not rotated.
pub(super) fn shift(
    values: &Sited,
    request: &Request,
    (model, semantics): (&Model, &Semantics),
) -> Result<usize, Failure> {
    if request.positioned || request.padding == 0 {
        return Ok(request.shift);
    }
    let tokens = &request.passes[0].tokens;
    let (view, extent) = (values.of(request.clone()), Extent::new(tokens.len(), tokens.len()));
    let has_all = |site: Site| {
        let at = At { step: 0, site };
        Ok::<_, Failure>(view.has(at) && view.shown(at, extent)?.is_none())
    };
    let read = |site: Site| view.matrix::<f64>(At { step: 0, site }, extent);
    if has_all(Site::RopeCos)? {
        let is_rotated = read(Site::RopeCos)?.row(0).iter().any(|&cos| cos != 1.0);
        return Ok(if is_rotated { request.padding } else { request.shift });
    }
    let turned = |layer: usize| [LayerSite::QRope, LayerSite::KRope].map(|site| Site::Layer(layer, site));
    for site in (0..model.checkpoint.config().num_hidden_layers).flat_map(turned) {
        if has_all(site)? {
            let by = i32::try_from(request.padding).ok().map(|by| PositionShift { from: 0, to: Shifted::By(by) });
            let shifted = Semantics { position_shift: by, ..*semantics };
            let shown = read(site)?;
            let off = |semantics: &Semantics| {
                let computed = Computed::at(site, tokens, (model, semantics))?;
                Ok::<_, Failure>(computed.map_or(f64::INFINITY, |computed| off(shown.view(), computed.view())))
            };
            let is_counted = off(&shifted)? <= NEARER * off(semantics)?;
            return Ok(if is_counted { request.padding } else { request.shift });
        }
    }
    Ok(request.shift)
}

/// The position of a call's first slot, if its rotation table, the same in all of its lists, is that of the position behind the slots
/// `before` the call, or else of one alone of those, or of all. Few channels that rotate have the same angles once in a while.
pub(super) fn first_position(
    values: &Sited,
    config: &Config,
    (call, before): (usize, usize),
    size: (usize, usize),
) -> Option<usize> {
    let values = values.of(Request::of_call(call, size));
    let rows = |site: Site| {
        let (at, extent) = (At { step: 0, site }, Extent::new(size.0 * size.1, size.1));
        let table = if values.has(at) { values.matrix::<f64>(at, extent).ok() } else { None };
        table.filter(|table| table.nrows() == size.0 * size.1)
    };
    let (cos, sin) = (rows(Site::RopeCos), rows(Site::RopeSin));
    let holds = |storage: Storage| [&cos, &sin].into_iter().flatten().flatten().all(|x| storage.holds(*x));
    let apart = match (holds(Storage::Bf16), holds(Storage::F16)) {
        (true, _) => OF_BF16,
        (false, true) => OF_F16,
        (false, false) => OF_F32,
    };
    let frequencies = inverse_frequencies(config.rope_theta, config.rotary_dim, config.rotary_dim);
    let is = |position: usize| {
        let near = |table: &Option<ndarray::Array2<f64>>, f: fn(f64) -> f64| {
            table.as_ref().is_none_or(|table| {
                let lists = (0..size.0).map(|list| table.row(list * size.1));
                let shown = lists.flat_map(|row| row.to_vec().into_iter().zip(&frequencies).collect::<Vec<_>>());
                shown.into_iter().all(|(x, frequency)| {
                    let angle = position as f64 * f64::from(*frequency);
                    (x - f(angle)).abs() <= apart + ANGLE * angle
                })
            })
        };
        near(&cos, f64::cos) && near(&sin, f64::sin)
    };
    cos.as_ref().or(sin.as_ref())?;
    let alone = |positions: Range<usize>| {
        let mut found = positions.filter(|&position| is(position));
        found.next().filter(|_| found.next().is_none())
    };
    let goes_on = Some(before).filter(|&before| is(before));
    let most = config.max_position_embeddings.min(POSITIONS);
    let first = || if apart == OF_F32 { alone(0..most.min(FIRST)) } else { None };
    goes_on.or_else(|| alone(0..before)).or_else(first).or_else(|| alone(0..most))
}
