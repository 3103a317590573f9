//! What an implementation chooses, field by field.

use strum::{Display, EnumString, VariantNames};

use crate::Storage;
use crate::storage::Tf32;

/// D10: whether a norm rounds before it multiplies by the weight, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RmsRound {
    /// Before the weight and after it: M2 in transformers.
    Two,
    /// After it: fused kernels, and M3.
    One,
}

/// How a chain of elementwise steps (a rotation, an activation) rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Chain {
    /// After every step.
    Each,
    /// Once, at the end.
    Once,
}

/// Where attention rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum AttentionRound {
    /// Scores, scaled scores and probabilities.
    Eager,
    /// The unnormalised probabilities, as the tensor cores' operand.
    Flash,
    /// The same with the exponential of torch's flash attention on a CPU, a cubic in place of a correctly rounded function.
    Sdpa,
    /// As flash, of keys and values in f16, and for fewer rows than a tile of a query and in a running sum of f16: llama.cpp's on a
    /// CPU. Attention to chosen blocks reads keys and values as the cache has them, and is so only if that is f16. From a cache of
    /// bf16 both read these, of a query in bf16.
    FlashF16,
    /// The query, and the probabilities after their division, as operands of matrix products in the type of keys and values:
    /// llama.cpp's without flash attention.
    Operands,
    /// As flash, of operands that are left as they are where those of other products are cast: kernels of their own, beside linear maps
    /// that tensor cores take in TF32.
    Uncast,
}

impl AttentionRound {
    /// What stands for the exponential, of queries, keys and values in a type.
    pub fn exponential(self, storage: Storage) -> Exponential {
        match (self, storage) {
            (
                AttentionRound::Eager
                | AttentionRound::Flash
                | AttentionRound::FlashF16
                | AttentionRound::Operands
                | AttentionRound::Uncast,
                _,
            )
            | (AttentionRound::Sdpa, Storage::Real) => Exponential::Library,
            (AttentionRound::Sdpa, Storage::F32 | Storage::Tf32(_)) => Exponential::Quintic,
            (AttentionRound::Sdpa, Storage::F16 | Storage::Bf16 | Storage::E4m3 | Storage::E5m2) => Exponential::Cubic,
        }
    }
}

/// What stands for an exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exponential {
    /// A function library's.
    Library,
    /// `exp_u20` of torch.
    Quintic,
    /// `fexp_u20` of torch.
    Cubic,
}

/// Keys that torch takes together; sixteen where the processor has AVX-512.
const LANES: usize = 8;

impl Exponential {
    /// That of a key among so many: what is left of them is a function library's.
    pub(crate) fn of_key(self, key: usize, keys: usize) -> Self {
        if key < keys - keys % LANES { self } else { Exponential::Library }
    }

    /// How far it may be off beyond a function library's last bits, relative to its value: of torch's, in `vec512_float.h`,
    /// measured over all arguments.
    pub fn off(self) -> f64 {
        match self {
            Exponential::Library => 0.0,
            Exponential::Quintic => 4.8e-7,
            Exponential::Cubic => 1.13e-4,
        }
    }
}

/// What an implementation makes of the checkpoint's weights when it loads them; the router's are [`GateRound`]'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum WeightCast {
    /// Nothing: they are held as they are stored.
    Stored,
    /// They are rounded to the activations' type: `from_pretrained(dtype=…)` in transformers, and engines that have one type.
    Activations,
    /// Matrices are rounded to f16, vectors are not: a GGUF file of f16.
    MatricesF16,
    /// Matrices that are quantized are rounded to bf16 once their scales are multiplied in, as loaders do that undo the quantization.
    DequantizedBf16,
}

/// What becomes of the other operand of a product with a quantized matrix (spec A30, A31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Inputs {
    /// Nothing: weights alone are quantized.
    Stored,
    /// It is quantized, too, as many channels of a row together as a block has, by a scale of their largest magnitude over 448.
    /// The matrix is not cast when it is loaded then.
    Fp8,
    /// By that scale rounded up to a power of two: MXFP8, and `DeepGEMM` on Blackwell.
    Fp8Powers,
}

/// Whether products are computed under `torch.autocast`, and in what: their operands are cast to that type as they are used, and
/// their results are of it. What follows takes the wider of the types that meet. Tensor cores that take f32 as TF32 cast operands
/// alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Autocast {
    /// They are not.
    Off,
    /// In bf16.
    Bf16,
    /// In f16.
    F16,
    /// In bf16, but for those of routed experts, whose grouped products autocast does not know.
    Bf16ButExperts,
    /// In f16, but for those of routed experts.
    F16ButExperts,
    /// In TF32, whose results are f32: to the nearest, ties to even.
    Tf32,
    /// In TF32, ties away from 0.
    Tf32Rna,
    /// In TF32, towards 0.
    Tf32Rz,
}

impl Autocast {
    /// The type of operands; [`Storage::Real`] where there is none.
    pub fn storage(self) -> Storage {
        match self {
            Autocast::Off => Storage::Real,
            Autocast::Tf32 => Storage::Tf32(Tf32::Rn),
            Autocast::Tf32Rna => Storage::Tf32(Tf32::Rna),
            Autocast::Tf32Rz => Storage::Tf32(Tf32::Rz),
            Autocast::Bf16 | Autocast::Bf16ButExperts => Storage::Bf16,
            Autocast::F16 | Autocast::F16ButExperts => Storage::F16,
        }
    }

    /// The type of results; [`Storage::Real`] where it is their own.
    pub fn results(self) -> Storage {
        if matches!(self.storage(), Storage::Tf32(_)) { Storage::Real } else { self.storage() }
    }

    /// The type of operands of routed experts' products.
    pub fn of_experts(self) -> Storage {
        match self {
            Autocast::Off | Autocast::Bf16ButExperts | Autocast::F16ButExperts => Storage::Real,
            Autocast::Bf16 | Autocast::F16 | Autocast::Tf32 | Autocast::Tf32Rna | Autocast::Tf32Rz => self.storage(),
        }
    }

    /// All products in a type.
    pub fn to(storage: Storage) -> Self {
        match storage {
            Storage::Bf16 => Autocast::Bf16,
            Storage::F16 => Autocast::F16,
            Storage::Tf32(Tf32::Rn) => Autocast::Tf32,
            Storage::Tf32(Tf32::Rna) => Autocast::Tf32Rna,
            Storage::Tf32(Tf32::Rz) => Autocast::Tf32Rz,
            Storage::Real | Storage::F32 | Storage::E4m3 | Storage::E5m2 => Autocast::Off,
        }
    }
}

/// D08: where the 1 of a norm's 1 + w is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum OnePlus {
    /// In f32, as the norm is computed, which rounds once then.
    Norm,
    /// In the weight's own type, when it is loaded; the norm goes on as with any weight.
    Weight,
}

/// D41: the router's weight and bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum GateRound {
    /// As stored: f32.
    Stored,
    /// Rounded to the activations' type, and the logits too: transformers loading in bf16.
    Activations,
    /// The bias rounded to the activations' type, the weight and the logits f32: transformers loading a quantized checkpoint,
    /// which keeps the weights of what is not quantized.
    Bias,
    /// The weight and the logits rounded to the activations' type, the bias f32: a buffer that is kept as it is stored.
    Product,
    /// Rounded to the activations' type, the logits f32: MLX converted to bf16, where the router reads x as f32.
    Weights,
}

/// D42: the routing weights where they meet the experts' outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoutingRound {
    /// f32.
    F32,
    /// Rounded to the activations' type (S4).
    Activations,
}

/// D43: how a token's experts are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ExpertSum {
    /// In f32, in the order of choice, rounded once.
    Once,
    /// In the activations' type, in ascending order of experts, rounded after each (S1 CH5.4, S4).
    Each,
    /// The same in any order: that in which a partial sort leaves them.
    EachUnordered,
    /// In the activations' type, in ascending order of experts, rounded after each sum alone: an f32 product that is added in place.
    Running,
    /// In f32, of products that are stored in the activations' type: fused kernels that reduce in a pass of their own.
    Products,
    /// The same, of products with an expert's output as it is summed up, before that is stored: the epilogue of a fused kernel.
    Weighted,
    /// In f32, in the order of choice, rounded once, and an expert's output is not stored before: all of it in one contraction.
    Whole,
}

/// What each of several ranks has of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Sharded {
    /// Some heads, some channels of dense networks, and some experts, whole.
    Experts,
    /// The same, but of each expert some channels.
    Channels,
    /// Some experts alone; all else is computed whole, of a rank's own tokens.
    ExpertsAlone,
}

/// How gate and up projection and their activation round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ActivationRound {
    /// The projections are stored, and every step of the activation.
    Each,
    /// The same, and the sigmoid within SiLU is a step of its own.
    Sigmoid,
    /// The projections are stored; the activation rounds once, at its end.
    Stored,
    /// Once, after projections and activation.
    Once,
}

/// D60: what a norm after a residual addition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormInput {
    /// The sum as it is stored.
    Stored,
    /// The sum before it is rounded for storing.
    Sum,
    /// The same within a layer, and the layer's second addition reads that sum, too, in one kernel, which stores what others
    /// read, but goes on from what it has. What an addition takes may itself be such a value, and is then known to half a step
    /// alone.
    Fused,
}
