//! Precision profiles: what a right run of an engine rounds, and where, by engine and mode.
//!
//! Nothing else can be found in a dump whose precision is not said: a value of a field that no profile documents is a mistake,
//! however well it would fit.

use std::fmt;
use std::str::FromStr;

use crate::Storage;
use crate::error::ParseError;
use crate::rounding::{
    ActivationRound, AttentionRound, Autocast, Chain, ExpertSum, GateRound, NormInput, OnePlus, RmsRound,
    RoundingContract, RoutingRound, WeightCast,
};

/// What right runs of an engine round.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Its name, a value of `--precision`.
    pub name: &'static str,
    /// What a manifest calls its `producer`, in lower case.
    pub engine: &'static str,
    /// What its default mode rounds.
    pub contract: RoundingContract,
    /// The points on which its documented modes differ, each with the other ways: what `--precision` takes after the name.
    pub modes: &'static [&'static [&'static str]],
    /// Where this is documented.
    pub source: &'static str,
}

/// transformers: everything is cast when it is loaded, the router too unless it is kept in f32 (`_keep_in_fp32_modules`), or its bias
/// is; every step is stored; experts are added in f32 unless `experts_implementation` is eager.
const TRANSFORMERS: RoundingContract = RoundingContract {
    weights: WeightCast::Activations,
    gate: GateRound::Activations,
    experts: ExpertSum::Once,
    attention: AttentionRound::Sdpa,
    ..RoundingContract::EAGER_BF16
};

/// Of quantized checkpoints on a GPU: transformers' `finegrained_fp8.py`, vLLM's `fp8_utils.py`, `SGLang`'s `fp8_kernel.py`.
const QUANTIZED: &[&str] = &["inputs=fp8", "inputs=fp8_powers"];

/// Keys and values in eight bits without a scale, or of a scale of 1, which is the default.
const CACHED: &[&str] = &["kv_cache=e4m3", "kv_cache=e5m2"];

/// Under tensor parallelism: transformers' `RowwiseParallel`.
const RANKS: &[&str] = &["ranks=2", "ranks=4", "ranks=8"];

/// Under that of vLLM's and `SGLang`'s `RowParallelLinear`: experts are shared whole under expert parallelism, else by their channels;
/// attention is not shared where it is data-parallel.
const SHARDED: &[&str] = &[
    "ranks=2,sharded=experts",
    "ranks=4,sharded=experts",
    "ranks=8,sharded=experts",
    "ranks=2,sharded=channels",
    "ranks=4,sharded=channels",
    "ranks=8,sharded=channels",
    "ranks=2,sharded=experts_alone",
    "ranks=4,sharded=experts_alone",
    "ranks=8,sharded=experts_alone",
];

/// With kernels from the hub in place of its modules (`use_kernel_forward_from_hub`), or Liger's, norms, rotation and SwiGLU each
/// compute in f32 and round once. The model's own code on the hub (`trust_remote_code`) casts routing weights before the experts. With
/// flashinfer's fused sum and norm, norms read the sum before it is stored; Liger's reads it as it is stored.
const TRANSFORMERS_MODES: &[&[&str]] = &[
    &["attention=eager", "attention=flash"],
    &["gate=stored", "gate=bias", "gate=product"],
    &["experts=each"],
    &["routing=activations"],
    &["rms=one"],
    &["qk_rms=one"],
    &["norm_input=sum"],
    &["rope=once"],
    &["swiglu=stored"],
    RANKS,
    QUANTIZED,
    CONVOLUTIONS,
];

/// `torch.backends.cudnn.allow_tf32`, which is on unless someone turns it off.
const CONVOLUTIONS: &[&str] = &["convolutions=tf32", "convolutions=tf32_rz"];

const TRANSFORMERS_SOURCE: &str = "transformers 5.23: modeling_minimax_m2.py, modeling_minimax_m3_vl.py, \
                                   integrations/moe.py, integrations/hub_kernels.py; torch 2.15: docs/source/notes/cuda.rst; \
                                   the hub's modeling_minimax_m2.py; \
                                   Liger-Kernel: ops/rms_norm.py, rope.py, swiglu.py; \
                                   flashinfer: include/flashinfer/norm.cuh, FusedAddRMSNormKernel; \
                                   torch's scaled_dot_product_attention on a CPU";

/// A model in f32 under `torch.autocast`: linear maps, convolutions, `matmul` and attention cast what they take, also weights, and give
/// its type; norms, rotation, softmax and the residual stream stay in f32, and an activation is of its inputs' type. `grouped_mm`,
/// by which experts are computed unless `experts_implementation` says otherwise, is not cast.
const fn autocast(autocast: Autocast) -> RoundingContract {
    RoundingContract { autocast, ..TRANSFORMERS }
}

/// A model in bf16 or f16 whose residual stream stays in f32: a port's, or an engine's.
const F32_RESIDUAL: RoundingContract = RoundingContract { stream: Storage::F32, ..TRANSFORMERS };

const F32_RESIDUAL_SOURCE: &str = "Megatron-LM core_r0.15: transformer_config.py, fp32_residual_connection; flash-attn: \
                                   modules/block.py, residual_in_fp32; between its sums as transformers and ports";

/// The same under `torch.compile`: what stands between two products is fused, computes in f32 and rounds what it stores.
const COMPILED: RoundingContract = RoundingContract {
    attention: AttentionRound::Sdpa,
    gate: GateRound::Activations,
    swiglu: ActivationRound::Stored,
    norm_input: NormInput::Fused,
    ..RoundingContract::FUSED
};

const COMPILED_MODES: &[&[&str]] = &[&["attention=eager", "attention=flash"], &["gate=stored", "gate=product"]];

const COMPILED_SOURCE: &str = "torch 2.15: _inductor/lowering.py and codegen/cpp.py, which compute narrow types in f32 \
                               (`emulate_precision_casts` is off), over transformers 5.23's modeling_minimax_m2.py and \
                               modeling_minimax_m3_vl.py";

/// A model in f32 whose products take TF32, as tensor cores do after `torch.set_float32_matmul_precision("high")`, or in JAX. To which
/// TF32 is a kernel's own, and attention may have kernels that take f32 in parts.
const TF32: RoundingContract = RoundingContract { attention: AttentionRound::Flash, ..autocast(Autocast::Tf32) };

const TF32_MODES: &[&[&str]] = &[&["attention=eager", "attention=uncast"], &["autocast=tf32_rz"]];

const TF32_SOURCE: &str = "torch 2.15: docs/source/notes/cuda.rst and numerical_accuracy.rst, by which inputs of products are rounded to \
                           10 bits of mantissa, over transformers 5.23's modeling_minimax_m2.py and modeling_minimax_m3_vl.py; CUTLASS: \
                           tfloat32.h, half an ulp and then truncated, and PTX's wgmma, which ignores the low bits";

const AUTOCAST_BF16_MODES: &[&[&str]] = &[&["attention=eager", "attention=flash"], &["autocast=bf16"]];

const AUTOCAST_F16_MODES: &[&[&str]] = &[&["attention=eager", "attention=flash"], &["autocast=f16"]];

const AUTOCAST_SOURCE: &str = "torch.autocast's lists of operators (torch 2.11: aten/src/ATen/autocast_mode.h), under which transformers \
                               5.23 runs modeling_minimax_m2.py, modeling_minimax_m3_vl.py and integrations/moe.py";

/// Ports written by hand in JAX or PyTorch, of a model in bf16 or f16: as transformers, but for what a contraction, a reduction or the
/// promotion of types leaves unrounded, or a function of the framework rounds itself.
const PORT_MODES: &[&[&str]] = &[
    &["attention=eager", "attention=flash", "attention=operands"],
    &["gate=stored", "gate=bias", "gate=product"],
    &["experts=each", "experts=products", "experts=weighted", "experts=running", "experts=whole"],
    &["routing=activations"],
    &["rms=one"],
    &["qk_rms=one"],
    &["norm_input=sum"],
    &["rope=once"],
    &["swiglu=stored", "swiglu=sigmoid"],
    SHARDED,
    QUANTIZED,
    CACHED,
];

const PORT_SOURCE: &str = "jax: _src/nn/functions.py, whose dot_product_attention has scores and softmax in f32 and probabilities in the \
                           values' type, and whose silu is x times a sigmoid of x's type; jax.numpy.einsum's preferred_element_type; \
                           torch: a sum over bf16 is in f32 (aten/src/ATen/native/ReduceOps.cpp), an f32 product that is added in \
                           place to a bf16 tensor is rounded with the sum (TensorIterator's promotion of types)";

/// The same in f32, where keys and values alone may be narrower, or what quantized matrices were made to.
const PORT_F32_MODES: &[&[&str]] =
    &[&["kv_cache=f16", "kv_cache=bf16"], &["attention=eager", "attention=flash"], &["weights=dequantized_bf16"]];

const PORT_F32_SOURCE: &str = "llama.cpp: --cache-type-k and --cache-type-v, f16 by default; transformers 5.23: \
                               integrations/finegrained_fp8.py, which dequantizes to bf16";

/// vLLM: the router in f32; norms read the sum before it is stored; an expert's weighted output is stored, then added in f32.
const VLLM: RoundingContract = RoundingContract {
    weights: WeightCast::Activations,
    qk_rms: RmsRound::One,
    norm_input: NormInput::Sum,
    attention: AttentionRound::Flash,
    swiglu: ActivationRound::Stored,
    experts: ExpertSum::Products,
    ..RoundingContract::EAGER_BF16
};

/// The native and the CUDA form of each of its operators.
const VLLM_MODES: &[&[&str]] = &[
    &["rms=one"],
    &["norm_input=stored"],
    &["rope=once"],
    &["qk_norm=once"],
    &["attention=sdpa"],
    &["swiglu=each"],
    &["experts=once", "experts=weighted"],
    SHARDED,
    QUANTIZED,
    CACHED,
];

const VLLM_SOURCE: &str = "vLLM 0.33: ir/ops/layernorm.py, csrc/layernorm_kernels.cu, layers/minimax_rms_norm, \
                           layers/rotary_embedding, layers/fused_moe; --kv-cache-dtype fp8, fp8_e5m2";

/// `SGLang`: the router in f32; M2's norms read the sum before it is stored, M3's as it is stored, and round once.
const SGLANG: RoundingContract = RoundingContract {
    weights: WeightCast::Activations,
    rms: RmsRound::One,
    qk_rms: RmsRound::One,
    norm_input: NormInput::Sum,
    attention: AttentionRound::Sdpa,
    experts: ExpertSum::Once,
    ..RoundingContract::EAGER_BF16
};

const SGLANG_MODES: &[&[&str]] = &[
    &["norm_input=stored"],
    &["rope=once"],
    &["qk_norm=once"],
    &["attention=flash"],
    &["swiglu=stored"],
    &["experts=products", "experts=weighted"],
    SHARDED,
    QUANTIZED,
    CACHED,
];

const SGLANG_SOURCE: &str = "SGLang 0.5.23: layers/layernorm.py, models/minimax_m2.py, models/minimax_m3.py, \
                             layers/moe/fused_moe_native.py";

/// MLX: norms round before and after their weight, of which M3's 1 + w is rounded, too; other operators once; experts are weighted
/// and added in the activations' type. The processor's rotation rounds each step.
const MLX: RoundingContract = RoundingContract {
    one_plus: OnePlus::Weight,
    routing: RoutingRound::Activations,
    experts: ExpertSum::EachUnordered,
    rope: Chain::Once,
    qk_norm: Chain::Each,
    attention: AttentionRound::Flash,
    ..RoundingContract::EAGER_BF16
};

const MLX_MODES: &[&[&str]] =
    &[&["rope=each"], &["weights=activations"], &["gate=activations", "gate=weights", "gate=product"]];

const MLX_SOURCE: &str = "mlx 0.32: fast.cpp, metal/kernels/rms_norm.metal, rope.metal; mlx-lm 0.32 models/minimax.py, \
                          mlx-vlm 0.7 minimax_m3_vl";

/// llama.cpp: f32 activations; operands of products in the type of the weights' file, keys and values in f16 by default.
const LLAMA_CPP: RoundingContract =
    RoundingContract { attention: AttentionRound::Flash, experts: ExpertSum::Once, ..RoundingContract::EAGER_F32 };

/// Operands are f16 where matrices are, all of them. Flash attention reads keys and values in f16 or bf16 alone; without it, the
/// cache's type is that of the products.
const LLAMA_CPP_MODES: &[&[&str]] = &[
    &["operands=bf16", "operands=f16,weights=matrices_f16"],
    &[
        "attention=flash_f16",
        "attention=flash_f16,kv_cache=f16",
        "attention=flash_f16,kv_cache=bf16",
        "attention=operands,kv_cache=f16",
        "attention=operands,kv_cache=bf16",
    ],
    &["weights=matrices_f16"],
    &["one_plus=weight"],
];

const LLAMA_CPP_SOURCE: &str = "llama.cpp (llama-cpp-python 0.3.36): ggml-cpu.c vec_dot_type, ops.cpp flash_attn_ext, \
                                llama-graph.cpp, conversion/minimax.py";

const fn of(
    (name, engine): (&'static str, &'static str),
    activations: Storage,
    contract: RoundingContract,
    (modes, source): (&'static [&'static [&'static str]], &'static str),
) -> Profile {
    Profile { name, engine, contract: RoundingContract { activations, ..contract }, modes, source }
}

/// Every profile, the likeliest first. In f32 all of them are one, but for the order of sums and where operands are narrower.
pub const PROFILES: [Profile; 21] = [
    of(("transformers_bf16", "transformers"), Storage::Bf16, TRANSFORMERS, (TRANSFORMERS_MODES, TRANSFORMERS_SOURCE)),
    of(("transformers_f16", "transformers"), Storage::F16, TRANSFORMERS, (TRANSFORMERS_MODES, TRANSFORMERS_SOURCE)),
    of(("transformers_f32", "transformers"), Storage::F32, TRANSFORMERS, (TRANSFORMERS_MODES, TRANSFORMERS_SOURCE)),
    // Norms and the router are in f32 there, which is what sums are bounded by; in f64 no rounding is seen, and no mode.
    of(("transformers_f64", "transformers"), Storage::Real, TRANSFORMERS, (&[], TRANSFORMERS_SOURCE)),
    of(
        ("transformers_autocast_bf16", "transformers"),
        Storage::F32,
        autocast(Autocast::Bf16ButExperts),
        (AUTOCAST_BF16_MODES, AUTOCAST_SOURCE),
    ),
    of(
        ("transformers_autocast_f16", "transformers"),
        Storage::F32,
        autocast(Autocast::F16ButExperts),
        (AUTOCAST_F16_MODES, AUTOCAST_SOURCE),
    ),
    of(("transformers_compiled_bf16", "transformers"), Storage::Bf16, COMPILED, (COMPILED_MODES, COMPILED_SOURCE)),
    of(("transformers_compiled_f16", "transformers"), Storage::F16, COMPILED, (COMPILED_MODES, COMPILED_SOURCE)),
    of(("f32_residual_bf16", "megatron"), Storage::Bf16, F32_RESIDUAL, (PORT_MODES, F32_RESIDUAL_SOURCE)),
    of(("f32_residual_f16", "megatron"), Storage::F16, F32_RESIDUAL, (PORT_MODES, F32_RESIDUAL_SOURCE)),
    of(("transformers_tf32", "transformers"), Storage::F32, TF32, (TF32_MODES, TF32_SOURCE)),
    of(("llama_cpp", "llama"), Storage::F32, LLAMA_CPP, (LLAMA_CPP_MODES, LLAMA_CPP_SOURCE)),
    of(("vllm_bf16", "vllm"), Storage::Bf16, VLLM, (VLLM_MODES, VLLM_SOURCE)),
    of(("vllm_f16", "vllm"), Storage::F16, VLLM, (VLLM_MODES, VLLM_SOURCE)),
    of(("sglang_bf16", "sglang"), Storage::Bf16, SGLANG, (SGLANG_MODES, SGLANG_SOURCE)),
    of(("sglang_f16", "sglang"), Storage::F16, SGLANG, (SGLANG_MODES, SGLANG_SOURCE)),
    of(("mlx_bf16", "mlx"), Storage::Bf16, MLX, (MLX_MODES, MLX_SOURCE)),
    of(("mlx_f16", "mlx"), Storage::F16, MLX, (MLX_MODES, MLX_SOURCE)),
    of(("port_bf16", "hand-written port"), Storage::Bf16, TRANSFORMERS, (PORT_MODES, PORT_SOURCE)),
    of(("port_f16", "hand-written port"), Storage::F16, TRANSFORMERS, (PORT_MODES, PORT_SOURCE)),
    of(("port_f32", "hand-written port"), Storage::F32, TRANSFORMERS, (PORT_F32_MODES, PORT_F32_SOURCE)),
];

impl Profile {
    /// The one that a contract is nearest to.
    pub fn closest(contract: &RoundingContract) -> &'static Profile {
        let distance = |profile: &&Profile| differing(contract, &profile.contract).len();
        PROFILES.iter().min_by_key(distance).expect("there are profiles")
    }
}

/// The fields of a contract that are not another's, with their values.
fn differing(contract: &RoundingContract, from: &RoundingContract) -> Vec<(&'static str, String)> {
    let pairs = contract.fields().into_iter().zip(from.fields());
    pairs.filter(|(own, other)| own != other).map(|(own, _)| own).collect()
}

/// Presets and profiles, by name.
fn named() -> impl Iterator<Item = (&'static str, RoundingContract)> {
    RoundingContract::PRESETS.into_iter().chain(PROFILES.iter().map(|p| (p.name, p.contract)))
}

/// `PRESET[,field=value]…`.
impl FromStr for RoundingContract {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let mut parts = s.split(',');
        let name = parts.next().unwrap_or_default();
        let preset = named().find(|(preset, _)| *preset == name).map(|(_, contract)| contract);
        let preset = preset.ok_or_else(|| {
            let names: Vec<&str> = named().map(|(name, _)| name).collect();
            ParseError::new("precision", name, format!("one of {}", names.join(", ")))
        })?;
        parts.try_fold(preset, RoundingContract::with_override)
    }
}

impl RoundingContract {
    /// The same contract in another way, `field=value[,field=value]…`.
    pub fn in_way(self, way: &str) -> Result<Self, ParseError> {
        way.split(',').try_fold(self, RoundingContract::with_override)
    }

    fn with_override(self, part: &str) -> Result<Self, ParseError> {
        match part.split_once('=') {
            Some((field, value)) => self.with(field, value),
            None => Err(ParseError::new("precision override", part, "field=value")),
        }
    }
}

/// The closest preset and what differs from it, in the form that parses.
impl fmt::Display for RoundingContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of equals, an engine's profile is told, not the preset that it is made from.
        let is_base = |name: &str| name.starts_with("eager_");
        let distance = |(name, preset): &(&str, RoundingContract)| (differing(self, preset).len(), is_base(name));
        let (name, closest) = named().min_by_key(distance).expect("there are presets");
        f.write_str(name)?;
        differing(self, &closest).into_iter().try_for_each(|(field, value)| write!(f, ",{field}={value}"))
    }
}
