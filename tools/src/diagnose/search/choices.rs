//! Where a choice is off, and no number that could tell more is shown: changes of what is added to the scores for it alone; and of
//! what blocks are scored by, where these scores are off, too.

use std::collections::BTreeSet;

use reference::config::{Blocks, Config};
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, Site};

use super::{attending, bias, kinds, layers};
use crate::diagnose::catalogue::mistake::{Assumed, Change, Mistake};
use crate::diagnose::catalogue::tensors::{TensorChange, Tensors};
use crate::diagnose::catalogue::weights::WeightChange;

/// How many more blocks may be forced.
const MORE_LOCAL: usize = 2;

/// Keys by which blocks may begin late or early, at most.
const SHIFTED: usize = 4;

/// Changes of a choice of experts, or of blocks, that is at a site or on the way there.
pub(super) fn search(site: Site, suspects: &[Site], config: &Config) -> Vec<Assumed> {
    use LayerSite::{BlockMax, BlockScore, Blocks, GateExperts};
    let is_of_blocks = |site: &Site| matches!(site, Site::Layer(_, BlockMax | BlockScore | Blocks));
    match site {
        Site::Layer(layer, GateExperts) => of_experts(layer, config),
        _ if suspects.iter().any(is_of_blocks) => config.index.map(|index| of_blocks(index.blocks)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// What blocks are scored by: absolute values or the smallest, other heads, other keys, or keys that a cache holds too early or in
/// fewer bits; whose they are; how large they are, and how many are forced.
fn of_blocks(Blocks { size, local, .. }: Blocks) -> Vec<Assumed> {
    let held = of_index_cache();
    let shifts = (1..size.min(SHIFTED + 1)).flat_map(|by| [format!("-{by}"), by.to_string()]);
    let shifted = shifts.map(|by| reading(&kinds::INDEX_SHIFT, "index_shift", &by));
    let narrow = ["e4m3", "bf16"].map(|to| reading(&kinds::INDEX_NARROW, "index_cache_type", to));
    let scored = [
        reading(&kinds::INDEX_POOL, "msa_pool", "absolute"),
        reading(&kinds::INDEX_MIN, "msa_pool", "min"),
        reading(&kinds::INDEX_PARTIAL, "msa_pad", "dropped"),
        reading(&kinds::INDEX_HEADS, "index_heads", "first"),
        reading(&kinds::INDEX_HEADS, "index_heads", "token_sum"),
    ];
    let other = |kind, field, numbers: BTreeSet<usize>, own| {
        let others = numbers.into_iter().filter(move |number| *number != own);
        others.map(move |number| reading(kind, field, &number.to_string()))
    };
    let sizes = [size / 4, size / 2, size.saturating_sub(1), size + 1, 2 * size, 4 * size, 16, 32, 64, 128, 256];
    let sizes = sizes.into_iter().filter(|size| *size > 0).collect();
    let sizes = other(&kinds::INDEX_BLOCK, "msa_block", sizes, size);
    let locals = other(&kinds::INDEX_LOCAL, "msa_local_block", (0..=local + MORE_LOCAL).collect(), local);
    let all = scored.into_iter().chain(held).chain(shifted).chain(narrow);
    all.chain(sizes).chain(locals).chain(attending::of_tiles()).collect()
}

/// What only calls behind others show where blocks are chosen: what the index branch keeps. It is as plain as any known mistake.
pub(in crate::diagnose) fn of_later_calls(suspects: &[Site]) -> Vec<Assumed> {
    let is_choice = |site: &Site| matches!(site, Site::Layer(_, LayerSite::Blocks));
    if suspects.iter().any(is_choice) { of_index_cache().collect() } else { Vec::new() }
}

fn of_index_cache() -> impl Iterator<Item = Assumed> {
    let early = ["unnormed", "unrotated", "projected"].map(|held| (&kinds::INDEX_CACHE, held));
    let stale = ["unwritten", "repeated"].map(|held| (&kinds::INDEX_STALE, held));
    early.into_iter().chain(stale).map(|(kind, held)| reading(kind, "index_cache", held))
}

fn reading(kind: &'static Mistake, field: &'static str, value: &str) -> Assumed {
    Assumed::everywhere(kind, Change::Reading(field, value.to_owned()))
}

/// The correction bias of every other layer of its kind, or in another order.
fn of_experts(layer: usize, config: &Config) -> Vec<Assumed> {
    let bias = Tensors::One(Weight::Layer(layer, LayerWeight::CorrectionBias));
    let assumed = |other| {
        let change = Change::Weights(WeightChange::Tensor(TensorChange::OfLayer(bias, other)));
        Assumed::everywhere(&kinds::OTHER_LAYER, change).within(Some(vec![layer]))
    };
    let others = layers::alike(layer, config, |layer| layer.feed_forward).map(assumed);
    others.chain(bias::of_layer(layer, config)).collect()
}
