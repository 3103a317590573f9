//! What the optimized path may know of the reference: configurations, parameters and their checks, sites, weights and
//! the shared rotation table. None of the mathematics.

pub use crate::config::{Config, FeedForward, Index};
pub use crate::error::{ContractError, Error, require};
pub use crate::ops::indexer::Blocks;
pub use crate::ops::masked_scatter::MaskedScatter;
pub use crate::ops::patch_embedding::PatchEmbedding;
pub use crate::ops::rope::{Rope, rope_table};
pub use crate::ops::swiglu_oai::Coefficients;
pub use crate::semantics::{GateClamp, Gelu, MsaSelect, NormWeight, PatchOrder, QkNorm, RopePair, RopePart, Semantics};
pub use crate::site::{Extent, LayerSite, Site};
pub use crate::weights::{LayerWeight, Matrix, Projection, Weight, WeightError, Weights};
pub use crate::{RoundingContract, Storage};
