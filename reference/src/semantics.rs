//! The points on which the documents disagree with one another or with the released model, and change the equations.
//!
//! Each is one field, labelled as in part D of the specification; the fields after them are points on which no document is
//! in doubt and ports are known to slip (part F). Points that only change where a value is rounded are
//! in [`crate::rounding`]. A point on which the documents speak with one voice follows them under
//! [`Semantics::DOCUMENTS`]; elsewhere both presets take the reading that the released model has.

mod conflicts;
mod slips;
mod vision;

use std::fmt;
use std::str::FromStr;

pub use conflicts::{
    EpsPlace, Expert, GateClamp, MsaLocal, MsaPool, MsaScoreScale, MsaSelect, NormWeight, QkNorm, RopePair, RopePart,
    RouterEps, RouterScore, RoutingWeights,
};
pub use slips::{
    Activation, AttentionScale, Causal, ExpertChoice, IndexKey, IndexMask, IndexNorm, KeyHead, MsaLayout, MsaMask,
    MsaOwn, MsaPad, NormOrder, PositionShift, QkNormOn, Renormalize, RopeFrequency, RopeOn, RopePosition, ScoreType,
    SharedScale,
};

pub use vision::{AxialPair, ChunkTime, Gelu, MergeOrder, PatchOrder, PostNorm, Vision, VisionSpan};

use crate::error::ParseError;
use crate::words::{number, or_config, word, word_or_config};

/// One reading of the documents, or of a port that reads them otherwise.
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
    /// D05: over what, instead of the config's.
    pub qk_norm: Option<QkNorm>,
    /// D08: what norms multiply by, instead of the config's.
    pub norm_weight: Option<NormWeight>,
    /// D09.
    pub eps_place: EpsPlace,
    /// D11: experts a token is sent to, instead of the config's.
    pub top_k: Option<usize>,
    /// D21.
    pub msa_select: MsaSelect,
    /// D22.
    pub msa_local: MsaLocal,
    /// D23: first blocks that are forced, instead of the config's.
    pub msa_init_block: Option<usize>,
    /// D24.
    pub msa_score_scale: MsaScoreScale,
    /// Of what a block's score is made.
    pub msa_pool: MsaPool,
    /// Blocks a token reads, instead of the config's.
    pub msa_top_k: Option<usize>,
    /// D31.
    pub expert: Expert,
    /// D32.
    pub gate_clamp: GateClamp,
    /// D35.
    pub routing_weights: RoutingWeights,
    /// D35.
    pub router_eps: RouterEps,
    /// D36.
    pub router_score: RouterScore,
    /// By what scores are scaled.
    pub attention_scale: AttentionScale,
    /// Which key head a query head reads.
    pub key_head: KeyHead,
    /// Which tokens a token sees.
    pub causal: Causal,
    /// Whether norm or rotation comes first.
    pub norm_order: NormOrder,
    /// What rotates.
    pub rope_on: RopeOn,
    /// By what the exponent of a frequency is divided.
    pub rope_frequency: RopeFrequency,
    /// What positions are kept in.
    pub rope_position: RopePosition,
    /// What the query and key norms are applied to.
    pub qk_norm_on: QkNormOn,
    /// By what routing weights are divided.
    pub renormalize: Renormalize,
    /// Positions that are off.
    pub position_shift: Option<PositionShift>,
    /// Parts of the projections, one on each device, that queries and keys are normed by, each for itself.
    pub qk_shards: Option<usize>,
    /// The function on the gate, instead of the config's.
    pub activation: Option<Activation>,
    /// β of SwiGLU-OAI, instead of the config's.
    pub up_beta: Option<f64>,
    /// ℓ of SwiGLU-OAI, instead of the config's.
    pub swiglu_limit: Option<f64>,
    /// By what the routed experts' sum is multiplied, instead of the config's.
    pub routed_scale: Option<f64>,
    /// By what the shared expert's output is multiplied.
    pub shared_scale: SharedScale,
    /// What the last block of keys is filled up with.
    pub msa_pad: MsaPad,
    /// What of the keys a token sees.
    pub msa_mask: MsaMask,
    /// Which group's blocks a query head reads.
    pub msa_group: KeyHead,
    /// What of the index branch rotates.
    pub index_rope: RopeOn,
    /// By which weights the index branch norms.
    pub index_norm: IndexNorm,
    /// What attention's softmax takes and gives.
    pub attention_softmax: ScoreType,
    /// How often a token reads its own block.
    pub msa_own: MsaOwn,
    /// How the rows of the choice of blocks are read.
    pub msa_layout: MsaLayout,
    /// What the index branch takes for its keys.
    pub index_key: IndexKey,
    /// Which tokens the index branch scores.
    pub index_mask: IndexMask,
    /// What the index branch's token scores are kept in.
    pub index_scores: ScoreType,
    /// Which experts a token is sent to.
    pub expert_choice: ExpertChoice,
    /// Of the vision tower.
    pub vision: Vision,
}

impl Semantics {
    /// The documents' equations.
    pub const DOCUMENTS: Semantics = Semantics {
        rope_part: RopePart::First,
        rope_pair: RopePair::Half,
        rotary_dim: None,
        rope_theta: None,
        qk_norm: None,
        norm_weight: None,
        eps_place: EpsPlace::Inside,
        top_k: None,
        msa_select: MsaSelect::HeadMax,
        msa_local: MsaLocal::OwnBlock,
        msa_init_block: None,
        msa_score_scale: MsaScoreScale::One,
        msa_pool: MsaPool::Max,
        msa_top_k: None,
        expert: Expert::Gated,
        gate_clamp: GateClamp::Symmetric,
        routing_weights: RoutingWeights::Unbiased,
        router_eps: RouterEps::Zero,
        router_score: RouterScore::Sigmoid,
        attention_scale: AttentionScale::HeadDim,
        key_head: KeyHead::Grouped,
        causal: Causal::Inclusive,
        norm_order: NormOrder::NormFirst,
        rope_on: RopeOn::QueryKey,
        rope_frequency: RopeFrequency::RotaryDim,
        rope_position: RopePosition::F32,
        qk_norm_on: QkNormOn::QueryKey,
        renormalize: Renormalize::Chosen,
        position_shift: None,
        qk_shards: None,
        activation: None,
        up_beta: None,
        swiglu_limit: None,
        routed_scale: None,
        shared_scale: SharedScale::One,
        msa_pad: MsaPad::Masked,
        msa_mask: MsaMask::Token,
        msa_group: KeyHead::Grouped,
        index_rope: RopeOn::QueryKey,
        index_norm: IndexNorm::Own,
        attention_softmax: ScoreType::F32,
        msa_own: MsaOwn::Once,
        msa_layout: MsaLayout::TokenMajor,
        index_key: IndexKey::Own,
        index_mask: IndexMask::Token,
        index_scores: ScoreType::F32,
        expert_choice: ExpertChoice::Distinct,
        vision: Vision::RELEASED,
    };

    /// What the released model computes. On the points that touch M2 the documents' majority is right.
    pub const RELEASED: Semantics =
        Semantics { msa_select: MsaSelect::PerGroup, gate_clamp: GateClamp::Upper, ..Semantics::DOCUMENTS };

    /// Names of the presets.
    const PRESETS: [(&'static str, Semantics); 2] =
        [("documents", Semantics::DOCUMENTS), ("released", Semantics::RELEASED)];

    /// Names and values of all fields, in the order of the specification.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let own = [
            ("rope_part", self.rope_part.to_string()),
            ("rope_pair", self.rope_pair.to_string()),
            ("rotary_dim", or_config(self.rotary_dim)),
            ("rope_theta", or_config(self.rope_theta)),
            ("qk_norm", or_config(self.qk_norm)),
            ("norm_weight", or_config(self.norm_weight)),
            ("eps_place", self.eps_place.to_string()),
            ("top_k", or_config(self.top_k)),
            ("msa_select", self.msa_select.to_string()),
            ("msa_local", self.msa_local.to_string()),
            ("msa_init_block", or_config(self.msa_init_block)),
            ("msa_score_scale", self.msa_score_scale.to_string()),
            ("msa_pool", self.msa_pool.to_string()),
            ("msa_top_k", or_config(self.msa_top_k)),
            ("expert", self.expert.to_string()),
            ("gate_clamp", self.gate_clamp.to_string()),
            ("routing_weights", self.routing_weights.to_string()),
            ("router_eps", self.router_eps.to_string()),
            ("router_score", self.router_score.to_string()),
            ("attention_scale", self.attention_scale.to_string()),
            ("key_head", self.key_head.to_string()),
            ("causal", self.causal.to_string()),
            ("norm_order", self.norm_order.to_string()),
            ("rope_on", self.rope_on.to_string()),
            ("rope_frequency", self.rope_frequency.to_string()),
            ("rope_position", self.rope_position.to_string()),
            ("qk_norm_on", self.qk_norm_on.to_string()),
            ("renormalize", self.renormalize.to_string()),
            ("position_shift", or_config(self.position_shift)),
            ("qk_shards", or_config(self.qk_shards)),
            ("activation", or_config(self.activation)),
            ("up_beta", or_config(self.up_beta)),
            ("swiglu_limit", or_config(self.swiglu_limit)),
            ("routed_scale", or_config(self.routed_scale)),
            ("shared_scale", self.shared_scale.to_string()),
            ("msa_pad", self.msa_pad.to_string()),
            ("msa_mask", self.msa_mask.to_string()),
            ("msa_group", self.msa_group.to_string()),
            ("index_rope", self.index_rope.to_string()),
            ("index_norm", self.index_norm.to_string()),
            ("attention_softmax", self.attention_softmax.to_string()),
            ("msa_own", self.msa_own.to_string()),
            ("msa_layout", self.msa_layout.to_string()),
            ("index_key", self.index_key.to_string()),
            ("index_mask", self.index_mask.to_string()),
            ("index_scores", self.index_scores.to_string()),
            ("expert_choice", self.expert_choice.to_string()),
        ];
        own.into_iter().chain(self.vision.fields()).collect()
    }

    /// `self` with one field changed.
    pub fn with(mut self, field: &str, value: &str) -> Result<Self, ParseError> {
        match field {
            "rope_part" => self.rope_part = word(field, value)?,
            "rope_pair" => self.rope_pair = word(field, value)?,
            "rotary_dim" => self.rotary_dim = number(field, value)?,
            "rope_theta" => self.rope_theta = number(field, value)?,
            "qk_norm" => self.qk_norm = word_or_config(field, value)?,
            "norm_weight" => self.norm_weight = word_or_config(field, value)?,
            "eps_place" => self.eps_place = word(field, value)?,
            "top_k" => self.top_k = number(field, value)?,
            "msa_select" => self.msa_select = word(field, value)?,
            "msa_local" => self.msa_local = word(field, value)?,
            "msa_init_block" => self.msa_init_block = number(field, value)?,
            "msa_score_scale" => self.msa_score_scale = word(field, value)?,
            "msa_pool" => self.msa_pool = word(field, value)?,
            "msa_top_k" => self.msa_top_k = number(field, value)?,
            "expert" => self.expert = word(field, value)?,
            "gate_clamp" => self.gate_clamp = word(field, value)?,
            "routing_weights" => self.routing_weights = word(field, value)?,
            "router_eps" => self.router_eps = word(field, value)?,
            "router_score" => self.router_score = word(field, value)?,
            "attention_scale" => self.attention_scale = word(field, value)?,
            "key_head" => self.key_head = word(field, value)?,
            "causal" => self.causal = word(field, value)?,
            "norm_order" => self.norm_order = word(field, value)?,
            "rope_on" => self.rope_on = word(field, value)?,
            "rope_frequency" => self.rope_frequency = word(field, value)?,
            "rope_position" => self.rope_position = word(field, value)?,
            "qk_norm_on" => self.qk_norm_on = word(field, value)?,
            "renormalize" => self.renormalize = word(field, value)?,
            "position_shift" => self.position_shift = number(field, value)?,
            "qk_shards" => self.qk_shards = number(field, value)?,
            "activation" => self.activation = word_or_config(field, value)?,
            "up_beta" => self.up_beta = number(field, value)?,
            "swiglu_limit" => self.swiglu_limit = number(field, value)?,
            "routed_scale" => self.routed_scale = number(field, value)?,
            "shared_scale" => self.shared_scale = word(field, value)?,
            "msa_pad" => self.msa_pad = word(field, value)?,
            "msa_mask" => self.msa_mask = word(field, value)?,
            "msa_group" => self.msa_group = word(field, value)?,
            "index_rope" => self.index_rope = word(field, value)?,
            "index_norm" => self.index_norm = word(field, value)?,
            "attention_softmax" => self.attention_softmax = word(field, value)?,
            "msa_own" => self.msa_own = word(field, value)?,
            "msa_layout" => self.msa_layout = word(field, value)?,
            "index_key" => self.index_key = word(field, value)?,
            "index_mask" => self.index_mask = word(field, value)?,
            "index_scores" => self.index_scores = word(field, value)?,
            "expert_choice" => self.expert_choice = word(field, value)?,
            _ => {
                let Some(set) = self.vision.set(field, value) else {
                    let fields = Semantics::DOCUMENTS.fields();
                    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                    let names = names.join(", ");
                    return Err(ParseError::new("semantics field", field, format!("one of {names}")));
                };
                set?;
            }
        }
        Ok(self)
    }
}

/// `PRESET[,field=value]…`, where the preset is `documents` or `released`.
impl FromStr for Semantics {
    type Err = ParseError;

    fn from_str(s: &str) -> Result<Self, ParseError> {
        let mut parts = s.split(',');
        let name = parts.next().unwrap_or_default();
        let preset = Self::PRESETS.into_iter().find(|(preset, _)| *preset == name).map(|(_, semantics)| semantics);
        let preset = preset.ok_or_else(|| ParseError::new("semantics preset", name, "documents or released"))?;
        parts.try_fold(preset, |semantics, part| match part.split_once('=') {
            Some((field, value)) => semantics.with(field, value),
            None => Err(ParseError::new("semantics override", part, "field=value")),
        })
    }
}

/// The closest preset and what differs from it, in the form that parses.
impl fmt::Display for Semantics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let differing = |preset: &Semantics| {
            let own = self.fields().into_iter().zip(preset.fields());
            own.filter(|(own, preset)| own != preset).map(|((name, value), _)| format!(",{name}={value}"))
        };
        let (name, closest) =
            Self::PRESETS.iter().min_by_key(|(_, preset)| differing(preset).count()).expect("there are presets");
        f.write_str(name)?;
        differing(closest).try_for_each(|field| f.write_str(&field))
    }
}

impl Default for Semantics {
    fn default() -> Self {
        Semantics::DOCUMENTS
    }
}
