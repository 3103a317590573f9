//! The points on which the documents disagree with one another or with the released model, and change the equations.
//!
//! Each is one field, labelled as in part D of the specification. Points that only change where a value is rounded are
//! in [`crate::rounding`]. A point on which the documents speak with one voice follows them under
//! [`Semantics::DOCUMENTS`]; elsewhere both presets take the reading that the released model has.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

use crate::error::ParseError;

/// D01: which channels of a head rotate. S1 CH2.4, CH3.3 and S2 §5 say the first; S0 CH2.5 and CH3.5 the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePart {
    /// The first `rotary_dim` channels.
    First,
    /// The last.
    Last,
}

/// D02: which channels form a rotated pair. No document says; the code has halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RopePair {
    /// i with i + `rotary_dim` / 2.
    Half,
    /// 2i with 2i + 1.
    Interleaved,
}

/// D05: over what the query and key norms take their mean square. S2 and the code: the whole projection; S0 CH2.5 and
/// S3: each head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum QkNorm {
    /// All heads of a token together.
    FullProjection,
    /// Each head by itself, with its own part of the weight.
    PerHead,
    /// No norm.
    None,
}

/// D09: where ε stands in a norm. All but S3 have it inside the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EpsPlace {
    /// x / √(mean x² + ε).
    Inside,
    /// x / (√(mean x²) + 10⁻⁸), as in S3.
    Outside,
}

/// D31: whether a feed-forward network has a gate. S3's expert and S1 CH5.2's words have none; the code has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Expert {
    /// w2 · (silu(w1·x) ⊙ w3·x).
    Gated,
    /// w2 · silu(w1·x).
    Nongated,
}

/// D35: which scores become the routing weights. S1, S2 and S4 and the code: those without the bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RoutingWeights {
    /// Scores alone.
    Unbiased,
    /// Scores plus bias.
    Biased,
}

/// D35: what is added to the sum that the routing weights are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
pub enum RouterEps {
    /// Nothing.
    #[strum(serialize = "0")]
    Zero,
    /// 10⁻²⁰, as in one engine.
    #[strum(serialize = "1e-20")]
    Tiny,
}

/// D36: the router's nonlinearity. All but S3 have the sigmoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RouterScore {
    /// σ(z), chosen by σ(z) + bias.
    Sigmoid,
    /// The k largest logits, and their softmax.
    SoftmaxTopk,
}

/// One reading of the documents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Semantics {
    /// D01.
    pub rope_part: RopePart,
    /// D02.
    pub rope_pair: RopePair,
    /// D03: rotated channels, instead of the config's.
    pub rotary_dim: Option<usize>,
    /// D04: θ, instead of the config's.
    pub rope_theta: Option<f64>,
    /// D05.
    pub qk_norm: QkNorm,
    /// D09.
    pub eps_place: EpsPlace,
    /// D11: experts a token is sent to, instead of the config's.
    pub top_k: Option<usize>,
    /// D31.
    pub expert: Expert,
    /// D35.
    pub routing_weights: RoutingWeights,
    /// D35.
    pub router_eps: RouterEps,
    /// D36.
    pub router_score: RouterScore,
}

impl Semantics {
    /// The documents' equations.
    pub const DOCUMENTS: Semantics = Semantics {
        rope_part: RopePart::First,
        rope_pair: RopePair::Half,
        rotary_dim: None,
        rope_theta: None,
        qk_norm: QkNorm::FullProjection,
        eps_place: EpsPlace::Inside,
        top_k: None,
        expert: Expert::Gated,
        routing_weights: RoutingWeights::Unbiased,
        router_eps: RouterEps::Zero,
        router_score: RouterScore::Sigmoid,
    };

    /// What the released model computes. On the points that touch M2 the documents' majority is right.
    pub const RELEASED: Semantics = Semantics::DOCUMENTS;

    /// Names and values of all fields, in the order of the specification.
    pub fn fields(&self) -> [(&'static str, String); 11] {
        [
            ("rope_part", self.rope_part.to_string()),
            ("rope_pair", self.rope_pair.to_string()),
            ("rotary_dim", or_config(self.rotary_dim)),
            ("rope_theta", or_config(self.rope_theta)),
            ("qk_norm", self.qk_norm.to_string()),
            ("eps_place", self.eps_place.to_string()),
            ("top_k", or_config(self.top_k)),
            ("expert", self.expert.to_string()),
            ("routing_weights", self.routing_weights.to_string()),
            ("router_eps", self.router_eps.to_string()),
            ("router_score", self.router_score.to_string()),
        ]
    }

    /// `self` with one field changed.
    fn with(mut self, field: &str, value: &str) -> Result<Self, ParseError> {
        match field {
            "rope_part" => self.rope_part = word(field, value)?,
            "rope_pair" => self.rope_pair = word(field, value)?,
            "rotary_dim" => self.rotary_dim = number(field, value)?,
            "rope_theta" => self.rope_theta = number(field, value)?,
            "qk_norm" => self.qk_norm = word(field, value)?,
            "eps_place" => self.eps_place = word(field, value)?,
            "top_k" => self.top_k = number(field, value)?,
            "expert" => self.expert = word(field, value)?,
            "routing_weights" => self.routing_weights = word(field, value)?,
            "router_eps" => self.router_eps = word(field, value)?,
            "router_score" => self.router_score = word(field, value)?,
            _ => {
                let names = Semantics::DOCUMENTS.fields().map(|(name, _)| name).join(", ");
                return Err(ParseError::new("semantics field", field, format!("one of {names}")));
            }
        }
        Ok(self)
    }
}

/// One of the words of an enum.
pub(crate) fn word<E: FromStr + VariantNames>(field: &str, value: &str) -> Result<E, ParseError> {
    value.parse().map_err(|_| ParseError::new(field, value, E::VARIANTS.join(" or ")))
}

fn number<N: FromStr>(field: &str, value: &str) -> Result<Option<N>, ParseError> {
    match value {
        "config" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| ParseError::new(field, value, "a number or config")),
    }
}

fn or_config<N: ToString>(value: Option<N>) -> String {
    value.map_or_else(|| "config".to_owned(), |n| n.to_string())
}

/// `PRESET[,field=value]…`, where the preset is `documents` or `released`.
impl FromStr for Semantics {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let mut parts = s.split(',');
        let preset = match parts.next().unwrap_or_default() {
            "documents" => Semantics::DOCUMENTS,
            "released" => Semantics::RELEASED,
            other => return Err(ParseError::new("semantics preset", other, "documents or released")),
        };
        parts.try_fold(preset, |semantics, part| match part.split_once('=') {
            Some((field, value)) => semantics.with(field, value),
            None => Err(ParseError::new("semantics override", part, "field=value")),
        })
    }
}

/// The preset and what differs from it, in the form that parses.
impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("documents")?;
        for ((name, value), (_, preset)) in self.fields().iter().zip(Semantics::DOCUMENTS.fields()) {
            if *value != preset {
                write!(f, ",{name}={value}")?;
            }
        }
        Ok(())
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Semantics::DOCUMENTS
    }
}
