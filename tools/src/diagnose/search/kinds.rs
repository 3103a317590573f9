//! How what a search finds is told.

use crate::diagnose::catalogue::mistake::Mistake;

const fn kind(name: &'static str, about: &'static str, right: &'static str) -> Mistake {
    Mistake { name, about, right, visible: "always", touches: &[], ways: |_, _| Vec::new() }
}

const CHECKPOINT: &str = "every tensor is the checkpoint's";

pub(in crate::diagnose) static SCALED: Mistake =
    kind("weight_scaled", "a weight, or a part of it, is the checkpoint's times a factor", CHECKPOINT);
pub(in crate::diagnose) static ZERO: Mistake = kind("weight_zero", "a weight, or a part of it, is 0", CHECKPOINT);
pub(in crate::diagnose) static EXPERTS: Mistake =
    kind("experts_permuted", "experts have the weights of others", "each expert has the weights of its number");
pub(in crate::diagnose) static ROWS: Mistake =
    kind("rows_permuted", "output channels of a weight have the values of others", CHECKPOINT);
pub(in crate::diagnose) static OTHER_LAYER: Mistake =
    kind("weight_of_another_layer", "a weight is that of another layer", "each layer has its own weights");
pub(in crate::diagnose) static LAYERS: Mistake =
    kind("layers_exchanged", "two layers have each other's weights", "each layer has its own weights");
pub(in crate::diagnose) static LAYER_ORDER: Mistake =
    kind("layer_order", "layers run in another order", "layers run in the order of their numbers");
pub(in crate::diagnose) static UNWRITTEN: Mistake = kind(
    "rows_unwritten",
    "rows of an operator's output are never written, and are 0",
    "every token has a row of its own",
);
pub(in crate::diagnose) static TILE: Mistake = kind(
    "causal_mask_by_tiles",
    "a token sees all keys of its own tile, those behind it, too",
    "a token sees those before it and itself",
);
pub(in crate::diagnose) static PADDING: Mistake = kind(
    "padding_seen",
    "slots of padding are computed, and seen by the tokens behind them, as if they were tokens",
    "the attention mask leaves them out",
);
pub(in crate::diagnose) static UNSEEN: Mistake = kind(
    "not_taken_as_shown",
    "what is shown of a module is not what the next one takes",
    "each module takes what the one before it gives",
);
pub(in crate::diagnose) static CAPTURED: Mistake = kind(
    "captured_elsewhere",
    "tensors hold other sites' values: the engine computes right, and what saved it hooks another module, or another end of it",
    "each tensor has the values of the site that it is named for",
);
pub(in crate::diagnose) static TAKEN: Mistake =
    kind("weight_of_another_name", "a weight has the values of another, or of a part of one", CHECKPOINT);
pub(in crate::diagnose) static EXCHANGED: Mistake =
    kind("weights_exchanged", "two weights of a layer have each other's values", CHECKPOINT);
pub(in crate::diagnose) static ONE_EXPERT: Mistake =
    kind("one_expert", "one expert's weights are taken otherwise", "every expert's weights are taken alike");
pub(in crate::diagnose) static PLUS_ONE: Mistake =
    kind("norm_weight_off_by_one", "one norm multiplies by its weight as another family's does", "all norms do alike");
pub(in crate::diagnose) static NOT_LOADED: Mistake =
    kind("norm_weight_not_loaded", "a norm's weight was not loaded, and is 1 everywhere", CHECKPOINT);
pub(in crate::diagnose) static SIGNS: Mistake =
    kind("weight_signs", "signs of a weight's values are taken otherwise", CHECKPOINT);
pub(in crate::diagnose) static COLUMNS: Mistake =
    kind("columns_permuted", "input channels of a weight are in another order", CHECKPOINT);
pub(in crate::diagnose) static TRANSPOSED: Mistake =
    kind("weight_transposed", "a weight is transposed, if not in its shape, in the order of its elements", CHECKPOINT);
pub(in crate::diagnose) static ROUNDED: Mistake =
    kind("weight_rounded", "a weight is rounded to fewer bits than it is stored in", CHECKPOINT);

pub(in crate::diagnose) static SCALES: Mistake = kind(
    "scales_misread",
    "the scales of a quantized weight are taken otherwise",
    "each block of elements is multiplied by its own scale, whatever its name says of an inverse",
);

const CONFIGURED: &str = "what the configuration says";

pub(in crate::diagnose) static NORM_EPS: Mistake = kind("norm_eps", "norms add another ε", CONFIGURED);
pub(in crate::diagnose) static QK_NORM_EPS: Mistake =
    kind("qk_norm_eps", "the query and key norms add another ε", CONFIGURED);
pub(in crate::diagnose) static INPUT_NORM_EPS: Mistake =
    kind("input_norm_eps", "the norms before attention add another ε", CONFIGURED);
pub(in crate::diagnose) static POST_ATTENTION_NORM_EPS: Mistake =
    kind("post_attention_norm_eps", "the norms behind attention add another ε", CONFIGURED);
pub(in crate::diagnose) static FINAL_NORM_EPS: Mistake =
    kind("final_norm_eps", "the last norm adds another ε", CONFIGURED);
pub(in crate::diagnose) static Q_NORM_EPS: Mistake = kind("q_norm_eps", "the query norm adds another ε", CONFIGURED);
pub(in crate::diagnose) static K_NORM_EPS: Mistake = kind("k_norm_eps", "the key norm adds another ε", CONFIGURED);
pub(in crate::diagnose) static INDEX_Q_NORM_EPS: Mistake =
    kind("index_q_norm_eps", "the index branch's query norm adds another ε", CONFIGURED);
pub(in crate::diagnose) static INDEX_K_NORM_EPS: Mistake =
    kind("index_k_norm_eps", "the index branch's key norm adds another ε", CONFIGURED);
pub(in crate::diagnose) static VISION_NORM_EPS: Mistake =
    kind("vision_norm_eps", "the tower's norms add another ε", CONFIGURED);
pub(in crate::diagnose) static VISION_LAYER_NORM_EPS: Mistake =
    kind("vision_layer_norm_eps", "the norms in the tower's layers add another ε", CONFIGURED);
pub(in crate::diagnose) static VISION_PRE_NORM_EPS: Mistake =
    kind("vision_pre_norm_eps", "the norm before the tower's layers adds another ε", CONFIGURED);
pub(in crate::diagnose) static ROPE_THETA: Mistake = kind("rope_theta", "the rotation has another base", CONFIGURED);
pub(in crate::diagnose) static ROPE_SCALING: Mistake = kind(
    "rope_scaling",
    "frequencies are scaled for a longer context, as YaRN or Llama 3 do: factor / length before",
    "the configuration has no rope_scaling: every frequency is a power of θ",
);
pub(in crate::diagnose) static POSITION: Mistake =
    kind("position_offset", "positions are off from one on", "positions count from 0, over prompt and decode");
pub(in crate::diagnose) static SCORE_SCALE: Mistake =
    kind("score_scale", "attention scales its scores by another number", "scores are scaled by 1/√head_dim");
pub(in crate::diagnose) static VISION_SCORE_SCALE: Mistake =
    kind("vision_score_scale", "the tower scales its scores by another number", "scores are scaled by 1/√d");
pub(in crate::diagnose) static LAYER_SCALE: Mistake =
    kind("layer_scaled", "the stream behind a layer, all that is in it, is multiplied by a factor", "it is a sum");
pub(in crate::diagnose) static CAPACITY: Mistake = kind(
    "expert_capacity",
    "an expert takes so many tokens, and what it would say to later ones is left out",
    "an expert takes every token that chose it",
);
pub(in crate::diagnose) static SHARED_PAGE: Mistake = kind(
    "kv_cache_shared_page",
    "keys and values of a page of positions are those of another page",
    "the cache has a row for each token",
);
pub(in crate::diagnose) static FUSED_CUT: Mistake = kind(
    "qkv_cut",
    "one matrix of all projections is cut otherwise than it was put together",
    "q_proj, k_proj and v_proj have the checkpoint's rows, in their order",
);
pub(in crate::diagnose) static ROTATED: Mistake = kind(
    "rotation_of_one",
    "queries rotate otherwise than keys: twice, the other way, in other channels or pairs",
    "both rotate alike, once",
);
pub(in crate::diagnose) static QUERY_NARROW: Mistake = kind(
    "query_narrow",
    "queries are rounded to a narrower type, without a scale",
    "queries have the activations' type",
);
pub(in crate::diagnose) static PROBABILITY_NARROW: Mistake = kind(
    "probability_narrow",
    "probabilities are rounded to a narrower type, without a scale, before they weigh values",
    "probabilities have the activations' type",
);
pub(in crate::diagnose) static QUERY_CHANNELS: Mistake = kind(
    "scores_of_fewer_channels",
    "scores leave out the last channels of a head, as a loop does that ends before an incomplete vector",
    "scores are taken over all channels of a head",
);
pub(in crate::diagnose) static CACHE_READ_FORM: Mistake = kind(
    "kv_cache_read_quantized",
    "later calls read keys, values or both of the calls before as quantized, by scales of their own",
    "a call reads what was kept",
);
pub(in crate::diagnose) static HEADS_TILED: Mistake = kind(
    "heads_tiled",
    "query head h reads keys, or values, of key head h mod G instead of ⌊h·G/H⌋, and the other as it has to",
    "neighbouring query heads share a key head, its keys and its values",
);
pub(in crate::diagnose) static SPLITS: Mistake = kind(
    "splits_merged",
    "what splits of keys give is not put together by their largest scores and their sums",
    "sums of splits are scaled to the largest score of all, and added",
);
pub(in crate::diagnose) static ZEROS: Mistake = kind(
    "zeros_seen",
    "keys and values of zeros count in the softmax, as of slots that nothing filled, or that fill up a tile",
    "a token sees those before it and itself, and nothing else",
);
pub(in crate::diagnose) static KEYS_UNSEEN: Mistake =
    kind("keys_unseen", "some keys are not seen that have to be", "a token sees all before it and itself");
pub(in crate::diagnose) static CAUSAL_OF_CALL: Mistake = kind(
    "causal_of_call",
    "a causal mask begins at the first key in a later call, too: a token sees as many of the first keys as its call has tokens \
     up to it",
    "the mask of a later call begins behind the keys of those before",
);
pub(in crate::diagnose) static SHARED_HEAD: Mistake = kind(
    "context_head_shared",
    "a head of attention's context holds another head's",
    "each head of the context has its own place",
);
pub(in crate::diagnose) static HEADS_VIEWED: Mistake = kind(
    "heads_not_transposed",
    "heads are taken by a view where tokens and heads have to be transposed: a head has rows of several tokens and heads",
    "rows [tokens, heads · d] become [heads, tokens, d] by a view and a transposition, and the context the other way round",
);
pub(in crate::diagnose) static CACHE_RING: Mistake = kind(
    "kv_cache_ring",
    "the cache is a ring of slots, whose earlier keys and values later ones have overwritten",
    "the cache has a row for each token",
);
pub(in crate::diagnose) static BLOCKS_OF_TILE: Mistake = kind(
    "blocks_of_a_tile",
    "the tokens of a tile have the blocks that are chosen, or local, for one of them",
    "each token has its own",
);
pub(in crate::diagnose) static CACHE_FORM: Mistake = kind(
    "kv_cache_quantized",
    "keys, values or both are quantized as they are kept, by scales of their own, or clipped",
    "the cache has the activations' type",
);
pub(in crate::diagnose) static ROPE_PAIR: Mistake = kind(
    "rope_pairs_of_half_head",
    "channel i is paired with i + head_dim / 2, though fewer channels rotate",
    "channel i is paired with i + rotary_dim / 2",
);
pub(in crate::diagnose) static INDEX_POOL: Mistake = kind(
    "index_abs",
    "a block's score is the largest of its tokens' absolute values",
    "a block's score is the largest of its tokens': a large negative one is the least relevant",
);
pub(in crate::diagnose) static INDEX_MIN: Mistake = kind(
    "index_min_pool",
    "a block's score is the smallest of its tokens'",
    "a block's score is the largest of its tokens'",
);
pub(in crate::diagnose) static INDEX_BLOCK: Mistake =
    kind("index_block_size", "the keys are cut into blocks of another size, which are chosen and read", CONFIGURED);
pub(in crate::diagnose) static INDEX_LOCAL: Mistake =
    kind("index_local_blocks", "another number of blocks up to a token's own are forced", CONFIGURED);
pub(in crate::diagnose) static BLOCKS_SHIFTED: Mistake = kind(
    "blocks_shifted",
    "attention reads the blocks after those that were chosen, or before them",
    "attention reads what was chosen",
);
pub(in crate::diagnose) static INDEX_PARTIAL: Mistake = kind(
    "index_last_block_dropped",
    "the last block of keys is not chosen as long as it is not full, not even for its own tokens",
    "keys that are not there yet are masked, and a token always reads its own block",
);
pub(in crate::diagnose) static INDEX_HEADS: Mistake = kind(
    "index_heads_shared",
    "all groups' blocks are chosen by the first index head, or by all heads' scores, added up token by token",
    "each group has the choice of its own index head",
);
pub(in crate::diagnose) static INDEX_SHIFT: Mistake = kind(
    "index_keys_shifted",
    "the index branch takes a block's score of keys that begin one late or one early",
    "block c has the keys from b·c to b·(c + 1) - 1",
);
pub(in crate::diagnose) static INDEX_NARROW: Mistake = kind(
    "index_cache_narrow",
    "the index branch's keys are kept in a narrower type, without a scale",
    "its cache has the activations' type",
);
pub(in crate::diagnose) static INDEX_CACHE: Mistake = kind(
    "index_cache_too_early",
    "the index branch's cache holds keys as they are before their norm, or their rotation, and later calls score these",
    "its cache holds keys after norm and rotation",
);
pub(in crate::diagnose) static INDEX_STALE: Mistake = kind(
    "index_cache_stale",
    "the index branch keeps no keys of tokens that are decoded: their rows of its cache are 0, or the key before once more",
    "its cache has a row for each token, decoded or not",
);
pub(in crate::diagnose) static ACTIVATED_LIMIT: Mistake =
    kind("activated_limit", "SwiGLU-OAI clamps the gate behind its sigmoid, to another limit", CONFIGURED);
pub(in crate::diagnose) static ACTIVATION_IN: Mistake = kind(
    "activation_in",
    "the activation is another in the networks of one kind alone",
    "routed and shared experts compute alike",
);
pub(in crate::diagnose) static LIMIT: Mistake = kind("swiglu_limit", "SwiGLU-OAI clamps to another limit", CONFIGURED);
pub(in crate::diagnose) static ALPHA: Mistake =
    kind("swiglu_alpha", "SwiGLU-OAI multiplies the gate by another α", CONFIGURED);
pub(in crate::diagnose) static BETA: Mistake =
    kind("swiglu_beta", "SwiGLU-OAI adds another β to the up projection", CONFIGURED);
pub(in crate::diagnose) static ROUTED_SCALE: Mistake =
    kind("routed_scale", "the routed experts' sum is multiplied by another factor", CONFIGURED);
