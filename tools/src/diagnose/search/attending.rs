//! What attention would have to be: keys that it does not see, or sees beside its own, splits that are put together otherwise,
//! heads, rotations, positions and roundings of queries or keys alone, whatever of the layer is shown.

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use reference::LayerSite::{
    self, Blocks, Context, KNorm, KProj, KRope, Probabilities, QNorm, QProj, QRope, Scores, VProj,
};
use reference::Site;
use reference::semantics::{
    CacheHalf, CacheSeam, Merge, Merged, MsaTile, PositionShift, Rotated, SharedHead, SharedPage, Shifted, Split,
    TileShares, Unseen, Viewed, Zeros,
};
use strum::IntoEnumIterator;

use super::beside::unseen as unseen_site;
use super::{Bench, kinds};
use crate::diagnose::catalogue::attention;
use crate::diagnose::catalogue::fused::Cut;
use crate::diagnose::catalogue::mistake::{Assumed, Change, Clue, Mistake};
use crate::diagnose::catalogue::weights::WeightChange;

/// Keys, or tokens, of a split, a tile or a page.
const SIZES: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

/// Splits of all keys.
const PARTS: [usize; 4] = [2, 3, 4, 8];

/// Channels that a loop over a head may leave out at its end.
const VECTORS: [usize; 5] = [1, 2, 4, 8, 16];

/// Keys of zeros at most, and keys of a run that are nearest to a token or that stand before a call.
const ZEROS: usize = 8;
const NEAREST: usize = 8;

/// Heads among which every pair is tried.
const HEADS: usize = 8;

/// Rows of which a key or a value alone was never written.
const SEAMS: [CacheSeam; 4] =
    [CacheSeam::ZeroKeyBefore, CacheSeam::ZeroValueBefore, CacheSeam::ZeroKeyAfter, CacheSeam::ZeroValueAfter];

/// Keys that are looked through one by one.
const KEYS: usize = 128;

/// Everything that the operators on the way may do otherwise. Where probabilities are shown that attention does not take, as where
/// a fused kernel runs beside what is shown, each is assumed with that.
pub(super) fn search(bench: &Bench<'_, '_>, clue: Clue) -> Vec<Vec<Assumed>> {
    let has = |at: LayerSite| bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, own) if *own == at));
    let any = |of: &[LayerSite]| of.iter().any(|at| has(*at));
    let mut found = Vec::new();
    if any(&[QProj, KProj, VProj]) {
        let cut = |cut| Assumed::everywhere(&kinds::FUSED_CUT, Change::Weights(WeightChange::Cut(cut)));
        found.extend(Cut::ALL.map(cut));
    }
    let rotated = |field| {
        let ways = Rotated::iter().filter(|way| *way != Rotated::Once);
        ways.map(move |way| reading(&kinds::ROTATED, field, &way))
    };
    found.extend(rotated("rope_queries").filter(|_| has(QRope)));
    found.extend(rotated("rope_keys").filter(|_| has(KRope)));
    if has(Blocks) {
        found.extend(of_tiles());
    }
    if any(&[QNorm, QRope, KNorm, KRope, Probabilities, Context]) {
        let viewed = Viewed::iter().filter(|viewed| *viewed != Viewed::Nothing);
        found.extend(viewed.map(|viewed| reading(&kinds::HEADS_VIEWED, "heads_viewed", &viewed)));
    }
    if any(&[Probabilities, Context]) {
        found.extend(neighbours(bench));
    }
    let mut found: Vec<Vec<Assumed>> = found.into_iter().map(|assumed| vec![assumed]).collect();
    if any(&[QRope, KRope]) && !bench.suspects.contains(&Site::RopeCos) {
        found.extend(positions(clue).map(|position| vec![position, unseen_site(Site::RopeCos)]));
    }
    if any(&[Scores, Probabilities, Context]) {
        let shown = bench.site.layer().map(|layer| Site::Layer(layer, Probabilities));
        let unseen = shown.filter(|_| has(Context) && !has(Probabilities)).map(unseen_site);
        let of_values = || heads(bench).chain(rows(clue)).chain(shared(bench)).map(|assumed| vec![assumed]);
        found.extend(unseen.is_some().then(of_values).into_iter().flatten());
        let with_it = |assumed: Assumed| -> Vec<Assumed> { [assumed].into_iter().chain(unseen.clone()).collect() };
        found.extend(weighing(bench, clue).into_iter().map(with_it));
    }
    found
}

/// The blocks next to those that were chosen, in a layer that chooses some.
fn neighbours(bench: &Bench<'_, '_>) -> impl Iterator<Item = Assumed> {
    let index = bench.site.layer().and_then(|layer| bench.config().index_of(layer));
    let size = index.and_then(|index| i32::try_from(index.blocks.size).ok());
    size.into_iter().flat_map(|size| [size, -size]).map(|by| reading(&kinds::BLOCKS_SHIFTED, "msa_shift", &by))
}

/// What attention sees, and how it weighs that.
fn weighing(bench: &Bench<'_, '_>, clue: Clue) -> Vec<Assumed> {
    let narrow = ["e4m3", "bf16"];
    let queries = narrow.map(|to| reading(&kinds::QUERY_NARROW, "query_type", &to));
    let probabilities = narrow.map(|to| reading(&kinds::PROBABILITY_NARROW, "probability_type", &to));
    let of_call = (clue.context > 0).then(|| reading(&kinds::CAUSAL_OF_CALL, "causal", &"call"));
    let seen = zeros(bench).chain(unseen(bench, clue)).chain(rows(clue));
    let all = heads(bench).chain(merged(clue)).chain(seen).chain(shared(bench));
    queries.into_iter().chain(probabilities).chain(channels(bench)).chain(of_call).chain(all).collect()
}

/// Positions that a table which is shown has not: from the first token on that is off, of one that is not counted on, of one that
/// begins again, or off by one.
fn positions(clue: Clue) -> impl Iterator<Item = Assumed> {
    let from = clue.position;
    let of_table = from.checked_sub(1).into_iter().flat_map(move |last| [Shifted::At(last), Shifted::Modulo(from)]);
    let all = of_table.chain([Shifted::By(1), Shifted::By(-1)]);
    all.map(move |to| reading(&kinds::POSITION, "position_shift", &PositionShift { from, to }))
}

/// A head of the context that holds another's; of many heads, a neighbour's.
fn shared(bench: &Bench<'_, '_>) -> impl Iterator<Item = Assumed> {
    let heads = bench.config().num_attention_heads;
    let pairs = (0..heads).flat_map(move |head| (0..heads).map(move |of| SharedHead { head, of }));
    let is_near = move |pair: &SharedHead| heads <= HEADS || pair.head.abs_diff(pair.of) == 1;
    let others = pairs.filter(move |pair| pair.head != pair.of && is_near(pair));
    others.map(|pair| reading(&kinds::SHARED_HEAD, "shared_head", &pair))
}

/// Blocks that are chosen, or local, for one of a tile's tokens.
pub(super) fn of_tiles() -> impl Iterator<Item = Assumed> {
    let tiles = SIZES.into_iter().flat_map(|size| TileShares::iter().map(move |of| MsaTile { of, size }));
    tiles.map(|tile| reading(&kinds::BLOCKS_OF_TILE, "msa_tile", &tile))
}

fn reading(kind: &'static Mistake, field: &'static str, value: &impl ToString) -> Assumed {
    Assumed::everywhere(kind, Change::Reading(field, value.to_string()))
}

/// Keys, or values, of head h mod G.
fn heads(bench: &Bench<'_, '_>) -> impl Iterator<Item = Assumed> {
    let config = bench.config();
    let is_shared = config.num_key_value_heads > 1 && config.num_attention_heads > config.num_key_value_heads;
    let halves = [CacheHalf::Keys, CacheHalf::Values].into_iter().filter(move |_| is_shared);
    halves.map(|half| reading(&kinds::HEADS_TILED, "tiled_heads", &half))
}

/// Channels of a head that scores are taken over: all but those of an incomplete vector, or a half.
fn channels(bench: &Bench<'_, '_>) -> impl Iterator<Item = Assumed> {
    let d = bench.config().head_dim;
    let fewer = VECTORS.into_iter().filter(move |fewer| *fewer < d).map(move |fewer| d - fewer);
    let counts: BTreeSet<usize> = fewer.chain([d / 2]).filter(|count| *count > 0).collect();
    counts.into_iter().map(|count| reading(&kinds::QUERY_CHANNELS, "query_channels", &count))
}

/// Splits of which some token that is off sees more than one.
fn merged(clue: Clue) -> impl Iterator<Item = Assumed> {
    let sizes = SIZES.into_iter().filter(move |size| *size <= clue.last).map(Split::Keys);
    let splits = sizes.chain(PARTS.map(Split::Parts));
    let all = splits.flat_map(|split| Merge::iter().map(move |by| Merged { by, split }));
    all.map(|merged| reading(&kinds::SPLITS, "merged", &merged))
}

/// Keys of zeros, of those that are as many in every call the plainest.
fn zeros(bench: &Bench<'_, '_>) -> impl Iterator<Item = Assumed> {
    let keys: Vec<usize> = spans(bench).map(|call| call.end).collect();
    let mut known = BTreeSet::new();
    let all = SIZES.map(Zeros::Tile).into_iter().chain((1..=ZEROS).map(Zeros::Count));
    let some = all.filter(move |zeros| {
        let counts: Vec<usize> = keys.iter().map(|keys| zeros.of(*keys)).collect();
        counts.iter().any(|count| *count > 0) && known.insert(counts)
    });
    some.map(|zeros| reading(&kinds::ZEROS, "unfilled", &zeros))
}

/// Keys that are not seen, of those that are the same for every token the plainest.
fn unseen(bench: &Bench<'_, '_>, clue: Clue) -> impl Iterator<Item = Assumed> {
    let calls: Vec<Range<usize>> = spans(bench).collect();
    let lost = move |unseen: Unseen| -> Vec<(usize, Range<usize>)> {
        let of_token = |position: usize, call: usize| {
            let runs = unseen.runs(position, call).into_iter();
            let before = runs.map(move |run| run.start..run.end.min(position + 1)).filter(|run| !run.is_empty());
            before.map(move |run| (position, run))
        };
        calls.iter().flat_map(|call| call.clone().flat_map(|position| of_token(position, call.start))).collect()
    };
    let mut known = HashSet::new();
    let some = possible(clue).filter(move |unseen| {
        let lost = lost(*unseen);
        !lost.is_empty() && known.insert(lost)
    });
    some.map(|unseen| reading(&kinds::KEYS_UNSEEN, "unseen", &unseen))
}

/// In the first call a key's absence shows in the token behind it.
fn possible(clue: Clue) -> impl Iterator<Item = Unseen> {
    let Clue { position, tokens, context, .. } = clue;
    let behind = position.checked_sub(1).into_iter();
    let behind = behind.flat_map(move |key| (position..=tokens.min(key + KEYS)).map(move |to| Unseen::Keys(key, to)));
    let one = (0..context.min(KEYS)).map(|key| Unseen::Keys(key, key + 1));
    let nearest = (1..=NEAREST).map(move |count| Unseen::Before(position, position + count));
    let nearest = nearest.filter(move |_| position > 0 && context == 0);
    let in_call = (1..=NEAREST).map(|to| Unseen::Before(1, to + 1)).filter(move |_| context > 0);
    let seams = (1..=NEAREST.min(context)).map(Unseen::Seam);
    let pages = SIZES.into_iter().flat_map(move |size| {
        (0..context.div_ceil(size).min(KEYS)).map(move |page| Unseen::Keys(page * size, (page + 1) * size))
    });
    let of_sizes = SIZES.into_iter().flat_map(|size| [Unseen::Each(size, 0), Unseen::Each(size, size - 1)]);
    let rest = (position > 0).then_some(Unseen::From(position));
    behind.chain(one).chain(nearest).chain(rest).chain(in_call).chain(seams).chain(pages).chain(of_sizes)
}

/// The tokens of each call.
fn spans(bench: &Bench<'_, '_>) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    bench.calls().into_iter().map(move |tokens| {
        end += tokens;
        end - tokens..end
    })
}

/// Rows of the cache that hold another's key and value: a ring's, and one that a row of the call was written over; and where a call
/// begins, rows that have no key, or no value.
fn rows(clue: Clue) -> impl Iterator<Item = Assumed> {
    let Clue { tokens, context, .. } = clue;
    let seams = SEAMS.into_iter().filter(move |_| context > 0);
    let seams = seams.map(|seam| reading(&attention::SEAM, "cache_seam", &seam));
    let rings = SIZES.into_iter().filter(move |size| *size < tokens);
    let rings = rings.map(|slots| reading(&kinds::CACHE_RING, "cache_ring", &slots));
    let over = (0..context.min(KEYS)).map(move |page| SharedPage { size: 1, page, of: context });
    rings.chain(seams).chain(over.map(|page| reading(&kinds::SHARED_PAGE, "shared_page", &page)))
}
