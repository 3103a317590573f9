//! Whether values in f32 were computed in f64, and converted when they were saved.
//!
//! A residual stream in f32 is the sum of what goes into it, rounded, to the last bit. What was added in f64 was added with the
//! bits that nobody shows, so that a sum here and there is another by one in its last.

use fixtures::names::at::At;
use reference::{LayerSite, Site, Storage};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::{FoundPrecision, Sought, find};
use crate::judge::way;

/// The share of sums that are the twin's, at least, where they were computed in f32: all of them are, but for what a device flushes.
/// An addend that is known to half a step, and a quarter of one on average, carries a quarter of the sums to a neighbour.
pub(super) const EXACT: f64 = 0.98;

/// The share of bits that agree, at least, of sums that are others by one in their last: of one eight times as large as is usual, 20
/// of 24. A sum of something else, as of one token, is further off.
const NEAR: f64 = 20.0 / 24.0;

/// What was found in f32, or a precision in f64 if sums say that it was that.
pub(super) fn found(
    compared: &Compared<'_>,
    found: FoundPrecision,
    plain: &Sought<'_>,
) -> Result<FoundPrecision, Failure> {
    let is_sum = |site| is_sum_of_shown(compared, site);
    match compared.agreement_at(found.contract, is_sum)? {
        Some((share, bits)) if share < EXACT && bits - share > NEAR * (1.0 - share) => {
            let sought = Sought { activations: Storage::Real, saved: Storage::F32, ..*plain };
            Ok(find(compared, &sought)?.unwrap_or(found))
        }
        _ => Ok(found),
    }
}

/// Whether a site is a sum that nothing but sums of what is shown goes into, and embeddings.
pub(super) fn is_sum_of_shown(compared: &Compared<'_>, site: Site) -> bool {
    let is_shown = |site| compared.candidate.has(At { step: 0, site });
    let is_sum = |site: &Site| matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Output));
    let is_known = || match site.layer().and_then(|layer| layer.checked_sub(1)) {
        Some(before) => {
            let stream = Site::Layer(before, LayerSite::Output);
            is_shown(stream) || is_sum_of_shown(compared, stream)
        }
        None => is_shown(Site::InputsEmbeds) || compared.media.is_none() && compared.hidden.is_none(),
    };
    is_sum(&site) && way::to(site, is_shown).iter().all(is_sum) && is_known()
}
