//! The operators' kernels, a file each: on the emulated device, or on a GPU.

mod add_rms_norm;
mod attention;
mod block_sparse_attention;
mod dense_ffn;
mod embedding;
mod indexer;
mod linear;
mod moe;
mod qk_norm_rope;
mod rms_norm;
mod router;
mod sampling;
mod patch_embedding;
mod layer_norm;
mod linear_bias;
mod rope;
mod vision_attention;
mod gelu;
mod residual;
mod masked_scatter;
mod mtp;
mod all_reduce;
