//! Every kernel, in every set of constants that it is launched with.
//!
//! The build script compiles each of them for the emulated device; the compile test compiles each for each GPU. To add
//! a kernel, add its constant and name it in [`KERNELS`].

/// One `.cu` file together with the constants that it is compiled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The operator, and the name of the file without `.cu`.
    pub op: &'static str,
    /// The `extern "C"` functions of the file that are launched.
    pub entries: &'static [&'static str],
    /// `-DNAME=value`, by name. No header of the kernels may use such a name for anything else.
    pub constants: &'static [(&'static str, u32)],
}

impl Kernel {
    /// The kernel in words: `rms_norm THREADS=256`.
    pub fn label(&self) -> String {
        self.constants.iter().fold(self.op.to_owned(), |label, (name, value)| format!("{label} {name}={value}"))
    }
}

/// The RMS norm of rows.
pub const RMS_NORM: Kernel = Kernel { op: "rms_norm", entries: &["rms_norm"], constants: &[("THREADS", 256)] };

/// Residual addition, and the RMS norm of its rows.
pub const ADD_RMS_NORM: Kernel =
    Kernel { op: "add_rms_norm", entries: &["add_rms_norm"], constants: &[("THREADS", 256)] };

/// The linear operator's constants: bits of the output and of a weight, rows and columns of a tile, warps across it, stages of
/// its ring.
const fn linear([out, weights]: [u32; 2], tile: u32, across: u32, stages: u32) -> [(&'static str, u32); 8] {
    [
        ("OUT", out),
        ("WEIGHTS", weights),
        ("TILE_ROWS", tile),
        ("TILE_COLS", tile),
        ("WARPS_DOWN", 2),
        ("WARPS_ACROSS", across),
        ("STAGES", stages),
        ("FEW_STAGES", 4),
    ]
}

/// The linear operator in small tiles, and for few rows.
const fn small(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "linear", entries: &["linear_tiles", "linear_few_rows"], constants }
}

/// The linear operator in large tiles.
const fn large(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "linear", entries: &["linear_tiles"], constants }
}

/// The linear operator in 64 × 64 tiles, to bf16; also for few rows.
pub const LINEAR_64_BF16: Kernel = small(&linear([16, 16], 64, 2, 4));

/// The linear operator in 64 × 64 tiles, to f32; also for few rows.
pub const LINEAR_64_F32: Kernel = small(&linear([32, 16], 64, 2, 4));

/// The linear operator in 128 × 128 tiles, to bf16.
pub const LINEAR_128_BF16: Kernel = large(&linear([16, 16], 128, 4, 3));

/// The linear operator in 128 × 128 tiles, to f32.
pub const LINEAR_128_F32: Kernel = large(&linear([32, 16], 128, 4, 3));

/// The linear operator of weights in E4M3 in 64 × 64 tiles, to bf16; also for few rows.
pub const LINEAR_64_BF16_E4M3: Kernel = small(&linear([16, 8], 64, 2, 4));

/// The linear operator of weights in E4M3 in 64 × 64 tiles, to f32; also for few rows.
pub const LINEAR_64_F32_E4M3: Kernel = small(&linear([32, 8], 64, 2, 4));

/// The linear operator of weights in E4M3 in 128 × 128 tiles, to bf16.
pub const LINEAR_128_BF16_E4M3: Kernel = large(&linear([16, 8], 128, 4, 3));

/// The linear operator of weights in E4M3 in 128 × 128 tiles, to f32.
pub const LINEAR_128_F32_E4M3: Kernel = large(&linear([32, 8], 128, 4, 3));

/// The linear operator's constants on warpgroups, in 128 × 128 tiles: bits of the output and of a weight, stages of its ring.
const fn linear_by_warpgroups([out, weights]: [u32; 2], stages: u32) -> [(&'static str, u32); 9] {
    let [a, b, c, d, _, _, e, f] = linear([out, weights], 128, 1, stages);
    [a, b, c, d, ("WARPS_DOWN", 8), ("WARPS_ACROSS", 1), e, f, ("WARPGROUPS", 1)]
}

/// The linear operator on warpgroups, to bf16.
pub const LINEAR_WARPGROUPS_BF16: Kernel = large(&linear_by_warpgroups([16, 16], 6));

/// The linear operator on warpgroups, to f32.
pub const LINEAR_WARPGROUPS_F32: Kernel = large(&linear_by_warpgroups([32, 16], 6));

/// The linear operator of weights in E4M3 on warpgroups, to bf16.
pub const LINEAR_WARPGROUPS_BF16_E4M3: Kernel = large(&linear_by_warpgroups([16, 8], 5));

/// The linear operator of weights in E4M3 on warpgroups, to f32.
pub const LINEAR_WARPGROUPS_F32_E4M3: Kernel = large(&linear_by_warpgroups([32, 8], 5));

/// Embedding of tokens.
pub const EMBEDDING: Kernel = Kernel { op: "embedding", entries: &["embedding"], constants: &[("THREADS", 128)] };

/// QK norm and RoPE: of whole rows, of each head, and of rows that ranks share.
const QK_NORM_ROPE_ENTRIES: &[&str] =
    &["qk_norm_rope", "qk_norm_rope_per_head", "qk_norm_rope_squares", "qk_norm_rope_sharded"];

/// QK norm and RoPE, for heads of up to D channels.
const fn qk_norm_rope(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "qk_norm_rope", entries: QK_NORM_ROPE_ENTRIES, constants }
}

/// QK norm and RoPE, by the channels that a head is padded to.
pub const QK_NORM_ROPE: [Kernel; 4] = [
    qk_norm_rope(&[("THREADS", 256), ("D", 16)]),
    qk_norm_rope(&[("THREADS", 256), ("D", 32)]),
    qk_norm_rope(&[("THREADS", 256), ("D", 64)]),
    qk_norm_rope(&[("THREADS", 256), ("D", 128)]),
];

/// Attention, for heads of up to D channels.
const fn attention(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "attention", entries: &["attention_prefill", "attention_split", "attention_merge"], constants }
}

/// Attention, by the channels that a head is padded to.
pub const ATTENTION: [Kernel; 4] =
    [attention(&[("D", 16)]), attention(&[("D", 32)]), attention(&[("D", 64)]), attention(&[("D", 128)])];

/// The indexer, for heads of up to D channels.
const fn indexer(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel {
        op: "indexer",
        entries: &["indexer_scores", "indexer_few_rows", "indexer_merge", "indexer_choose"],
        constants,
    }
}

/// The indexer, by the channels that a head is padded to.
pub const INDEXER: [Kernel; 4] =
    [indexer(&[("D", 16)]), indexer(&[("D", 32)]), indexer(&[("D", 64)]), indexer(&[("D", 128)])];

/// Block-sparse attention.
const BLOCK_SPARSE_ENTRIES: &[&str] =
    &["block_sparse_attention_prefill", "block_sparse_attention_split", "block_sparse_attention_merge"];

/// Block-sparse attention, for heads of up to D channels.
const fn block_sparse_attention(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "block_sparse_attention", entries: BLOCK_SPARSE_ENTRIES, constants }
}

/// Block-sparse attention, by the channels that a head is padded to.
pub const BLOCK_SPARSE_ATTENTION: [Kernel; 4] = [
    block_sparse_attention(&[("D", 16)]),
    block_sparse_attention(&[("D", 32)]),
    block_sparse_attention(&[("D", 64)]),
    block_sparse_attention(&[("D", 128)]),
];

/// The router: tokens of a block, a warp's experts, and loads of each row that are on their way at once; warps of a block for few
/// tokens.
pub const ROUTER: Kernel = Kernel {
    op: "router",
    entries: &["router_scores", "router_scores_few", "router_choose"],
    constants: &[
        ("BLOCK_TOKENS", 8),
        ("WARP_EXPERTS", 8),
        ("BLOCK_WARPS", 4),
        ("AHEAD", 4),
        ("FEW_WARPS", 2),
        ("CHOOSE_THREADS", 256),
    ],
};

/// Routed experts.
const fn moe(constants: &'static [(&'static str, u32)]) -> Kernel {
    let entries = &["moe_count", "moe_place", "moe_place_few", "moe_gate_up", "moe_down", "moe_combine"];
    Kernel { op: "moe", entries, constants }
}

/// Those of tiles: bits of a weight, rows and columns of a tile, warps down and across it, stages of its ring.
const fn tiled(
    weights: u32,
    [rows, cols]: [u32; 2],
    [down, across]: [u32; 2],
    stages: u32,
) -> [(&'static str, u32); 6] {
    [
        ("WEIGHTS", weights),
        ("TILE_ROWS", rows),
        ("TILE_COLS", cols),
        ("WARPS_DOWN", down),
        ("WARPS_ACROSS", across),
        ("STAGES", stages),
    ]
}

/// Tiles of 16 rows, for few tokens.
const fn of_16(stages: u32) -> [(&'static str, u32); 6] {
    tiled(16, [16, 64], [1, 4], stages)
}

/// The same of weights in E4M3: a thread dequantizes as many values as it multiplies, and blocks of fewer warps wait less for one
/// another.
const OF_16_E4M3: [(&str, u32); 6] = tiled(8, [16, 32], [1, 2], 4);

/// Tiles of 64 rows.
const fn of_64(weights: u32) -> [(&'static str, u32); 6] {
    tiled(weights, [64, 128], [2, 4], 3)
}

/// Tiles of 64 rows, each a warpgroup's.
const fn of_warpgroups(weights: u32) -> [(&'static str, u32); 7] {
    let [a, b, c, d, e, f] = tiled(weights, [64, 128], [4, 1], 4);
    [a, b, c, d, e, f, ("WARPGROUPS", 1)]
}

/// The same, and threads of a block that places choices.
const fn placing([a, b, c, d, e, f]: [(&'static str, u32); 6]) -> [(&'static str, u32); 7] {
    [("PLACE_THREADS", 256), a, b, c, d, e, f]
}

/// The same for warpgroups.
const fn placing_for_warpgroups([a, b, c, d, e, f, g]: [(&'static str, u32); 7]) -> [(&'static str, u32); 8] {
    [("PLACE_THREADS", 256), a, b, c, d, e, f, g]
}

/// Routed experts in tiles of 16 rows, for few tokens.
pub const MOE_16: Kernel = moe(&placing(of_16(4)));

/// Routed experts in tiles of 64 rows.
pub const MOE_64: Kernel = moe(&placing(of_64(16)));

/// Routed experts of weights in E4M3 in tiles of 16 rows, for few tokens.
pub const MOE_16_E4M3: Kernel = moe(&placing(OF_16_E4M3));

/// Routed experts of weights in E4M3 in tiles of 64 rows.
pub const MOE_64_E4M3: Kernel = moe(&placing(of_64(8)));

/// Routed experts on warpgroups.
pub const MOE_WARPGROUPS: Kernel = moe(&placing_for_warpgroups(of_warpgroups(16)));

/// Routed experts of weights in E4M3 on warpgroups.
pub const MOE_WARPGROUPS_E4M3: Kernel = moe(&placing_for_warpgroups(of_warpgroups(8)));

/// A dense feed-forward network.
const fn dense_ffn(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "dense_ffn", entries: &["dense_ffn_gate_up"], constants }
}

/// A dense feed-forward network, for few tokens.
pub const DENSE_FFN_16: Kernel = dense_ffn(&of_16(6));

/// A dense feed-forward network in tiles of 64 rows.
pub const DENSE_FFN_64: Kernel = dense_ffn(&of_64(16));

/// A dense feed-forward network of weights in E4M3, for few tokens.
pub const DENSE_FFN_16_E4M3: Kernel = dense_ffn(&OF_16_E4M3);

/// A dense feed-forward network of weights in E4M3 in tiles of 64 rows.
pub const DENSE_FFN_64_E4M3: Kernel = dense_ffn(&of_64(8));

/// A dense feed-forward network on warpgroups.
pub const DENSE_FFN_WARPGROUPS: Kernel = dense_ffn(&of_warpgroups(16));

/// A dense feed-forward network of weights in E4M3 on warpgroups.
pub const DENSE_FFN_WARPGROUPS_E4M3: Kernel = dense_ffn(&of_warpgroups(8));

/// The largest logit of rows.
pub const SAMPLING: Kernel =
    Kernel { op: "sampling", entries: &["sampling_parts", "sampling_argmax"], constants: &[("THREADS", 256)] };

/// The layer norm of rows.
pub const LAYER_NORM: Kernel = Kernel { op: "layer_norm", entries: &["layer_norm"], constants: &[("THREADS", 256)] };

/// GELU of values.
pub const GELU: Kernel = Kernel { op: "gelu", entries: &["gelu"], constants: &[("THREADS", 256)] };

/// The linear operator with bias in 64 × 64 tiles; also for few rows.
pub const LINEAR_BIAS_64: Kernel = Kernel {
    op: "linear_bias",
    entries: &["linear_bias_tiles", "linear_bias_few_rows"],
    constants: &linear([16, 16], 64, 2, 4),
};

/// The linear operator with bias in 128 × 128 tiles.
pub const LINEAR_BIAS_128: Kernel =
    Kernel { op: "linear_bias", entries: &["linear_bias_tiles"], constants: &linear([16, 16], 128, 4, 3) };

/// The linear operator with bias on warpgroups.
pub const LINEAR_BIAS_WARPGROUPS: Kernel =
    Kernel { op: "linear_bias", entries: &["linear_bias_tiles"], constants: &linear_by_warpgroups([16, 16], 6) };

/// RoPE, a warp a head.
pub const ROPE: Kernel = Kernel { op: "rope", entries: &["rope"], constants: &[("THREADS", 256)] };

/// Attention within segments, for heads of up to D channels.
const fn vision_attention(constants: &'static [(&'static str, u32)]) -> Kernel {
    Kernel { op: "vision_attention", entries: &["vision_attention"], constants }
}

/// Attention within segments, by the channels that a head is padded to.
pub const VISION_ATTENTION: [Kernel; 4] = [
    vision_attention(&[("D", 16)]),
    vision_attention(&[("D", 32)]),
    vision_attention(&[("D", 64)]),
    vision_attention(&[("D", 128)]),
];

/// Residual addition alone.
pub const RESIDUAL: Kernel = Kernel { op: "residual", entries: &["residual"], constants: &[("THREADS", 256)] };

/// Pixels, or weights, rounded.
pub const PATCH_EMBEDDING: Kernel =
    Kernel { op: "patch_embedding", entries: &["patch_embedding_round"], constants: &[("THREADS", 256)] };

/// Rows put in marked places.
pub const MASKED_SCATTER: Kernel =
    Kernel { op: "masked_scatter", entries: &["masked_scatter"], constants: &[("THREADS", 128)] };

/// Embeddings and hidden states side by side, behind their norms.
pub const MTP: Kernel = Kernel { op: "mtp", entries: &["mtp"], constants: &[("THREADS", 256)] };

/// Sums over ranks.
pub const ALL_REDUCE: Kernel =
    Kernel { op: "all_reduce", entries: &["all_reduce", "all_reduce_f32"], constants: &[("THREADS", 256)] };

/// Every kernel that an operator launches.
pub const KERNELS: &[Kernel] = &[
    EMBEDDING,
    RMS_NORM,
    ADD_RMS_NORM,
    LINEAR_64_BF16,
    LINEAR_64_F32,
    LINEAR_128_BF16,
    LINEAR_128_F32,
    LINEAR_64_BF16_E4M3,
    LINEAR_64_F32_E4M3,
    LINEAR_128_BF16_E4M3,
    LINEAR_128_F32_E4M3,
    LINEAR_WARPGROUPS_BF16,
    LINEAR_WARPGROUPS_F32,
    LINEAR_WARPGROUPS_BF16_E4M3,
    LINEAR_WARPGROUPS_F32_E4M3,
    QK_NORM_ROPE[0],
    QK_NORM_ROPE[1],
    QK_NORM_ROPE[2],
    QK_NORM_ROPE[3],
    ATTENTION[0],
    ATTENTION[1],
    ATTENTION[2],
    ATTENTION[3],
    INDEXER[0],
    INDEXER[1],
    INDEXER[2],
    INDEXER[3],
    BLOCK_SPARSE_ATTENTION[0],
    BLOCK_SPARSE_ATTENTION[1],
    BLOCK_SPARSE_ATTENTION[2],
    BLOCK_SPARSE_ATTENTION[3],
    ROUTER,
    MOE_16,
    MOE_64,
    MOE_16_E4M3,
    MOE_64_E4M3,
    MOE_WARPGROUPS,
    MOE_WARPGROUPS_E4M3,
    DENSE_FFN_16,
    DENSE_FFN_64,
    DENSE_FFN_16_E4M3,
    DENSE_FFN_64_E4M3,
    DENSE_FFN_WARPGROUPS,
    DENSE_FFN_WARPGROUPS_E4M3,
    SAMPLING,
    LAYER_NORM,
    GELU,
    LINEAR_BIAS_64,
    LINEAR_BIAS_128,
    LINEAR_BIAS_WARPGROUPS,
    ROPE,
    VISION_ATTENTION[0],
    VISION_ATTENTION[1],
    VISION_ATTENTION[2],
    VISION_ATTENTION[3],
    RESIDUAL,
    PATCH_EMBEDDING,
    MASKED_SCATTER,
    MTP,
    ALL_REDUCE,
];
