//! What an engine stores a site's values in.

use reference::rounding::Chain;
use reference::site::Kept;
use reference::{RoundingContract, Site, Storage};

/// The type.
pub fn storage_at(site: Site, contract: &RoundingContract) -> Storage {
    match contract.activations {
        Storage::F16 | Storage::Bf16 if is_wide(site, contract) => Storage::F32,
        activations => activations,
    }
}

/// Whether a site's values are f32 at least: the router's, the index branch's scores, the rotation table's, and what goes into
/// the rotation unrounded.
pub(crate) fn is_wide(site: Site, contract: &RoundingContract) -> bool {
    match site.kept() {
        Kept::Wide => true,
        Kept::BeforeRotation => contract.qk_norm == Chain::Once,
        Kept::Activations | Kept::Choices => false,
    }
}
