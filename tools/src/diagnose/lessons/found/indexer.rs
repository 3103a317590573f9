//! Of the index branch, and of blocks.

use super::told::{Found, found};
use crate::diagnose::search::kinds as k;

pub(super) const FOUND: &[Found] = &[
    found(
        &k::BLOCKS_OF_TILE,
        "One token of a tile is right, its neighbours read blocks that were chosen for it.",
        "Choose for each token and group, or read the union of a tile's blocks with a mask for each token.",
    ),
    found(
        &k::INDEX_POOL,
        "Blocks with keys that point away from the query are chosen for being large in magnitude.",
        "Take the maximum of signed scores.",
    ),
    found(
        &k::INDEX_MIN,
        "Blocks whose worst key is best are chosen: the one relevant key of a block no longer counts.",
        "Take the maximum over a block's keys; masked ones are −∞.",
    ),
    found(
        &k::INDEX_BLOCK,
        "Choices are of other ranges of keys: a prompt of few blocks, which are all chosen, hides it.",
        "Take sparse_block_size of config.json, for choosing and for reading.",
    ),
    found(
        &k::INDEX_LOCAL,
        "Near blocks that should be read are not, or take the place of better ones.",
        "Force as many blocks as config.json says, the own among them, and let these count among those that are chosen.",
    ),
    found(
        &k::BLOCKS_SHIFTED,
        "Choices are right, and attention reads their neighbours.",
        "Count blocks from 0 on both sides of the interface.",
    ),
    found(
        &k::INDEX_PARTIAL,
        "The last tokens of a prompt do not see themselves; with a length that is a multiple of the block all is right.",
        "Round the number of blocks up, mask keys that are not there, and force the own block.",
    ),
    found(
        &k::INDEX_HEADS,
        "One group's choices are right, or none: the others read what another head asked for.",
        "Keep the scores of index heads apart: each group of query heads has its own.",
    ),
    found(
        &k::INDEX_SHIFT,
        "Scores are of keys that straddle two blocks: choices are wrong where a relevant key is at a block's end.",
        "Begin block c at key c·b, in prompts that come in several calls, too.",
    ),
    found(
        &k::INDEX_NARROW,
        "Near ties of blocks flip, some more than rounding allows.",
        "Keep the index branch's keys in the activations' type, or with a scale.",
    ),
    found(
        &k::INDEX_CACHE,
        "A prompt in one call is right; later calls score keys that lack their norm or rotation.",
        "Write keys to the index cache behind norm and rotation.",
    ),
    found(
        &k::INDEX_STALE,
        "A prompt is right; blocks with decoded tokens are scored as if these were not there, more of them from token to token.",
        "Append to the index cache wherever the key cache is appended to, in a captured graph of decode steps, too.",
    ),
];
