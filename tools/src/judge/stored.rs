//! What an engine stores a site's values in.

use ndarray::Array2;
use reference::rounding::Chain;
use reference::site::Kept;
use reference::{LayerSite, RoundingContract, Site, Storage};

/// The type. Of norms of queries and keys under autocast, and of what follows a dense network, the type depends on the model, too: the
/// wider one holds either.
pub fn storage_at(site: Site, contract: &RoundingContract) -> Storage {
    let is_of_experts = matches!(site, Site::Layer(_, LayerSite::ExpertHidden | LayerSite::ExpertOutput));
    let (products, experts) = (contract.autocast.storage(), contract.autocast.of_experts());
    match if is_of_experts { experts } else { products } {
        Storage::Real | Storage::Tf32(_) => {}
        storage if site.is_product() => return storage,
        _ => {}
    }
    if matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Output)) {
        return contract.streamed().storage;
    }
    match contract.activations {
        Storage::F16 | Storage::Bf16 if is_wide(site, contract) => Storage::F32,
        activations => activations,
    }
}

/// What a candidate's values at a site are shown in: what they were converted to when they were saved, if all of them have been, or
/// as they are stored.
pub(crate) fn shown_in(site: Site, contract: &RoundingContract, values: &Array2<f64>) -> Storage {
    saved_as(contract, values).unwrap_or_else(|| storage_at(site, contract))
}

/// What values were converted to when they were saved, if all of them are of its grid: the contract's type or, of what was computed
/// wider than both types of 16 bits, that of f16 beside bf16, too.
pub(super) fn saved_as(contract: &RoundingContract, values: &Array2<f64>) -> Option<Storage> {
    let types: &[Storage] = match (contract.saved, contract.activations) {
        (Storage::Real, _) => &[],
        (Storage::Bf16, Storage::Real | Storage::F32) => &[Storage::Bf16, Storage::F16],
        (saved, _) => &[saved],
    };
    types.iter().copied().find(|saved| values.iter().all(|x| saved.holds(*x)))
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
