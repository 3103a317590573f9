//! The operators, in the order in which a token meets them. Each file states its equation, shapes, dtypes, rounding
//! points, constraints and source, and carries its error bound.

pub mod embedding;
pub mod rms_norm;
pub mod linear;
pub mod qk_norm;
pub mod sharded_norm;
pub mod rope;
pub mod kv_cache;
pub mod qk_norm_rope;
pub mod attention;
pub mod indexer;
pub mod block_sparse_attention;
pub mod all_reduce;
pub mod residual;
pub mod add_rms_norm;
pub mod router;
pub mod swiglu;
pub mod swiglu_oai;
pub mod dense_ffn;
pub mod moe;
pub mod mtp;
pub mod sampling;
pub mod patch_embedding;
pub mod layer_norm;
pub mod linear_bias;
pub mod axial_rope;
pub mod vision_attention;
pub mod gelu;
pub mod patch_merge;
pub mod masked_scatter;
pub mod lightning_attention;
pub mod gated_lightning;
pub mod hybrid_attention;
pub mod router_jitter;
pub mod load_balancing;
pub mod policy_gradient;
