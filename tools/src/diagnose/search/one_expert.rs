//! What may have happened to all experts' weights, in one expert alone.

use reference::{LayerSite, Site};

use super::{Bench, kinds, suspects};
use crate::diagnose::catalogue::mistake::{Assumed, Change};
use crate::diagnose::catalogue::weights::{Networks, WeightChange};

/// Experts that are tried, those first whose tokens are the furthest off.
const EXPERTS: usize = 3;

/// Gate and up projections of experts that stand out: a transposed output is found as one of a single tensor.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let Some(layer) = bench.site.layer() else { return Vec::new() };
    if !bench.suspects.contains(&Site::Layer(layer, LayerSite::ExpertHidden)) {
        return Vec::new();
    }
    let ways = |e| {
        let changes = [WeightChange::SwapGateAndUp, WeightChange::InterleaveHalves];
        changes.map(|change| WeightChange::OfExpert(e, Box::new(change(Networks::Routed))))
    };
    let assumed = |change| Assumed::everywhere(&kinds::ONE_EXPERT, Change::Weights(change)).within(Some(vec![layer]));
    suspects::standing_out(bench, EXPERTS).into_iter().flat_map(ways).map(assumed).collect()
}
