//! Rounding contracts: after which operator a value is rounded, to what, and how sums are accumulated.
//!
//! Two correct implementations differ by their contracts (SPEC G7). The truth rounds nowhere: [`RoundingContract::IDEAL`].
//! The points on which the documents and engines place a rounding differently are enums labelled as in part D.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

use crate::accumulator::Accumulator;
use crate::error::ParseError;
use crate::storage::Mode;
use crate::words::word;
use crate::{Real, Rounding, Storage};

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
}

/// D41: the router's weight and bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum GateRound {
    /// As stored: f32.
    Stored,
    /// Rounded to the activations' type, and the logits too: transformers loading in bf16.
    Activations,
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
}

/// D60: what a norm after a residual addition reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum NormInput {
    /// The sum as it is stored.
    Stored,
    /// The sum before it is rounded for storing.
    Sum,
}

/// How an implementation rounds and accumulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundingContract {
    /// What activations are stored in.
    pub activations: Storage,
    /// To nearest, or stochastically to measure a noise floor.
    pub mode: Mode,
    /// How dot products are summed; also says in what elementwise arithmetic is done.
    pub accumulator: Accumulator,
    /// D10.
    pub rms: RmsRound,
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
    pub swiglu: Chain,
    /// D43.
    pub experts: ExpertSum,
    /// D60.
    pub norm_input: NormInput,
}

impl RoundingContract {
    /// Rounds nowhere; f64 arithmetic.
    pub const IDEAL: RoundingContract = RoundingContract {
        activations: Storage::Real,
        mode: Mode::Nearest,
        accumulator: Accumulator::F64,
        rms: RmsRound::One,
        qk_norm: Chain::Once,
        rope: Chain::Once,
        attention: AttentionRound::Flash,
        gate: GateRound::Stored,
        routing: RoutingRound::F32,
        swiglu: Chain::Once,
        experts: ExpertSum::Once,
        norm_input: NormInput::Stored,
    };

    /// Fused kernels on a Hopper GPU: bf16 between kernels, f32 within. Our own CUDA path.
    pub const FUSED: RoundingContract = RoundingContract {
        activations: Storage::Bf16,
        accumulator: Accumulator::HOPPER_BF16,
        ..RoundingContract::IDEAL
    };

    /// transformers with eager attention and eager experts, in bf16.
    pub const EAGER_BF16: RoundingContract = RoundingContract {
        activations: Storage::Bf16,
        mode: Mode::Nearest,
        accumulator: Accumulator::F32,
        rms: RmsRound::Two,
        qk_norm: Chain::Each,
        rope: Chain::Each,
        attention: AttentionRound::Eager,
        gate: GateRound::Stored,
        routing: RoutingRound::F32,
        swiglu: Chain::Each,
        experts: ExpertSum::Each,
        norm_input: NormInput::Stored,
    };

    /// The same in f32.
    pub const EAGER_F32: RoundingContract =
        RoundingContract { activations: Storage::F32, ..RoundingContract::EAGER_BF16 };

    /// The same in f16.
    pub const EAGER_F16: RoundingContract =
        RoundingContract { activations: Storage::F16, ..RoundingContract::EAGER_BF16 };

    /// Names of the presets.
    pub const PRESETS: [(&'static str, RoundingContract); 5] = [
        ("ideal", RoundingContract::IDEAL),
        ("fused", RoundingContract::FUSED),
        ("eager_bf16", RoundingContract::EAGER_BF16),
        ("eager_f16", RoundingContract::EAGER_F16),
        ("eager_f32", RoundingContract::EAGER_F32),
    ];

    /// The rounding of an activation that is stored.
    pub fn stored(&self) -> Rounding {
        Rounding { storage: self.activations, mode: self.mode }
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
            Accumulator::F32 | Accumulator::TensorCore(_) => f32::UNIT_ROUNDOFF,
        }
    }

    /// The accumulator of sums that are not a tensor core's.
    pub fn scalar_accumulator(&self) -> Accumulator {
        match self.accumulator {
            Accumulator::F64 => Accumulator::F64,
            Accumulator::F32 | Accumulator::TensorCore(_) => Accumulator::F32,
        }
    }

    /// The same contract with stochastic rounding.
    #[must_use]
    pub fn stochastic(mut self, seed: u64) -> Self {
        self.mode = Mode::Stochastic(seed);
        self
    }

    /// Names and values of the fields that can be overridden.
    pub fn fields(&self) -> [(&'static str, String); 11] {
        [
            ("activations", self.activations.to_string()),
            ("accumulator", self.accumulator.to_string()),
            ("rms", self.rms.to_string()),
            ("qk_norm", self.qk_norm.to_string()),
            ("rope", self.rope.to_string()),
            ("attention", self.attention.to_string()),
            ("gate", self.gate.to_string()),
            ("routing", self.routing.to_string()),
            ("swiglu", self.swiglu.to_string()),
            ("experts", self.experts.to_string()),
            ("norm_input", self.norm_input.to_string()),
        ]
    }

    fn with(mut self, field: &str, value: &str) -> Result<Self, ParseError> {
        match field {
            "activations" => self.activations = value.parse()?,
            "accumulator" => self.accumulator = value.parse()?,
            "rms" => self.rms = word(field, value)?,
            "qk_norm" => self.qk_norm = word(field, value)?,
            "rope" => self.rope = word(field, value)?,
            "attention" => self.attention = word(field, value)?,
            "gate" => self.gate = word(field, value)?,
            "routing" => self.routing = word(field, value)?,
            "swiglu" => self.swiglu = word(field, value)?,
            "experts" => self.experts = word(field, value)?,
            "norm_input" => self.norm_input = word(field, value)?,
            _ => {
                let names = self.fields().map(|(name, _)| name).join(", ");
                return Err(ParseError::new("contract field", field, format!("one of {names}")));
            }
        }
        Ok(self)
    }
}

/// `PRESET[,field=value]…`.
impl FromStr for RoundingContract {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let mut parts = s.split(',');
        let name = parts.next().unwrap_or_default();
        let preset = Self::PRESETS.into_iter().find(|(preset, _)| *preset == name).map(|(_, contract)| contract);
        let preset = preset.ok_or_else(|| {
            ParseError::new("contract", name, format!("one of {}", Self::PRESETS.map(|(name, _)| name).join(", ")))
        })?;
        parts.try_fold(preset, |contract, part| match part.split_once('=') {
            Some((field, value)) => contract.with(field, value),
            None => Err(ParseError::new("contract override", part, "field=value")),
        })
    }
}

/// The closest preset and what differs from it, in the form that parses.
impl fmt::Display for RoundingContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differing = |preset: &RoundingContract| {
            let own = self.fields().into_iter().zip(preset.fields());
            own.filter(|(own, preset)| own != preset).map(|((name, value), _)| format!(",{name}={value}"))
        };
        let (name, closest) =
            Self::PRESETS.iter().min_by_key(|(_, preset)| differing(preset).count()).expect("there are presets");
        f.write_str(name)?;
        differing(closest).try_for_each(|field| f.write_str(&field))
    }
}
