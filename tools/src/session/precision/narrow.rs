//! Values of 16 bits that were computed in others, or beside others: what was converted when it was saved, and streams that are kept wide.

use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::rounding::{GateRound, NormInput, RoutingRound};
use reference::{LayerSite, RoundingContract, Site, Storage};

use super::head;
use super::wide::{EXACT, is_sum_of_shown};
use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::{FoundPrecision, MORE, Sought, better, find};

/// The share of values that a documented precision makes its twin's, at least, for it not to be asked whether they were converted
/// when they were saved, which costs time: no verdict depends on it.
const OWN: f64 = 0.75;

/// What was found of values of 16 bits, or what else may have been stored so: what was converted when it was saved, and streams that are
/// kept wide.
pub(super) fn found(
    dump: &Sited,
    compared: &Compared<'_>,
    mut found: FoundPrecision,
    plain: &Sought<'_>,
    types: &[(Storage, Vec<At>)],
) -> Result<FoundPrecision, Failure> {
    let activations = plain.activations;
    let is_as_computed = found.contract.saved == Storage::Real;
    let is_wide =
        |(storage, sites): &(Storage, Vec<At>)| *storage == Storage::F32 && sites.iter().any(|at| is_stream(at.site));
    // A stream that is shown in f32 beside what is narrow was kept so, unless something else is clearly nearer.
    let has_wide_stream = types.iter().any(is_wide);
    let more = if has_wide_stream { MORE } else { 0.0 };
    if has_wide_stream {
        found = or_of(compared, found, &Sought { stream: Storage::F32, ..*plain }, -MORE)?;
    }
    if found.share < OWN {
        for computed in
            [Storage::F32, Storage::Bf16, Storage::F16].into_iter().filter(|computed| *computed != activations)
        {
            let sought = Sought { activations: computed, saved: activations, ..*plain };
            let mut converted = find(compared, &sought)?;
            if computed == Storage::F32 {
                let under = find(compared, &Sought { autocast: activations, ..sought })?;
                converted = better(converted, under, MORE);
            }
            // From tokens to logits all that a precision rounds adds up, and what rounds less is nearer to it than its own twin.
            let is_found = |converted: &FoundPrecision| {
                converted.bits > found.bits + more && (!head::is_alone(dump) || converted.share >= OWN)
            };
            found = converted.filter(is_found).unwrap_or(found);
        }
    }
    let saved = Sought { saved: activations, ..*plain };
    let is_router = |site| matches!(site, Site::Layer(_, LayerSite::GateLogits));
    if is_as_computed && found.contract.saved == Storage::Real && is_off(compared, &found, is_router)? {
        found = or_of(compared, found, &saved, MORE)?;
    }
    found = or_saved_logits(compared, found)?;
    let streamed = Sought { stream: Storage::F32, ..saved };
    if has_wide_stream {
        return Ok(found);
    }
    if is_off(compared, &found, is_stream)? {
        found = or_of(compared, found, &streamed, MORE)?;
    }
    // Norms that read a sum before it is stored may as well read a stream that is kept wide, and is not the sum that is shown.
    let is_sum = |site| is_sum_of_shown(compared, site);
    if found.contract.norm_input == NormInput::Sum
        && compared.agreement_at(found.contract, is_sum)?.is_some_and(|(share, _)| share < EXACT)
    {
        found = or_of(compared, found, &streamed, -MORE)?;
    }
    Ok(found)
}

/// What was found of a router whose logits are stored as they are shown, or that they are f32 and were saved as all else is: the logits are
/// the same then, and what is made of them tells.
fn or_saved_logits(compared: &Compared<'_>, found: FoundPrecision) -> Result<FoundPrecision, Failure> {
    let is_shown = |site| matches!(site, Site::Layer(_, LayerSite::GateLogits));
    let is_behind = |site| matches!(site, Site::Layer(_, site) if site >= LayerSite::GateLogits);
    let RoundingContract { gate, saved, activations, .. } = found.contract;
    if matches!(gate, GateRound::Stored | GateRound::Weights)
        || saved != Storage::Real
        || compared.share_at(found.contract, is_shown)?.is_none()
        || compared.is_right_at(found.contract, is_behind)?
    {
        return Ok(found);
    }
    let saved = RoundingContract { gate: GateRound::Stored, saved: activations, ..found.contract };
    for contract in [saved, RoundingContract { routing: RoutingRound::F32, ..saved }] {
        if compared.is_right_at(contract, is_behind)? {
            return Ok(FoundPrecision { contract, ..found });
        }
    }
    Ok(found)
}

/// What was found, or what is sought besides, if so much more bits agree with that.
fn or_of(
    compared: &Compared<'_>,
    found: FoundPrecision,
    sought: &Sought<'_>,
    more: f64,
) -> Result<FoundPrecision, Failure> {
    let other = find(compared, sought)?.filter(|other| other.bits > found.bits + more);
    Ok(other.unwrap_or(found))
}

/// Whether some sites are shown whose values are not what they are as computed: routers' logits, which are f32 unless a router is
/// cast, or a residual stream, which may be.
fn is_off(compared: &Compared<'_>, found: &FoundPrecision, is_of: fn(Site) -> bool) -> Result<bool, Failure> {
    Ok(compared.share_at(found.contract, is_of)?.is_some_and(|share| share < OWN))
}

/// Whether a site is of the residual stream.
fn is_stream(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::Output | LayerSite::Residual))
}
