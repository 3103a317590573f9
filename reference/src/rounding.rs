//! Rounding contracts: after which operator a value is rounded, to what, and how sums are accumulated.
//!
//! Two correct implementations differ by their contracts (SPEC G7). The truth rounds nowhere: [`RoundingContract::IDEAL`].
//! The points on which the documents and engines place a rounding differently are enums labelled as in part D.

mod activation;
mod choices;
mod fields;
mod held;
mod quantized;

pub use choices::{
    ActivationRound, AttentionRound, Autocast, Chain, ExpertSum, Exponential, GateRound, Inputs, NormInput, OnePlus,
    RmsRound, RoutingRound, Sharded, WeightCast,
};

pub use held::Held;

use self::held::coarser;
use crate::accumulator::{Accumulator, TensorCore};
use crate::order::{Lanes, Order};
use crate::reduction::Reduction;
use crate::storage::Mode;
use crate::{Real, Rounding, Storage};

/// How an implementation rounds and accumulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundingContract {
    /// What activations are stored in.
    pub activations: Storage,
    /// To nearest, or stochastically to measure a noise floor.
    pub mode: Mode,
    /// How dot products are summed; also says in what elementwise arithmetic is done.
    pub accumulator: Accumulator,
    /// In what order a norm sums a row.
    pub reduction: Reduction,
    /// What the residual stream is kept in between blocks; [`Storage::Real`] where it is the activations' type.
    pub stream: Storage,
    /// What becomes of weights when they are loaded.
    pub weights: WeightCast,
    /// Where the 1 of a norm's 1 + w is added.
    pub one_plus: OnePlus,
    /// What the other operand of a product with a weight is rounded to; [`Storage::Real`] where it is taken as it is. The
    /// router's is.
    pub operands: Storage,
    /// What becomes of that operand, too, where the weight is quantized.
    pub inputs: Inputs,
    /// Whether products are computed in a narrower type than the rest.
    pub autocast: Autocast,
    /// What a convolution, vision's patch embedding, takes its operands as; [`Storage::Real`] where it is as other products.
    pub convolutions: Storage,
    /// What keys and values are kept in, the index branch's too; [`Storage::Real`] where it is the activations' type.
    pub kv_cache: Storage,
    /// D10, of the norms of the residual stream.
    pub rms: RmsRound,
    /// D10, of the query and key norms.
    pub qk_rms: RmsRound,
    /// Whether the query and key norms' outputs are stored, or go into the rotation as they are.
    pub qk_norm: Chain,
    /// How a rotation rounds, and whether its table is stored as the activations are.
    pub rope: Chain,
    /// Where attention rounds.
    pub attention: AttentionRound,
    /// D41.
    pub gate: GateRound,
    /// D42.
    pub routing: RoutingRound,
    /// How an activation of a feed-forward network rounds.
    pub swiglu: ActivationRound,
    /// D43.
    pub experts: ExpertSum,
    /// D60.
    pub norm_input: NormInput,
    /// How many ranks share what goes into the residual stream: each stores its part of the attention's and the dense networks'
    /// output, and of its experts'; these are added up, and each sum is stored.
    pub ranks: usize,
    /// What they have each.
    pub sharded: Sharded,
    /// What values were converted to when they were saved, after all was computed; [`Storage::Real`] where they are shown as they
    /// were.
    pub saved: Storage,
}

impl RoundingContract {
    /// Rounds nowhere; f64 arithmetic.
    pub const IDEAL: RoundingContract = RoundingContract {
        activations: Storage::Real,
        mode: Mode::Nearest,
        accumulator: Accumulator::F64,
        reduction: Reduction::Any,
        stream: Storage::Real,
        weights: WeightCast::Stored,
        one_plus: OnePlus::Norm,
        operands: Storage::Real,
        inputs: Inputs::Stored,
        autocast: Autocast::Off,
        convolutions: Storage::Real,
        kv_cache: Storage::Real,
        rms: RmsRound::One,
        qk_rms: RmsRound::One,
        qk_norm: Chain::Once,
        rope: Chain::Once,
        attention: AttentionRound::Flash,
        gate: GateRound::Stored,
        routing: RoutingRound::F32,
        swiglu: ActivationRound::Once,
        experts: ExpertSum::Once,
        norm_input: NormInput::Stored,
        ranks: 1,
        sharded: Sharded::Experts,
        saved: Storage::Real,
    };

    /// Fused kernels on any device: bf16 between kernels, f32 within.
    pub const FUSED: RoundingContract = RoundingContract {
        activations: Storage::Bf16,
        weights: WeightCast::Activations,
        accumulator: Accumulator::Unknown,
        ..RoundingContract::IDEAL
    };

    /// Our own CUDA path: fused kernels, of which the sums are known.
    pub const PARITY: RoundingContract = RoundingContract {
        accumulator: Accumulator::HOPPER_512,
        reduction: Reduction::Parity,
        ..RoundingContract::FUSED
    };

    /// transformers with eager attention and eager experts, in bf16, on any device.
    pub const EAGER_BF16: RoundingContract = RoundingContract {
        activations: Storage::Bf16,
        mode: Mode::Nearest,
        accumulator: Accumulator::Unknown,
        reduction: Reduction::Any,
        stream: Storage::Real,
        weights: WeightCast::Stored,
        one_plus: OnePlus::Norm,
        operands: Storage::Real,
        inputs: Inputs::Stored,
        autocast: Autocast::Off,
        convolutions: Storage::Real,
        kv_cache: Storage::Real,
        rms: RmsRound::Two,
        qk_rms: RmsRound::Two,
        qk_norm: Chain::Each,
        rope: Chain::Each,
        attention: AttentionRound::Eager,
        gate: GateRound::Stored,
        routing: RoutingRound::F32,
        swiglu: ActivationRound::Each,
        experts: ExpertSum::Each,
        norm_input: NormInput::Stored,
        ranks: 1,
        sharded: Sharded::Experts,
        saved: Storage::Real,
    };

    /// The same in f32.
    pub const EAGER_F32: RoundingContract =
        RoundingContract { activations: Storage::F32, ..RoundingContract::EAGER_BF16 };

    /// The same in f16.
    pub const EAGER_F16: RoundingContract =
        RoundingContract { activations: Storage::F16, ..RoundingContract::EAGER_BF16 };

    /// Names of the presets that no engine's profile is.
    pub const PRESETS: [(&'static str, RoundingContract); 6] = [
        ("ideal", RoundingContract::IDEAL),
        ("parity", RoundingContract::PARITY),
        ("fused", RoundingContract::FUSED),
        ("eager_bf16", RoundingContract::EAGER_BF16),
        ("eager_f16", RoundingContract::EAGER_F16),
        ("eager_f32", RoundingContract::EAGER_F32),
    ];

    /// The rounding of an activation that is stored.
    pub fn stored(&self) -> Rounding {
        Rounding { storage: self.activations, mode: self.mode }
    }

    /// The rounding of the residual stream between blocks.
    pub fn streamed(&self) -> Rounding {
        let storage = if self.stream == Storage::Real { self.activations } else { self.stream };
        Rounding { storage, mode: self.mode }
    }

    /// The coarsest type that values are shown in: what activations are stored in, products under autocast, or what all were converted
    /// to.
    pub fn shown(&self) -> Storage {
        coarser(coarser(self.activations, self.autocast.results()), self.saved)
    }

    /// The same where products are computed, in the type that autocast has for them, if there is one.
    #[must_use]
    pub fn of_products(self) -> Self {
        self.casting(self.autocast.storage())
    }

    /// The same of the products of routed experts.
    #[must_use]
    pub fn of_experts(self) -> Self {
        self.casting(self.autocast.of_experts())
    }

    fn casting(self, storage: Storage) -> Self {
        let own = RoundingContract { autocast: Autocast::Off, ..self };
        match storage {
            Storage::Real => own,
            Storage::Tf32(_) => RoundingContract { operands: storage, ..own },
            storage => RoundingContract { activations: storage, operands: storage, ..own },
        }
    }

    /// What the keys of attention and of the index branch are taken in, and values; [`Storage::Real`] where as they are.
    pub fn cached(&self) -> Storage {
        if self.autocast == Autocast::Off { self.kv_cache } else { self.autocast.storage() }
    }

    /// What a convolution takes its operands as; [`Storage::Real`] where as they are.
    pub fn convolved(&self) -> Storage {
        coarser(self.autocast.storage(), self.convolutions)
    }

    /// The rounding between two steps of a chain.
    pub fn between(&self, chain: Chain) -> Rounding {
        match chain {
            Chain::Each => self.stored(),
            Chain::Once => Rounding::NONE,
        }
    }

    /// u of elementwise arithmetic.
    pub fn unit(&self) -> f64 {
        match self.accumulator {
            Accumulator::F64 => f64::UNIT_ROUNDOFF,
            _ => f32::UNIT_ROUNDOFF,
        }
    }

    /// The accumulator of sums that are not a tensor core's.
    pub fn scalar_accumulator(&self) -> Accumulator {
        match self.accumulator {
            Accumulator::F64 | Accumulator::Unknown => self.accumulator,
            Accumulator::F32 | Accumulator::F32Flushed | Accumulator::TensorCore(_) => Accumulator::F32,
        }
    }

    /// The same contract with stochastic rounding.
    #[must_use]
    pub fn stochastic(mut self, seed: u64) -> Self {
        self.mode = Mode::Stochastic(seed);
        self
    }

    /// The same contract with sums in another order, drawn at random; whatever is rounded is rounded to the nearest.
    #[must_use]
    pub fn reordered(mut self, seed: u64) -> Self {
        self.mode = Mode::Sums(seed);
        self
    }

    /// The same contract in a run whose sums are in the order that it fixes; `None` where it fixes none.
    pub fn ordered(mut self) -> Option<Self> {
        let steps = matches!(self.accumulator, Accumulator::TensorCore(TensorCore { promote: Some(_), .. }));
        let own = self.reduction == Reduction::Parity && self.ranks == 1 && self.saved == Storage::Real;
        let fixed = own && steps && self.attention == AttentionRound::Flash;
        self.mode = Mode::Ordered;
        fixed.then_some(self)
    }

    /// The same of attention, whose operands may be left as they are where those of other products are cast.
    #[must_use]
    pub fn of_attention(self) -> Self {
        match self.attention {
            AttentionRound::Uncast => {
                RoundingContract { attention: AttentionRound::Flash, autocast: Autocast::Off, ..self }
            }
            _ => self,
        }
    }

    /// The same for attention to chosen blocks, or to all keys. Flash attention in f16 casts an f32 cache to f16, but for blocks it
    /// reads that as it is, and is in f32 then.
    #[must_use]
    pub fn attending(self, to_blocks: bool) -> Self {
        match (self.attention, self.kv_cache, to_blocks) {
            (AttentionRound::Uncast, ..) => self.of_attention(),
            (AttentionRound::FlashF16, Storage::Real, false) => RoundingContract { kv_cache: Storage::F16, ..self },
            (AttentionRound::FlashF16, Storage::Real, true) => {
                RoundingContract { attention: AttentionRound::Flash, ..self }
            }
            _ => self,
        }
    }

    /// What a query is rounded to before its products with keys: the type of these, where a product takes both in one;
    /// [`Storage::Real`] where it is taken as it is.
    pub fn query(&self) -> Storage {
        match self.attention {
            _ if self.autocast != Autocast::Off => self.autocast.storage(),
            AttentionRound::FlashF16 | AttentionRound::Operands => self.kv_cache,
            AttentionRound::Eager | AttentionRound::Flash | AttentionRound::Sdpa | AttentionRound::Uncast => {
                Storage::Real
            }
        }
    }

    /// What the running sum of values is kept in; [`Storage::Real`] where that is the arithmetic's type.
    pub fn running_sum(&self) -> Storage {
        match (self.attention, self.kv_cache) {
            (AttentionRound::FlashF16, Storage::F16) => Storage::F16,
            _ => Storage::Real,
        }
    }

    /// The order of products with weights, of scores, and of weighted values.
    pub fn products(&self) -> Order {
        match (self.mode, self.accumulator) {
            (Mode::Ordered, Accumulator::TensorCore(core)) => Order::Steps(core),
            _ => Order::Any,
        }
    }

    /// The order of a sum that no tensor core takes.
    pub fn lanes(&self, lanes: Lanes) -> Order {
        if self.mode == Mode::Ordered { Order::Lanes(lanes) } else { Order::Any }
    }

    /// What the weights are held in, the router's and all others; [`Storage::Real`] where they are held as stored.
    pub fn held(&self) -> Held {
        Held::of(self.activations, (self.weights, self.gate), self.inputs, (self.autocast, self.convolved()))
    }

    /// Whether something is taken in a narrower type than activations are stored in: an operand of products, keys and values,
    /// or matrices as they are loaded.
    pub fn narrows(&self) -> bool {
        let narrower = |storage: Storage| storage.unit_roundoff() > self.activations.unit_roundoff();
        let taken = [self.operands, self.convolved(), self.attending(false).kv_cache, self.held().others];
        self.inputs != Inputs::Stored || taken.into_iter().any(narrower)
    }

    /// How many ranks share attention and dense networks.
    pub fn ranks_of_rows(&self) -> usize {
        if self.sharded == Sharded::ExpertsAlone { 1 } else { self.ranks }
    }
}
