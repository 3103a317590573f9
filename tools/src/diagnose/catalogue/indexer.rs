//! Mistakes in the index branch, and in what attention makes of its choice.

use reference::LayerSite::{
    BlockMax, BlockScore, Blocks, Context, IndexKNorm, IndexKProj, IndexKRope, IndexQNorm, IndexQProj, IndexQRope,
    Probabilities, TokenScores,
};
use reference::Site;
use reference::config::{Config, Index};
use reference::weights::LayerWeight;

use super::mistake::{Change, Clue, Mistake, given, layer, neighbours, reading};
use super::weights::WeightChange;

const SCORED: &[Site] = &[layer(TokenScores), layer(BlockMax), layer(BlockScore), layer(Blocks)];
const CHOICE: &[Site] = &[layer(BlockMax), layer(BlockScore), layer(Blocks)];
const FORCED: &[Site] = &[layer(BlockScore), layer(Blocks)];
const ROTATED: &[Site] = &[layer(IndexQRope), layer(IndexKRope)];
const ATTENDED: &[Site] = &[layer(Probabilities), layer(Context)];

pub(super) const MISTAKES: &[Mistake] = &[
    Mistake {
        name: "head_max_selection",
        about: "blocks are chosen once for all groups of heads, by the largest score of any index head",
        right: "each group has the choice of its own index head: so the released code; document 001 (chapters 3.1 \
                and 3.3) has one for all",
        visible: "more than one index head, and more blocks than are chosen",
        touches: CHOICE,
        ways: |config, _| where_grouped(config, || reading("msa_select", "head_max")),
    },
    Mistake {
        name: "group_selection",
        about: "blocks are chosen for each group of heads by its own index head, as the released model does",
        right: "one choice for all heads: so document 001 (chapters 3.1 and 3.3), where that is the reading",
        visible: "more than one index head, more blocks than are chosen, and a reading of one choice for all",
        touches: CHOICE,
        ways: |config, _| where_grouped(config, || reading("msa_select", "per_group")),
    },
    Mistake {
        name: "local_is_first_block",
        about: "the first block is forced instead of the token's own",
        right: "a token always reads its own block: so the released code, and document 001 in chapter 3.3; in 3.4 \
                it has the first",
        visible: "more blocks than are chosen",
        touches: FORCED,
        ways: |config, _| where_sparse(config, |_| reading("msa_local", "first_block")),
    },
    Mistake {
        name: "local_missing",
        about: "no block is forced",
        right: "a token always reads its own block",
        visible: "own blocks of a low score",
        touches: FORCED,
        ways: |config, _| where_sparse(config, |_| reading("msa_local", "none")),
    },
    Mistake {
        name: "init_block_wrong",
        about: "another number of first blocks is forced",
        right: "sparse_init_block of the configuration",
        visible: "more blocks than are chosen",
        touches: FORCED,
        ways: |config, _| where_sparse(config, |index| neighbours("msa_init_block", index.blocks.init, 0)),
    },
    Mistake {
        name: "block_topk_wrong",
        about: "another number of blocks is chosen",
        right: "sparse_topk_blocks of the configuration",
        visible: "more blocks than are chosen",
        touches: &[layer(Blocks)],
        ways: |config, _| where_sparse(config, |index| neighbours("msa_top_k", index.blocks.top_k, 1)),
    },
    Mistake {
        name: "index_mean_pool",
        about: "a block's score is the mean of its tokens' instead of the largest",
        right: "the largest: one relevant token is enough (document 001, chapter 3.3)",
        visible: "more blocks than are chosen",
        touches: CHOICE,
        ways: |config, _| where_sparse(config, |_| reading("msa_pool", "mean")),
    },
    Mistake {
        name: "index_lse",
        about: "a block's score is the logarithm of the sum of its tokens' exponentials instead of the largest",
        right: "the largest: one relevant token is enough (document 001, chapter 3.3)",
        visible: "more blocks than are chosen",
        touches: CHOICE,
        ways: |config, _| where_sparse(config, |_| reading("msa_pool", "lse")),
    },
    Mistake {
        name: "pad_with_zero",
        about: "the last block is filled up with zeros, which are larger than negative scores",
        right: "what is masked has the score −∞",
        visible: "a last block that is not full, of negative scores",
        touches: CHOICE,
        ways: |config, _| where_sparse(config, |_| reading("msa_pad", "zero")),
    },
    Mistake {
        name: "index_scaled",
        about: "the index branch's scores are scaled by 1/√d",
        right: "they are not, which chooses alike: so transformers and vLLM; SGLang scales them",
        visible: "scores of the index branch that are shown",
        touches: SCORED,
        ways: |config, _| where_sparse(config, |_| reading("msa_score_scale", "1/sqrt(d)")),
    },
    Mistake {
        name: "future_block_selected",
        about: "the index branch scores later tokens of the own block, too",
        right: "scores of later tokens are −∞",
        visible: "block scores that are shown, or a choice without the own block forced",
        touches: SCORED,
        ways: |config, _| where_sparse(config, |_| reading("index_mask", "block")),
    },
    Mistake {
        name: "select_bf16_score",
        about: "the index branch's scores are rounded to bf16 before a block's largest is taken",
        right: "they are f32",
        visible: "block scores that are shown, or near ties",
        touches: SCORED,
        ways: |config, _| where_sparse(config, |_| reading("index_scores", "bf16")),
    },
    Mistake {
        name: "index_k_from_main_k",
        about: "the index branch takes the first key head of attention for its keys",
        right: "it has a projection and a norm of its own",
        visible: "index heads as wide as attention's; else shapes tell",
        touches: &[layer(IndexKRope)],
        ways: |config, _| {
            let fits = |index: Index| index.head_dim == config.head_dim;
            where_sparse(config, |index| given(fits(index), || reading("index_key", "main")))
        },
    },
    Mistake {
        name: "index_norm_missing",
        about: "queries and keys of the index branch are not normed",
        right: "both are, before the rotation",
        visible: "more blocks than are chosen",
        touches: &[layer(IndexQNorm), layer(IndexKNorm)],
        ways: |config, _| where_sparse(config, |_| reading("index_norm", "none")),
    },
    Mistake {
        name: "index_norm_swapped",
        about: "the index branch norms queries by the keys' weight, and keys by the queries'",
        right: "each has its own",
        visible: "weights that differ, and more blocks than are chosen",
        touches: &[layer(IndexQNorm), layer(IndexKNorm)],
        ways: |config, _| where_sparse(config, |_| reading("index_norm", "swapped")),
    },
    Mistake {
        name: "index_k_pre_rope",
        about: "keys of the index branch are stored, and used, without rotation",
        right: "its cache holds keys after norm and rotation",
        visible: "more blocks than are chosen",
        touches: &[layer(IndexKRope)],
        ways: |config, _| where_sparse(config, |_| reading("index_rope", "query")),
    },
    Mistake {
        name: "index_rope_missing",
        about: "in the index branch nothing rotates, or keys alone",
        right: "its queries and keys rotate",
        visible: "more blocks than are chosen",
        touches: ROTATED,
        ways: |config, _| {
            let of = |on| reading("index_rope", on);
            where_sparse(config, |_| ["none", "key"].into_iter().flat_map(of).collect())
        },
    },
    Mistake {
        name: "group_mapping",
        about: "query head h attends to the blocks of group h mod G instead of ⌊h·G/H⌋",
        right: "neighbouring query heads share a group's blocks",
        visible: "more than one group, and more query heads than groups",
        touches: ATTENDED,
        ways: |config, _| {
            let shared = config.num_attention_heads > config.num_key_value_heads;
            given(shared, || where_grouped(config, || reading("msa_group", "tiled")))
        },
    },
    Mistake {
        name: "topk_layout_token_major",
        about: "choices are written with a token's groups together, and read as if a group's tokens were together, or the other \
                way round",
        right: "attention reads the choice of its own token and group",
        visible: "more than one group, and more than one token",
        touches: ATTENDED,
        ways: |config, _| {
            let both = || [reading("msa_layout", "head_major"), reading("msa_layout", "transposed")].concat();
            where_grouped(config, both)
        },
    },
    Mistake {
        name: "duplicate_blocks",
        about: "the own block is read twice, as it is chosen and as it is forced, and its keys count double",
        right: "each key counts once",
        visible: "beyond the first block",
        touches: ATTENDED,
        ways: |config, _| where_sparse(config, |_| reading("msa_own", "twice")),
    },
    Mistake {
        name: "block_mask_without_causal",
        about: "chosen blocks are seen whole, later tokens of the own block included",
        right: "a token sees those before it and itself",
        visible: "a token that is not the last of its block",
        touches: ATTENDED,
        ways: |config, _| where_sparse(config, |_| reading("msa_mask", "block")),
    },
    Mistake {
        name: "sparse_as_full",
        about: "block-sparse layers attend to every block",
        right: "they attend to the chosen ones",
        visible: "more blocks than are chosen",
        touches: ATTENDED,
        ways: |config, _| where_sparse(config, |_| reading("msa_mask", "all")),
    },
    Mistake {
        name: "index_input_unnormed",
        about: "the index branch projects the stream before the layer's norm",
        right: "it projects what attention does",
        visible: "more blocks than are chosen",
        touches: &[layer(IndexQProj), layer(IndexKProj)],
        ways: |config, _| where_sparse(config, |_| reading("index_input", "stream")),
    },
    Mistake {
        name: "index_rope_last_half",
        about: "the last channels of the index branch's heads rotate instead of the first",
        right: "the first rotary_dim channels rotate, as attention's do",
        visible: "rotary_dim below the index heads' width, more blocks than are chosen",
        touches: ROTATED,
        ways: |config, _| {
            let partial = |index: Index| config.rotary_dim < index.head_dim;
            where_sparse(config, |index| given(partial(index), || reading("index_rotated", "last")))
        },
    },
    Mistake {
        name: "index_rope_interleaved",
        about: "in the index branch, channels 2i and 2i + 1 form a pair instead of i and i + rotary_dim / 2",
        right: "its heads rotate as attention's do",
        visible: "rotary_dim above 2, more blocks than are chosen",
        touches: ROTATED,
        ways: |config, _| {
            where_sparse(config, |_| given(config.rotary_dim > 2, || reading("index_rotated", "interleaved")))
        },
    },
    Mistake {
        name: "index_rope_missing_in_decode",
        about: "queries or keys of the index branch are not rotated in decode steps",
        right: "those of every token rotate",
        visible: "decode steps, more blocks than are chosen",
        touches: ROTATED,
        ways: |config, _| {
            let of = |on| reading("index_rope_decode", on);
            where_sparse(config, |_| [of("key"), of("query"), of("none")].concat())
        },
    },
    Mistake {
        name: "index_heads_mixed",
        about: "each group's blocks are chosen by the scores of all index heads, added up or the largest",
        right: "each group has the choice of its own index head",
        visible: "more than one index head, and more blocks than are chosen",
        touches: CHOICE,
        ways: |config, _| {
            let of = |heads| reading("index_heads", heads);
            where_grouped(config, || [of("sum"), of("mean"), of("max")].concat())
        },
    },
    Mistake {
        name: "index_heads_swapped",
        about: "each group's blocks are chosen by another index head",
        right: "each group has the choice of its own index head",
        visible: "more than one index head, and more blocks than are chosen",
        touches: CHOICE,
        ways: |config, _| {
            let of = |heads| reading("index_heads", heads);
            // Of two heads the next is the last in reverse.
            let several = config.index.is_some_and(|index| index.choices > 2);
            where_grouped(config, || [of("next"), given(several, || of("reversed"))].concat())
        },
    },
    Mistake {
        name: "local_is_next_block",
        about: "the block of the next position is forced, which at a block's end is not the token's own",
        right: "a token always reads its own block",
        visible: "more blocks than are chosen",
        touches: FORCED,
        ways: |config, _| where_sparse(config, |_| reading("msa_local", "next_block")),
    },
    Mistake {
        name: "local_restarted",
        about: "the block that is forced is that of the token's place in its call, as if positions counted from 0 there, or the \
                whole index branch counts them so",
        right: "a token always reads its own block, and scores those before it",
        visible: "prompts in several calls, or decode steps, more blocks than are chosen",
        touches: SCORED,
        ways: |config, _| {
            let both = || [reading("msa_local", "call_block"), reading("index_call", "restarted")].concat();
            where_sparse(config, |_| both())
        },
    },
    Mistake {
        name: "block_keys_shifted",
        about: "attention reads the keys of blocks one late or one early",
        right: "block c has the keys b·c to b·c + b − 1",
        visible: "more blocks than are chosen",
        touches: ATTENDED,
        ways: |config, _| where_sparse(config, |_| [reading("msa_shift", "1"), reading("msa_shift", "-1")].concat()),
    },
    missing(&[layer(IndexQProj)], |config, _| zero(config, LayerWeight::IndexQProj)),
    missing(&[layer(IndexKProj)], |config, _| zero(config, LayerWeight::IndexKProj)),
];

/// A tensor of the index branch that stays zero.
const fn missing(touches: &'static [Site], ways: fn(&Config, Clue) -> Vec<Change>) -> Mistake {
    Mistake { visible: "block-sparse layers", ..super::loading::missing(touches, ways) }
}

fn zero(config: &Config, weight: LayerWeight) -> Vec<Change> {
    where_sparse(config, |_| vec![Change::Weights(WeightChange::Zero(weight))])
}

/// Where there is an index branch.
fn where_sparse(config: &Config, ways: impl Fn(Index) -> Vec<Change>) -> Vec<Change> {
    config.index.map(ways).unwrap_or_default()
}

/// Where its choices are several.
fn where_grouped(config: &Config, ways: impl Fn() -> Vec<Change>) -> Vec<Change> {
    where_sparse(config, |index| given(index.choices > 1, &ways))
}
