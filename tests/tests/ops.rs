//! The operators, one by one. Each file holds one together: laws, rounding points, bound with a witness, constraints.

mod add_rms_norm;
mod attention;
mod axial_rope;
mod block_sparse_attention;
mod dense_ffn;
mod embedding;
mod gelu;
mod indexer;
mod kv_cache;
mod layer_norm;
mod linear;
mod linear_bias;
mod masked_scatter;
mod moe;
mod patch_embedding;
mod patch_merge;
mod qk_norm;
mod qk_norm_rope;
mod residual;
mod rms_norm;
mod rope;
mod router;
mod sampling;
mod swiglu;
mod swiglu_oai;
mod vision_attention;
