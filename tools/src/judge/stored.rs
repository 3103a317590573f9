//! What an engine stores a site's values in.

use reference::rounding::Chain;
use reference::site::VisionSite;
use reference::{LayerSite, RoundingContract, Site, Storage};

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
    use LayerSite::{
        BlockMax, BlockScore, GateChoice, GateLogits, GateScores, GateWeights, IndexKNorm, IndexQNorm, KNorm, QNorm,
        TokenScores,
    };
    match site {
        Site::RopeCos
        | Site::RopeSin
        | Site::Vision(_, VisionSite::RopeCos | VisionSite::RopeSin)
        | Site::Layer(_, GateLogits | GateScores | GateChoice | GateWeights | TokenScores | BlockMax | BlockScore) => {
            true
        }
        Site::Layer(_, QNorm | KNorm | IndexQNorm | IndexKNorm) => contract.qk_norm == Chain::Once,
        _ => false,
    }
}
