//! Of the index branch: which blocks of keys a token reads.

use super::lesson::Lesson;

pub(super) const LESSONS: &[Lesson] = &[
    Lesson {
        name: "head_max_selection",
        numbers: "All groups read the same blocks, about ten of sixteen of their own: the context of every head is \
                  off as soon as there are more blocks than are chosen.",
        mend: "Keep the heads' axis up to topk: each key head's group has its own index head.",
        wrong: "blocks = block_max.amax(dim=head_axis).topk(k).indices",
        right: "blocks = block_max.topk(k).indices  # [groups, tokens, k]",
    },
    Lesson {
        name: "group_selection",
        numbers: "Each group reads blocks of its own, where document 001 is read to have one choice for all heads.",
        mend: "Decide which is meant: --semantics msa_select=per_group is the released model's, head_max document \
               001's.",
        wrong: "blocks = block_max.topk(k).indices",
        right: "blocks = block_max.amax(dim=head_axis).topk(k).indices",
    },
    Lesson {
        name: "local_is_first_block",
        numbers: "A token may lose its own neighbourhood, and reads the first block instead: worst just behind a \
                  block's beginning.",
        mend: "Force the block of the token's own position.",
        wrong: "block_score[..., 0] = inf",
        right: "block_score.scatter_(-1, (positions // block_size)[:, None], inf)",
    },
    Lesson {
        name: "local_missing",
        numbers: "Nothing, where the own block has a high score by itself; else a token does not even see itself.",
        mend: "Set the own block's score to +∞ before topk.",
        wrong: "blocks = block_max.topk(k).indices",
        right: "block_max.scatter_(-1, own_block, inf); blocks = block_max.topk(k).indices",
    },
    Lesson {
        name: "init_block_wrong",
        numbers: "One of the chosen blocks is another: the last in the order of scores gives way to a forced one, or \
                  takes its place.",
        mend: "Read sparse_init_block; 0 forces none.",
        wrong: "block_max[..., :1] = inf",
        right: "block_max[..., : config.sparse_init_block] = inf",
    },
    Lesson {
        name: "block_topk_wrong",
        numbers: "A block of keys is missing or too many for each token: probabilities change by what those keys \
                  weigh.",
        mend: "Read sparse_topk_blocks; forced blocks are among them, not beside them.",
        wrong: "blocks = block_max.topk(k + 1).indices",
        right: "blocks = block_max.topk(config.sparse_topk_blocks).indices",
    },
    Lesson {
        name: "index_mean_pool",
        numbers: "A block with one relevant token loses against one with many half-relevant ones: other blocks are \
                  chosen, long contexts lose details.",
        mend: "Take the largest score of a block's tokens.",
        wrong: "block_score = scores.view(*s, n_blocks, block_size).mean(-1)",
        right: "block_score = scores.view(*s, n_blocks, block_size).amax(-1)",
    },
    Lesson {
        name: "index_lse",
        numbers: "A block's score is larger by up to the logarithm of its length, more where many tokens are alike: \
                  near choices differ.",
        mend: "Take the largest score of a block's tokens.",
        wrong: "block_score = scores.view(*s, n_blocks, block_size).logsumexp(-1)",
        right: "block_score = scores.view(*s, n_blocks, block_size).amax(-1)",
    },
    Lesson {
        name: "pad_with_zero",
        numbers: "A last block of negative scores has 0 for its largest: it is chosen before better ones.",
        mend: "Pad scores with −∞ before they are cut into blocks.",
        wrong: "scores = F.pad(scores, (0, pad))",
        right: "scores = F.pad(scores, (0, pad), value=-inf)",
    },
    Lesson {
        name: "index_scaled",
        numbers: "Scores are smaller by √d and their order is the same: what is chosen is right, and dumped scores \
                  are not.",
        mend: "Leave the factor out where scores are to be compared; what is chosen does not depend on it.",
        wrong: "scores = index_q @ index_k.transpose(-1, -2) * d**-0.5",
        right: "scores = index_q @ index_k.transpose(-1, -2)",
    },
    Lesson {
        name: "future_block_selected",
        numbers: "The own block's score is too high by what its later tokens have. Choices are right where that block \
                  is forced anyway.",
        mend: "Mask tokens behind the query with −∞ before blocks are made, not whole blocks.",
        wrong: "scores.masked_fill_(key_block > query_block, -inf)",
        right: "scores.masked_fill_(key_position > query_position, -inf)",
    },
    Lesson {
        name: "select_bf16_score",
        numbers: "Scores have eight bits, so that near blocks tie: other ones are chosen, now and then.",
        mend: "Keep the index branch's scores in float32 up to topk.",
        wrong: "scores = (index_q @ index_k.transpose(-1, -2)).bfloat16()",
        right: "scores = index_q.float() @ index_k.float().transpose(-1, -2)",
    },
    Lesson {
        name: "index_k_from_main_k",
        numbers: "Scores are products of unrelated vectors: the choice of blocks is arbitrary.",
        mend: "Project index keys by index_k_proj, norm and rotate them, and cache them beside keys and values.",
        wrong: "index_k = k[:, 0]",
        right: "index_k = rotate(index_k_norm(index_k_proj(x)), positions)",
    },
    Lesson {
        name: "index_norm_missing",
        numbers: "Scores grow with the projections' lengths: tokens of long keys are chosen by all queries.",
        mend: "Norm index queries and keys before the rotation.",
        wrong: "index_q = rotate(index_q_proj(x))",
        right: "index_q = rotate(index_q_norm(index_q_proj(x)))",
    },
    Lesson {
        name: "index_norm_swapped",
        numbers: "Each channel has the other side's weight: products of the two are the same channel by channel, and \
                  differ where rotation mixes channels, and in dumped queries and keys.",
        mend: "Give index_q_norm's weight to queries, index_k_norm's to keys.",
        wrong: "index_q, index_k = index_k_norm(q), index_q_norm(k)",
        right: "index_q, index_k = index_q_norm(q), index_k_norm(k)",
    },
    Lesson {
        name: "index_k_pre_rope",
        numbers: "Scores depend on the query's position instead of the distance: blocks are chosen otherwise, the \
                  later the more.",
        mend: "Store index keys after norm and rotation.",
        wrong: "index_cache.update(index_k_norm(k))",
        right: "index_cache.update(rotate(index_k_norm(k), positions))",
    },
    Lesson {
        name: "index_rope_missing",
        numbers: "Near and far tokens score alike: blocks are chosen by content alone.",
        mend: "Rotate index queries and keys as attention's are rotated.",
        wrong: "scores = index_q_norm(q) @ index_k_norm(k).transpose(-1, -2)",
        right: "index_q, index_k = rotate(index_q_norm(q)), rotate(index_k_norm(k))",
    },
    Lesson {
        name: "group_mapping",
        numbers: "The choices are right, and most heads read those of another group.",
        mend: "Neighbouring query heads share a group: repeat_interleave the choices.",
        wrong: "blocks = blocks.repeat(n_heads // groups, 1, 1)",
        right: "blocks = blocks.repeat_interleave(n_heads // groups, dim=0)",
    },
    Lesson {
        name: "topk_layout_token_major",
        numbers: "Tokens read the blocks of other tokens and groups, later ones among them: NaN, or text of zero \
                  bytes.",
        mend: "Let the kernel that writes the choices and the one that reads them agree on [groups, tokens, k].",
        wrong: "topk_buffer[token, group] = blocks  # read as [group, token]",
        right: "topk_buffer[group, token] = blocks",
    },
    Lesson {
        name: "duplicate_blocks",
        numbers: "Keys of the own block have twice their weight beside the others.",
        mend: "Raise the own block's score before topk instead of adding the block after it.",
        wrong: "blocks = torch.cat([own_block, block_max.topk(k - 1).indices], -1)",
        right: "block_max.scatter_(-1, own_block, inf); blocks = block_max.topk(k).indices",
    },
    Lesson {
        name: "block_mask_without_causal",
        numbers: "Each token but the last of a block sees what comes after it in the block; a decode does not agree \
                  with its prefill.",
        mend: "Join the blocks' mask and the causal mask.",
        wrong: "mask = chosen.repeat_interleave(block_size, -1)",
        right: "mask = chosen.repeat_interleave(block_size, -1) & causal",
    },
    Lesson {
        name: "sparse_as_full",
        numbers: "Short prompts are right. With more blocks than are chosen, attention is spread over keys that it \
                  should not see: no garbage, and other logits.",
        mend: "Give attention the choice of blocks in layers of sparse_attention_freq 1.",
        wrong: "out = attention(q, k, v, causal=True)",
        right: "out = block_sparse_attention(q, k, v, blocks, causal=True)",
    },
    Lesson {
        name: "index_input_unnormed",
        numbers: "Index queries and keys are normed later, so that only the layer norm's weight is missing: scores \
                  are off, not absurd.",
        mend: "Project what attention projects.",
        wrong: "index_q = index_q_proj(residual)",
        right: "index_q = index_q_proj(input_layernorm(residual))",
    },
    Lesson {
        name: "index_rope_last_half",
        numbers: "Other channels carry positions than were trained to: all scores but those at position 0 are off.",
        mend: "Rotate the first rotary_dim channels of index heads.",
        wrong: "passed, rotated = q.split([d - rotary_dim, rotary_dim], -1)",
        right: "rotated, passed = q.split([rotary_dim, d - rotary_dim], -1)",
    },
    Lesson {
        name: "index_rope_interleaved",
        numbers: "Attention is right, and the blocks that it reads are not: other pairs of channels turn, so that scores \
                  lose what tells near blocks from far ones.",
        mend: "Rotate index heads by the function that attention uses, or tell the kernel that pairs are halves.",
        wrong: "index_q = rotate(index_q, cos, sin, interleaved=True)  # and so index_k",
        right: "index_q = rotate(index_q, cos, sin, interleaved=False)",
    },
    Lesson {
        name: "index_rope_missing_in_decode",
        numbers: "Prefill chooses right. Decode steps score as if their query, or their key, stood at position 0.",
        mend: "Rotate both in the decode path of the index branch, too.",
        wrong: "index_k = index_k_norm(index_k_proj(x))  # in the decode kernel",
        right: "index_k = rotate(index_k_norm(index_k_proj(x)), positions)",
    },
    Lesson {
        name: "index_heads_mixed",
        numbers: "All groups choose by the same mixed scores, and read the same blocks.",
        mend: "Keep one row of scores for each index head up to topk.",
        wrong: "scores = scores.sum(dim=head_axis, keepdim=True).expand_as(scores)",
        right: "blocks = block_max.topk(k).indices  # by head",
    },
    Lesson {
        name: "index_heads_swapped",
        numbers: "Each group reads a right choice, of another group.",
        mend: "Let group g read the choice of index head g; look at how heads are spread over devices.",
        wrong: "blocks = blocks.roll(1, dims=head_axis)",
        right: "blocks = blocks  # group g has index head g",
    },
    Lesson {
        name: "local_is_next_block",
        numbers: "Only the last token of each block is off: it is forced to read a block that has no visible key yet, \
                  and may lose its own.",
        mend: "Divide the token's position, not the number of keys.",
        wrong: "own_block = n_keys // block_size",
        right: "own_block = (n_keys - 1) // block_size",
    },
    Lesson {
        name: "local_restarted",
        numbers: "The first call is right. Later chunks and decode steps force early blocks instead of their own, or \
                  see none of the keys before them when they choose.",
        mend: "Count positions from the beginning of the sequence in the index branch, too.",
        wrong: "own_block = torch.arange(n_queries) // block_size",
        right: "own_block = (context + torch.arange(n_queries)) // block_size",
    },
    Lesson {
        name: "block_keys_shifted",
        numbers: "A token reads the chosen blocks' neighbouring keys: one wrong key at each end of each run of blocks.",
        mend: "Block c begins at key c · block_size, counted from 0.",
        wrong: "keys = k[c * block_size + 1 : (c + 1) * block_size + 1]",
        right: "keys = k[c * block_size : (c + 1) * block_size]",
    },
];
