//! Sites: the named places of a model at which its values can be looked at.
//!
//! A site's path is the path of the module in the transformers library whose output the value is, `.1` and `.2` its
//! second and third outputs. Values that are no module's output have suffixes of ours under the same paths.

mod layer;
mod vision;

use std::fmt;
use std::str::FromStr;

pub use vision::{VisionLayerSite, VisionSite};

use crate::config::{Blocks, Config, FeedForward, Index, Vision};
use crate::error::ParseError;
use crate::media::PASSES;

/// What stands in a choice after the last thing that was chosen.
pub const NONE: usize = usize::MAX;

/// A place in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// A place in the vision tower or the projector, on the first pass (0) or the second.
    Vision(usize, VisionSite),
    /// Output of the token embedding \[T, H\].
    Embedding,
    /// The same with features in the places of images and videos \[T, H\].
    InputsEmbeds,
    /// cos of the rotation angles \[T, R\].
    RopeCos,
    /// sin of the rotation angles \[T, R\].
    RopeSin,
    /// A place in a decoder layer.
    Layer(usize, LayerSite),
    /// Output of the norm after the last layer \[T, H\].
    FinalNorm,
    /// Output of the head \[T, V\].
    LmHead,
    /// What the model returns \[T, V\]; the head's output again.
    Logits,
}

/// A place in a decoder layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerSite {
    /// Output of the norm before attention \[T, H\].
    InputNorm,
    /// Query projection \[T, heads·D\].
    QProj,
    /// Key projection \[T, heads·D\].
    KProj,
    /// Value projection \[T, heads·D\].
    VProj,
    /// Normalised queries \[T, heads·D\].
    QNorm,
    /// Normalised keys \[T, heads·D\].
    KNorm,
    /// Rotated queries \[T, heads·D\].
    QRope,
    /// Rotated keys \[T, heads·D\].
    KRope,
    /// Query projection of the index branch \[T, index heads·D\].
    IndexQProj,
    /// Its key projection \[T, D\].
    IndexKProj,
    /// Its normalised queries \[T, index heads·D\].
    IndexQNorm,
    /// Its normalised keys \[T, D\].
    IndexKNorm,
    /// Its rotated queries \[T, index heads·D\].
    IndexQRope,
    /// Its rotated keys \[T, D\].
    IndexKRope,
    /// Its scores of tokens, −∞ where masked \[index heads, T, S\].
    TokenScores,
    /// The largest score of each block of keys, −∞ where none is visible \[choices, T, blocks\].
    BlockMax,
    /// The same with what is forced at ∞, by which blocks are chosen \[choices, T, blocks\].
    BlockScore,
    /// Chosen blocks \[choices, T, k\], in the order of choice; none after the last.
    Blocks,
    /// Scaled scores before the softmax, −∞ where masked \[heads, T, S\].
    Scores,
    /// Attention probabilities \[heads, T, S\].
    Probabilities,
    /// Weighted values, before the output projection \[T, heads·D\].
    Context,
    /// Output projection \[T, H\].
    OProj,
    /// Output of attention \[T, H\]; the projection's again.
    Attention,
    /// The residual stream after attention \[T, H\].
    Residual,
    /// Output of the norm before the feed-forward network \[T, H\].
    PostAttentionNorm,
    /// Gate and up projection of a dense layer, side by side \[T, 2·I\].
    DenseGateUp,
    /// Output projection of a dense layer \[T, H\].
    DenseDown,
    /// Gate and up projection of the shared expert, side by side \[T, 2·I\].
    SharedGateUp,
    /// Output projection of the shared expert \[T, H\].
    SharedDown,
    /// Output of the shared expert \[T, H\]; the projection's again.
    Shared,
    /// Router logits \[T, E\].
    GateLogits,
    /// Router scores \[T, E\].
    GateScores,
    /// Scores plus correction bias, by which experts are chosen \[T, E\].
    GateChoice,
    /// Chosen experts \[T, k\], in the order of choice.
    GateExperts,
    /// Routing weights \[T, k\], in the order of the chosen experts.
    GateWeights,
    /// Activation inside the chosen experts \[T, k, I\].
    ExpertHidden,
    /// Output of the chosen experts, before the routing weights \[T, k, H\].
    ExpertOutput,
    /// What one expert adds to each token, 0 where it is not chosen \[T, H\].
    Expert(usize),
    /// Weighted sum of the experts \[T, H\].
    Experts,
    /// Output of the feed-forward block \[T, H\].
    Mlp,
    /// Output of the layer: the residual stream \[T, H\].
    Output,
}

/// Number of tokens, and of positions they see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// T: tokens of this forward pass.
    pub tokens: usize,
    /// S: these and the ones before them.
    pub positions: usize,
    /// N: patches that go through the vision tower, pass by pass.
    pub patches: [usize; PASSES],
}

impl Extent {
    /// Of tokens that show nothing.
    pub const fn new(tokens: usize, positions: usize) -> Self {
        Extent { tokens, positions, patches: [0; PASSES] }
    }

    /// The same with so many patches.
    #[must_use]
    pub const fn seeing(self, patches: [usize; PASSES]) -> Self {
        Extent { patches, ..self }
    }
}

impl Site {
    /// Every site outside of layers, of text.
    const OUTSIDE: [Site; 7] = [
        Site::Embedding,
        Site::InputsEmbeds,
        Site::RopeCos,
        Site::RopeSin,
        Site::FinalNorm,
        Site::LmHead,
        Site::Logits,
    ];

    /// The shape of the site's value in a dump, without a batch axis.
    pub fn shape(self, config: &Config, extent: Extent) -> Vec<usize> {
        let Extent { tokens: t, positions: s, .. } = extent;
        let (h, v, k) = (config.hidden_size, config.vocab_size, config.num_experts_per_tok);
        let none = Index { heads: 0, head_dim: 0, choices: 0, blocks: Blocks { size: 1, top_k: 0, local: 0, init: 0 } };
        let index = config.index.unwrap_or(none);
        let blocks = s.div_ceil(index.blocks.size);
        // One choice for all heads has no axis of its own.
        let of_choices = |width| if index.choices == 1 { vec![t, width] } else { vec![index.choices, t, width] };
        match self {
            Site::Vision(pass, site) => site.shape(config, extent.patches.get(pass).copied().unwrap_or(0)),
            Site::Embedding | Site::InputsEmbeds | Site::FinalNorm => vec![t, h],
            Site::RopeCos | Site::RopeSin => vec![t, config.rotary_dim],
            Site::LmHead | Site::Logits => vec![t, v],
            Site::Layer(_, site) => match site {
                LayerSite::QProj | LayerSite::QNorm | LayerSite::QRope | LayerSite::Context => {
                    vec![t, config.query_width()]
                }
                LayerSite::KProj | LayerSite::VProj | LayerSite::KNorm | LayerSite::KRope => {
                    vec![t, config.key_width()]
                }
                LayerSite::IndexQProj | LayerSite::IndexQNorm | LayerSite::IndexQRope => {
                    vec![t, index.heads * index.head_dim]
                }
                LayerSite::IndexKProj | LayerSite::IndexKNorm | LayerSite::IndexKRope => vec![t, index.head_dim],
                LayerSite::TokenScores => vec![index.heads, t, s],
                LayerSite::BlockMax | LayerSite::BlockScore => of_choices(blocks),
                LayerSite::Blocks => of_choices(index.blocks.top_k.min(blocks)),
                LayerSite::DenseGateUp => vec![t, 2 * config.dense_intermediate_size],
                LayerSite::SharedGateUp => vec![t, 2 * config.shared_intermediate_size],
                LayerSite::Scores | LayerSite::Probabilities => vec![config.num_attention_heads, t, s],
                LayerSite::GateLogits | LayerSite::GateScores | LayerSite::GateChoice => {
                    vec![t, config.num_local_experts]
                }
                LayerSite::GateExperts | LayerSite::GateWeights => vec![t, k],
                LayerSite::ExpertHidden => vec![t, k, config.intermediate_size],
                LayerSite::ExpertOutput => vec![t, k, h],
                LayerSite::InputNorm
                | LayerSite::OProj
                | LayerSite::Attention
                | LayerSite::Residual
                | LayerSite::PostAttentionNorm
                | LayerSite::DenseDown
                | LayerSite::SharedDown
                | LayerSite::Shared
                | LayerSite::Expert(_)
                | LayerSite::Experts
                | LayerSite::Mlp
                | LayerSite::Output => vec![t, h],
            },
        }
    }

    /// Whether a model has the site.
    pub fn exists(self, config: &Config) -> bool {
        let (layer, site) = match self {
            Site::Layer(layer, site) => (layer, site),
            Site::Vision(pass, site) => {
                return pass < PASSES && config.vision.as_ref().is_some_and(|vision| site.exists(vision));
            }
            Site::InputsEmbeds => return config.vision.is_some(),
            _ => return true,
        };
        let dense = config.layer(layer).feed_forward == FeedForward::Dense;
        layer < config.num_hidden_layers
            && match site {
                LayerSite::IndexQProj
                | LayerSite::IndexKProj
                | LayerSite::IndexQNorm
                | LayerSite::IndexKNorm
                | LayerSite::IndexQRope
                | LayerSite::IndexKRope
                | LayerSite::TokenScores
                | LayerSite::BlockMax
                | LayerSite::BlockScore
                | LayerSite::Blocks => config.index_of(layer).is_some(),
                LayerSite::Scores => config.index_of(layer).is_none(),
                LayerSite::DenseGateUp | LayerSite::DenseDown => dense,
                LayerSite::SharedGateUp | LayerSite::SharedDown | LayerSite::Shared => config.is_shared(layer),
                LayerSite::GateLogits
                | LayerSite::GateScores
                | LayerSite::GateChoice
                | LayerSite::GateExperts
                | LayerSite::GateWeights
                | LayerSite::ExpertHidden
                | LayerSite::ExpertOutput
                | LayerSite::Experts => !dense,
                LayerSite::Expert(expert) => !dense && expert < config.num_local_experts,
                _ => true,
            }
    }

    /// Channels of a head, where heads may stand apart in a dump.
    pub fn head_dim(self, config: &Config) -> usize {
        use LayerSite::{IndexKNorm, IndexKProj, IndexKRope, IndexQNorm, IndexQProj, IndexQRope};
        match self {
            Site::Layer(_, IndexQProj | IndexKProj | IndexQNorm | IndexKNorm | IndexQRope | IndexKRope) => {
                config.index.map_or(config.head_dim, |index| index.head_dim)
            }
            Site::Vision(..) => config.vision.as_ref().map_or(config.head_dim, Vision::head_dim),
            _ => config.head_dim,
        }
    }

    /// How many things there are to choose from, where choices are made.
    pub fn choices(self, config: &Config, extent: Extent) -> usize {
        match (self, config.index) {
            (Site::Layer(_, LayerSite::Blocks), Some(index)) => extent.positions.div_ceil(index.blocks.size),
            _ => config.num_local_experts,
        }
    }

    /// Rows and columns of the matrix that the reference holds: the last axis is the columns, except that the experts'
    /// values have one row a token and choice.
    pub fn matrix(self, config: &Config, extent: Extent) -> (usize, usize) {
        let shape = self.shape(config, extent);
        let columns = *shape.last().expect("every shape has an axis");
        (shape[..shape.len() - 1].iter().product(), columns)
    }

    /// The layer, if the site is in one.
    pub fn layer(self) -> Option<usize> {
        match self {
            Site::Layer(layer, _) => Some(layer),
            _ => None,
        }
    }

    /// Whether the value is a set of choices, compared as such.
    pub fn is_choice(self) -> bool {
        matches!(self, Site::Layer(_, LayerSite::GateExperts | LayerSite::Blocks))
    }

    /// Whether the value is only made on request, because it is large or costs another pass.
    pub fn on_request(self) -> bool {
        use LayerSite::{Expert, Probabilities, Scores, TokenScores};
        matches!(self, Site::Layer(_, Scores | Probabilities | TokenScores | Expert(_)))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Vision(0, site) => write!(f, "model.{site}"),
            Site::Vision(pass, site) => write!(f, "pass.{pass}.model.{site}"),
            Site::Embedding => f.write_str("model.embed_tokens"),
            Site::InputsEmbeds => f.write_str("model.inputs_embeds"),
            Site::RopeCos => f.write_str("model.rotary_emb"),
            Site::RopeSin => f.write_str("model.rotary_emb.1"),
            Site::FinalNorm => f.write_str("model.norm"),
            Site::LmHead => f.write_str("lm_head"),
            Site::Logits => f.write_str("logits"),
            Site::Layer(layer, site) => {
                write!(f, "model.layers.{layer}{}", site.path())?;
                if let LayerSite::Expert(expert) = site { write!(f, ".{expert}") } else { Ok(()) }
            }
        }
    }
}

impl FromStr for Site {
    type Err = ParseError;

    fn from_str(path: &str) -> Result<Self, ParseError> {
        if let Some(site) = Site::OUTSIDE.into_iter().find(|site| site.to_string() == path) {
            return Ok(site);
        }
        // Numbers have one form: not +3, not 03.
        layer_site(path)
            .or_else(|| vision_site(path))
            .filter(|site| site.to_string() == path)
            .ok_or_else(|| ParseError::new("site", path, "the path of a module, as transformers names it"))
    }
}

fn vision_site(path: &str) -> Option<Site> {
    let (pass, path) = match path.strip_prefix("pass.") {
        Some(rest) => rest.split_once('.').and_then(|(pass, path)| Some((pass.parse().ok()?, path)))?,
        None => (0, path),
    };
    Some(Site::Vision(pass, VisionSite::parse(path.strip_prefix("model.")?)?))
}

fn layer_site(path: &str) -> Option<Site> {
    let rest = path.strip_prefix("model.layers.")?;
    let (layer, below) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    let layer = layer.parse().ok()?;
    let site = LayerSite::ALL.into_iter().find(|site| site.path() == below);
    let expert = || below.strip_prefix(".mlp.experts.")?.parse().ok().map(LayerSite::Expert);
    Some(Site::Layer(layer, site.or_else(expert)?))
}
