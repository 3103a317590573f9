//! What the optimized path may know of the reference: configurations, parameters and their checks, sites, weights and
//! the shared rotation tables. None of the mathematics.

pub use crate::accumulator::{Accumulator, TensorCore};
pub use crate::config::{Blocks, Coefficients, Config, FeedForward, Index, Quantization, Vision};
pub use crate::error::{ContractError, Error, WeightError, require};
pub use crate::grid::{Grid, segments};
pub use crate::matrix::{Encoding, Matrix, Scales};
pub use crate::media::{Media, Medium, Pixels};
pub use crate::models::mtp::ModuleWeights;
pub use crate::ops::add_rms_norm::AddRmsNorm;
pub use crate::ops::all_reduce::AllReduce;
pub use crate::ops::attention::Attention;
pub use crate::ops::axial_rope::{AxialRope, axial_rope};
pub use crate::ops::block_sparse_attention::BlockSparseAttention;
pub use crate::ops::embedding::Embedding;
pub use crate::ops::indexer::Indexer;
pub use crate::ops::layer_norm::LayerNorm;
pub use crate::ops::linear::Linear;
pub use crate::ops::linear_bias::LinearBias;
pub use crate::ops::masked_scatter::MaskedScatter;
pub use crate::ops::moe::{Moe, WithShared};
pub use crate::ops::mtp::check as mtp_check;
pub use crate::ops::patch_embedding::PatchEmbedding;
pub use crate::ops::residual::Residual;
pub use crate::ops::rms_norm::RmsNorm;
pub use crate::ops::rope::{Rope, RopeTable, rope_table};
pub use crate::ops::router::Router;
pub use crate::ops::vision_attention::VisionAttention;
pub use crate::order::{Lanes, Orders, PARITY as ORDERS, Tiles, WARP};
pub use crate::ranks::Ranks;
pub use crate::ranks::share::Share;
pub use crate::ranks::weights::RankWeights;
pub use crate::semantics::{
    AxialAxes, AxialOrder, AxialPair, ChunkTime, EpsPlace, GateClamp, Gelu, Module, MsaSelect, MtpFirstEmbedding,
    MtpHidden, MtpTopology, NormWeight, PatchOrder, QkNorm, RopePair, RopePart, Semantics, VisionSpan,
};
pub use crate::site::{Extent, LayerSite, ModuleSite, Site, VisionLayerSite, VisionSite};
pub use crate::weights::{
    LayerWeight, MtpWeight, Part, Projection, Stage, VisionLayerWeight, VisionWeight, Weight, Weights,
};
pub use crate::{Rounding, RoundingContract, Storage};
