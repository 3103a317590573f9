//! The operators, one by one. Each file holds one together: laws, rounding points, bound with a witness, constraints.

mod add_rms_norm;
mod attention;
mod block_sparse_attention;
mod dense_ffn;
mod embedding;
mod indexer;
mod kv_cache;
mod linear;
mod moe;
mod qk_norm;
mod qk_norm_rope;
mod residual;
mod rms_norm;
mod rope;
mod router;
mod sampling;
mod swiglu;
mod swiglu_oai;
