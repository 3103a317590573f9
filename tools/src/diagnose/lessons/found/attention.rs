//! Of positions, queries, keys, masks and the cache.

use super::told::{Found, found};
use crate::diagnose::search::kinds as k;

pub(super) const FOUND: &[Found] = &[
    found(
        &k::ROPE_THETA,
        "The first positions and the channels that turn fast are nearly right; the error grows with the distance between \
         tokens, so that a short prompt hides it.",
        "Build inv_freq from rope_theta of config.json, in f32 at least.",
    ),
    found(
        &k::ROPE_SCALING,
        "Slow channels turn too slowly, fast ones as they have to: near tokens are nearly right, and the error grows with the distance \
         between tokens; with YaRN's factor of cosines and sines, scores are sharper at every position.",
        "Build inv_freq from rope_theta alone: config.json has no rope_scaling, and no other model's may be left on.",
    ),
    found(
        &k::POSITION,
        "Rows up to a position are right, and all behind it are turned too far or too little.",
        "Count positions over prompt and decode from 0; check what a later call, a padded batch or a shared prefix begins with.",
    ),
    found(
        &k::ROPE_PAIR,
        "Rotated channels are wrong from position 1 on; those that do not rotate are right, or should not have been turned.",
        "Rotate the first rotary_dim channels by halves of rotary_dim, and pass the others through.",
    ),
    found(
        &k::ROTATED,
        "Queries and keys are right each, and their scores do not depend on the distance as they should.",
        "Call the same rotation once on both, with the same table and positions.",
    ),
    found(
        &k::SCORE_SCALE,
        "The softmax is too sharp or too flat: weights are right in their order, and wrong in their sizes.",
        "Scale scores once by 1/√head_dim, whose head_dim is config.json's and not hidden_size / heads.",
    ),
    found(
        &k::VISION_SCORE_SCALE,
        "The tower's softmax is too sharp or too flat in every layer.",
        "Scale scores once by 1/√d of the tower's heads.",
    ),
    found(
        &k::QUERY_NARROW,
        "Queries keep two or three bits: scores are off by some per cent of their size.",
        "Keep queries in the activations' type, or quantize them with a scale that fits their range.",
    ),
    found(
        &k::PROBABILITY_NARROW,
        "Small probabilities become 0, and sums no longer reach 1: contexts are off by some per cent.",
        "Keep probabilities in the activations' type, or scale them to the type's range and back.",
    ),
    found(
        &k::QUERY_CHANNELS,
        "Scores lack a few terms: every token is slightly off, whatever its position.",
        "Let the loop over channels end with a masked vector, or pad head_dim with zeros.",
    ),
    found(
        &k::HEADS_TILED,
        "Keys, or values, are right, and most query heads read those of another group.",
        "Repeat each key head for its H/G neighbouring query heads (repeat_interleave), keys and values alike.",
    ),
    found(
        &k::SPLITS,
        "Prompts of one split are right; longer ones have contexts that lean to some of the splits.",
        "Rescale each split's sum and maximum to the largest of all before they are added, and divide once, at the end.",
    ),
    found(
        &k::ZEROS,
        "A score of 0 takes part in the softmax: contexts are too small, most where there are few keys.",
        "Mask what is beyond the last key with −∞ before the softmax; zeros are not neutral.",
    ),
    found(
        &k::KEYS_UNSEEN,
        "Contexts of the tokens behind lack what those keys would have added; the weights of the others are too large.",
        "Check the last, incomplete tile or page, a window that the layer does not have, and the own token's key.",
    ),
    found(
        &k::TILE,
        "Tokens at the end of a tile are right, the others see what comes later: logits of a prompt are wrong, and a decode of \
         one token a call is right.",
        "Compare positions within the diagonal tile, too, not only tiles.",
    ),
    found(
        &k::CAUSAL_OF_CALL,
        "A prompt in one call is right; from the second call on tokens see the first keys instead of those before them.",
        "Align a causal mask with the last key (bottom right): is_causal of PyTorch aligns with the first.",
    ),
    found(
        &k::PADDING,
        "Rows of a padded batch are off where the same prompt alone is right.",
        "Pass the attention mask on, and take positions from it.",
    ),
    found(
        &k::SHARED_HEAD,
        "One head's context is another's, byte for byte, and o_proj reads it twice.",
        "Check the index by which a kernel writes heads: the grid's dimension, or a stride in elements instead of heads.",
    ),
    found(
        &k::HEADS_VIEWED,
        "A prompt is wrong from its second token on, or from the first; tokens that are decoded one by one are right by themselves.",
        "Use view(B, T, H, d).transpose(1, 2), and transpose(1, 2).reshape(B, T, H·d) behind attention.",
    ),
    found(
        &k::FUSED_CUT,
        "Queries, keys and values are each made of rows of several: nothing of attention is right.",
        "Cut [q; k; v] where it was put together: H·d, G·d and G·d rows, for each rank by itself.",
    ),
    found(
        &k::SHARED_PAGE,
        "Tokens of one page are read as those of another: a prompt within one page is right.",
        "Check the page table: an entry that is copied, freed too early, or indexed by another request.",
    ),
    found(
        &k::CACHE_RING,
        "Prompts that fit are right; of longer ones the first keys are gone, and those that overwrote them are read twice.",
        "Give the cache a row for each token, or mask what was overwritten in layers that have a window.",
    ),
    found(
        &k::CACHE_FORM,
        "Keys or values are off by the type's rounding, or cut where they are largest.",
        "Keep the cache in the activations' type, calibrate its scales, or name the profile of an engine that does so.",
    ),
    found(
        &k::CACHE_READ_FORM,
        "A prompt in one call is right; later calls read rounded keys or values.",
        "Keep what was computed; or read and write the cache by the same scales, and name that profile.",
    ),
];
