//! Sites: the named places of a model at which its values can be looked at.
//!
//! A site's path is the path of the module in the transformers library whose output the value is, `.1` and `.2` its
//! second and third outputs. Values that are no module's output have suffixes of ours under the same paths.
//!
//! All that is known of a site is one row of a table: those outside of layers here, those of a layer in `layer`, those of
//! the tower in `vision`.

mod axis;
mod layer;
mod row;
mod vision;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use axis::Axis::{Channels, Tokens, Vocabulary};
pub use axis::{Axis, Extent, Width};
pub use layer::LayerSite;
pub use row::Kept;
use row::{Exists, Mark, Row};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
pub use vision::{VisionLayerSite, VisionSite};

use crate::config::{Config, Vision};
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
    /// A place before the layer of a module of multi-token prediction.
    Module(ModuleSite),
    /// The embedding with features in the places of images and videos, or in document 000's modules with the projected hidden
    /// state added to it \[T, H\].
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

/// A place before the layer of a module of multi-token prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModuleSite {
    /// The embedding behind its norm \[T, H\].
    EmbeddingNorm,
    /// The hidden state that it reads, behind its norm \[T, H\].
    HiddenNorm,
    /// Both side by side, projected: the stream that the layer reads \[T, H\].
    BothProj,
    /// Projection of the hidden state alone, in document 000's modules \[T, H\].
    HiddenProj,
}

/// A vector as wide as the residual stream for each token.
const STREAM: &[Axis] = &[Tokens, Channels(Width::Hidden)];

/// Every site outside of layers, of text.
const OUTSIDE: [(Site, Row); 11] = [
    (Site::Embedding, Row::new("model.embed_tokens", STREAM).marked(&[Mark::Stream])),
    (Site::Module(ModuleSite::EmbeddingNorm), Row::new("model.enorm", STREAM).of(Exists::Concatenated)),
    (Site::Module(ModuleSite::HiddenNorm), Row::new("model.hnorm", STREAM).of(Exists::Concatenated)),
    (Site::Module(ModuleSite::BothProj), Row::new("model.eh_proj", STREAM).of(Exists::Concatenated).product()),
    (Site::Module(ModuleSite::HiddenProj), Row::new("model.mtp_proj", STREAM).of(Exists::Summed).product()),
    (Site::InputsEmbeds, Row::new("model.inputs_embeds", STREAM).of(Exists::Joined)),
    (Site::RopeCos, Row::new("model.rotary_emb", ROTATION).kept(Kept::Wide).marked(&[Mark::SizedByReading])),
    (Site::RopeSin, Row::new("model.rotary_emb.1", ROTATION).kept(Kept::Wide).marked(&[Mark::SizedByReading])),
    (Site::FinalNorm, Row::new("model.norm", STREAM)),
    (Site::LmHead, Row::new("lm_head", &[Tokens, Vocabulary]).product()),
    (Site::Logits, Row::new("logits", &[Tokens, Vocabulary]).product()),
];

/// A row of the rotation's table for each token.
const ROTATION: &[Axis] = &[Tokens, Channels(Width::Rotary)];

impl Site {
    /// What is known of it.
    fn row(self) -> &'static Row {
        match self {
            Site::Vision(_, site) => site.row(),
            Site::Layer(_, site) => site.row(),
            _ => OUTSIDE.iter().find(|(site, _)| *site == self).map(|(_, row)| row).expect("every site has a row"),
        }
    }

    /// A configuration as the site's layer has it.
    fn config(self, config: &Config) -> Cow<'_, Config> {
        self.layer().map_or(Cow::Borrowed(config), |layer| config.of_layer(layer))
    }

    /// The axes of the site's value in a dump, without a batch axis.
    pub fn axes(self) -> &'static [Axis] {
        self.row().axes
    }

    /// The shape of the site's value in a dump, without a batch axis.
    pub fn shape(self, config: &Config, extent: Extent) -> Vec<usize> {
        let pass = match self {
            Site::Vision(pass, _) => pass,
            _ => 0,
        };
        let config = self.config(config);
        self.axes().iter().filter_map(|axis| axis.extent(&config, extent, pass)).collect()
    }

    /// The sites that a model has, its tower's on the first pass.
    pub fn all(config: &Config) -> impl Iterator<Item = Site> + '_ {
        let layers =
            (0..config.num_hidden_layers).flat_map(|layer| LayerSite::ALL.map(|site| Site::Layer(layer, site)));
        let depth = config.vision.as_ref().map_or(0, |vision| vision.num_hidden_layers);
        let tower = (0..depth).flat_map(|layer| VisionLayerSite::ALL.map(|site| VisionSite::Layer(layer, site)));
        let tower = tower.chain(VisionSite::OUTSIDE).map(|site| Site::Vision(0, site));
        let all = OUTSIDE.into_iter().map(|(site, _)| site).chain(layers).chain(tower);
        all.filter(|site| site.exists(config))
    }

    /// Whether a model has the site.
    pub fn exists(self, config: &Config) -> bool {
        match self {
            Site::Layer(layer, site) => site.exists(config, layer),
            Site::Vision(pass, site) => {
                pass < PASSES && config.vision.as_ref().is_some_and(|vision| site.exists(vision))
            }
            _ => self.row().exists.holds(config, 0),
        }
    }

    /// Channels of a head, where heads may stand apart in a dump.
    pub fn head_dim(self, config: &Config) -> usize {
        match (self, self.row().width()) {
            (_, Some(Width::IndexQuery | Width::IndexKey)) => {
                config.index.map_or(config.head_dim, |index| index.head_dim)
            }
            (Site::Vision(..), _) => config.vision.as_ref().map_or(config.head_dim, Vision::head_dim),
            _ => config.head_dim,
        }
    }

    /// Whether the channels are those of attention's heads, side by side.
    pub fn has_heads(self) -> bool {
        matches!(self.row().width(), Some(Width::Query | Width::Key))
    }

    /// How many things there are to choose from, where choices are made.
    pub fn choices(self, config: &Config, extent: Extent) -> usize {
        match (self.axes().last(), self.config(config).index) {
            (Some(Axis::ChosenBlocks), Some(index)) => extent.positions.div_ceil(index.blocks.size),
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

    /// The axis of the site's shape that has a row for each token; none in the vision tower.
    pub fn token_axis(self, config: &Config) -> Option<usize> {
        let config = self.config(config);
        let extents = |axis: &&Axis| axis.extent(&config, Extent::new(1, 1), 0).is_some();
        self.axes().iter().filter(extents).position(|axis| *axis == Tokens)
    }

    /// The layer, if the site is in one.
    pub fn layer(self) -> Option<usize> {
        match self {
            Site::Layer(layer, _) => Some(layer),
            _ => None,
        }
    }

    /// In what an implementation keeps the value.
    pub fn kept(self) -> Kept {
        self.row().kept
    }

    /// Whether the value is a set of choices, compared as such.
    pub fn is_choice(self) -> bool {
        self.kept() == Kept::Choices
    }

    /// Whether the value is only made on request, because it is large or costs another pass.
    pub fn on_request(self) -> bool {
        self.has(Mark::OnRequest)
    }

    /// Whether the value is the residual stream in between layers, of the tower and what it gives to the text's, too.
    pub fn is_stream(self) -> bool {
        self.has(Mark::Stream)
    }

    /// Whether another reading of the documents has another size of the value: it rotates or chooses another number, or
    /// chooses for others.
    pub fn is_sized_by_reading(self) -> bool {
        self.has(Mark::SizedByReading)
    }

    /// Whether the value is −∞ where masked, or ∞ where forced.
    pub fn is_masked(self) -> bool {
        self.has(Mark::Masked)
    }

    /// Whether the value is of the type that products are computed in, where that is another one: what they give, and what is made of
    /// that alone.
    pub fn is_product(self) -> bool {
        self.row().is_product
    }

    fn has(self, mark: Mark) -> bool {
        self.row().marks.contains(&mark)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Vision(0, site) => write!(f, "model.{site}"),
            Site::Vision(pass, site) => write!(f, "pass.{pass}.model.{site}"),
            Site::Layer(layer, site) => {
                write!(f, "model.layers.{layer}{}", site.row().path)?;
                if let LayerSite::Expert(expert) = site { write!(f, ".{expert}") } else { Ok(()) }
            }
            _ => f.write_str(self.row().path),
        }
    }
}

impl FromStr for Site {
    type Err = ParseError;

    fn from_str(path: &str) -> Result<Self, ParseError> {
        if let Some((site, _)) = OUTSIDE.iter().find(|(_, row)| row.path == path) {
            return Ok(*site);
        }
        // Numbers have one form: not +3, not 03.
        layer_site(path)
            .or_else(|| vision_site(path))
            .filter(|site| site.to_string() == path)
            .ok_or_else(|| ParseError::new("site", path, "the path of a module, as transformers names it"))
    }
}

impl Serialize for Site {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
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
    let site = LayerSite::ALL.into_iter().find(|site| site.row().path == below);
    let expert = || below.strip_prefix(".mlp.experts.")?.parse().ok().map(LayerSite::Expert);
    Some(Site::Layer(layer, site.or_else(expert)?))
}
