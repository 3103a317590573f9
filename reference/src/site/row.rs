//! A row of the table of sites: all that is known of one.

use super::axis::{Axis, Width};
use crate::config::{Config, FeedForward};

/// What is known of a site.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// The path below what the site is in; in a layer with its dot.
    pub(super) path: &'static str,
    /// The axes of its value in a dump, without one for a batch.
    pub(super) axes: &'static [Axis],
    /// Which layers have it, or which models.
    pub(super) exists: Exists,
    /// In what an implementation keeps its value.
    pub(super) kept: Kept,
    /// Whether it is what a product gives, or what is made of products alone.
    pub(super) is_product: bool,
    /// What more is to be known.
    pub(super) marks: &'static [Mark],
}

/// Which layers have a site, or which models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exists {
    /// All.
    Always,
    /// Models with a vision tower, and document 000's modules of multi-token prediction.
    Joined,
    /// Modules of multi-token prediction that project embedding and hidden state side by side.
    Concatenated,
    /// Those that add both.
    Summed,
    /// Layers that attend to all tokens.
    FullAttention,
    /// Layers that attend to chosen blocks of keys.
    BlockSparse,
    /// Layers with one network for all tokens.
    Dense,
    /// Layers with experts.
    Experts,
    /// Layers with an expert that all tokens share.
    Shared,
}

/// In what an implementation keeps a site's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In the type of its activations.
    Activations,
    /// In f32 at least: the router's values, the index branch's scores, the rotation's tables.
    Wide,
    /// As the norm of queries and keys leaves it: unrounded, where it is rounded once after the rotation only.
    BeforeRotation,
    /// As indices: a set of choices, compared as such.
    Choices,
}

/// What more is to be known of some sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is the residual stream in between layers, of the tower and what that gives to the text's, too.
    Stream,
    /// It is only made on request, because it is large or costs another pass.
    OnRequest,
    /// Another reading of the documents has another size of it: it rotates or chooses another number, or chooses for
    /// others.
    SizedByReading,
    /// It is −∞ where masked, or ∞ where forced.
    Masked,
}

impl Row {
    /// Of a site that all have, kept as activations are.
    pub(super) const fn new(path: &'static str, axes: &'static [Axis]) -> Self {
        Row { path, axes, exists: Exists::Always, kept: Kept::Activations, is_product: false, marks: &[] }
    }

    pub(super) const fn product(self) -> Self {
        Row { is_product: true, ..self }
    }

    pub(super) const fn of(self, exists: Exists) -> Self {
        Row { exists, ..self }
    }

    pub(super) const fn kept(self, kept: Kept) -> Self {
        Row { kept, ..self }
    }

    pub(super) const fn marked(self, marks: &'static [Mark]) -> Self {
        Row { marks, ..self }
    }

    /// Whose channels the value's vectors have; `None` if its last axis counts something else.
    pub(super) fn width(&self) -> Option<Width> {
        match self.axes.last() {
            Some(Axis::Channels(width)) => Some(*width),
            _ => None,
        }
    }
}

impl Exists {
    /// In a layer of a model; `layer` counts where layers differ.
    pub(super) fn holds(self, config: &Config, layer: usize) -> bool {
        match self {
            Exists::Always => true,
            Exists::Joined => config.vision.is_some() || Exists::Summed.holds(config, layer),
            Exists::Concatenated => config.module.is_some_and(|module| module.topology.is_concatenated()),
            Exists::Summed => config.module.is_some_and(|module| !module.topology.is_concatenated()),
            Exists::FullAttention => config.index_of(layer).is_none(),
            Exists::BlockSparse => config.index_of(layer).is_some(),
            Exists::Dense => config.layer(layer).feed_forward == FeedForward::Dense,
            Exists::Experts => config.layer(layer).feed_forward == FeedForward::Experts,
            Exists::Shared => config.is_shared(layer),
        }
    }
}
