//! The axes of a site's value: what is counted along each, and how far it goes.

use crate::config::{Config, Vision};
use crate::media::PASSES;

/// What is counted along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// T: the tokens of this forward pass.
    Tokens,
    /// S: these and the ones before them.
    Positions,
    /// The heads of the queries.
    QueryHeads,
    /// The heads of the index branch's queries.
    IndexHeads,
    /// What chooses blocks of keys for itself: a key head, or all together, and then there is no such axis.
    Choosers,
    /// The blocks of the keys that there are.
    Blocks,
    /// The blocks that are chosen, in the order of choice.
    ChosenBlocks,
    /// E: all experts.
    Experts,
    /// k: the chosen experts, in the order of choice.
    ChosenExperts,
    /// k: the same, where what belongs to each stands.
    Slots,
    /// V: entries of the vocabulary.
    Vocabulary,
    /// N: patches that go through the vision tower together.
    Patches,
    /// Patches that became one token.
    Merged,
    /// Channels of a vector.
    Channels(Width),
}

/// Whose channels a vector has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// H: the residual stream's.
    Hidden,
    /// Those of a head that rotate.
    Rotary,
    /// All query heads', side by side.
    Query,
    /// All key heads', side by side.
    Key,
    /// All heads' of the index branch's queries, side by side.
    IndexQuery,
    /// Those of its one key.
    IndexKey,
    /// I: those inside an expert.
    Expert,
    /// 2·I: gate and up projection of a dense layer, side by side.
    DenseGateUp,
    /// 2·I: gate and up projection of the shared expert, side by side.
    SharedGateUp,
    /// C: a patch's.
    Patch,
    /// Those of a head of the tower that rotate.
    PatchRotary,
    /// I: those inside the network of a layer of the tower.
    PatchNetwork,
    /// P: those inside the projector.
    Projector,
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

impl Axis {
    /// How far it goes, on a pass of the tower; `None` where there is no such axis. What a model lacks is 0 wide.
    pub(super) fn extent(self, config: &Config, extent: Extent, pass: usize) -> Option<usize> {
        let seen = |of: &dyn Fn(&Vision, usize) -> usize| {
            let patches = extent.patches.get(pass).copied().unwrap_or(0);
            config.vision.as_ref().map_or(0, |vision| of(vision, patches))
        };
        let blocks = config.index.map_or(extent.positions, |index| extent.positions.div_ceil(index.blocks.size));
        Some(match self {
            Axis::Tokens => extent.tokens,
            Axis::Positions => extent.positions,
            Axis::QueryHeads => config.num_attention_heads,
            Axis::IndexHeads => config.index.map_or(0, |index| index.heads),
            Axis::Choosers => return config.index.map_or(Some(0), |index| Some(index.choices).filter(|&n| n != 1)),
            Axis::Blocks => blocks,
            Axis::ChosenBlocks => config.index.map_or(0, |index| index.blocks.top_k.min(blocks)),
            Axis::Experts => config.num_local_experts,
            Axis::ChosenExperts | Axis::Slots => config.num_experts_per_tok,
            Axis::Vocabulary => config.vocab_size,
            Axis::Patches => seen(&|_, patches| patches),
            Axis::Merged => seen(&|vision, patches| patches / vision.merged()),
            Axis::Channels(width) => width.channels(config),
        })
    }

    /// What one step along it is called in a report.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Tokens => "token",
            Axis::Positions => "position",
            Axis::QueryHeads | Axis::IndexHeads => "head",
            Axis::Choosers => "group",
            Axis::Blocks | Axis::ChosenBlocks => "block",
            Axis::Experts | Axis::ChosenExperts => "expert",
            Axis::Slots => "choice",
            Axis::Vocabulary => "vocabulary entry",
            Axis::Patches => "patch",
            Axis::Merged => "feature",
            Axis::Channels(_) => "channel",
        }
    }
}

impl Width {
    fn channels(self, config: &Config) -> usize {
        let seen = |of: &dyn Fn(&Vision) -> usize| config.vision.as_ref().map_or(0, of);
        match self {
            Width::Hidden => config.hidden_size,
            Width::Rotary => config.rotary_dim,
            Width::Query => config.query_width(),
            Width::Key => config.key_width(),
            Width::IndexQuery => config.index.map_or(0, |index| index.heads * index.head_dim),
            Width::IndexKey => config.index.map_or(0, |index| index.head_dim),
            Width::Expert => config.intermediate_size,
            Width::DenseGateUp => 2 * config.dense_intermediate_size,
            Width::SharedGateUp => 2 * config.shared_intermediate_size,
            Width::Patch => seen(&|vision| vision.hidden_size),
            Width::PatchRotary => seen(&Vision::rotary_dim),
            Width::PatchNetwork => seen(&|vision| vision.intermediate_size),
            Width::Projector => seen(&|vision| vision.projector_hidden_size),
        }
    }
}
