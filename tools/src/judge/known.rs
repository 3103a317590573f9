//! Whether a right candidate's values at a site are its twin's but for the order of sums: whether all that rounds on the way there, from
//! what the candidate shows, is performed, and whether tokens err there by themselves.
//!
//! ```text
//! shown x → hidden h → shown y        known, where h and y round as known, and x was saved in the type that it was stored in
//! shown x → hidden k, v → shown y     known, but a key that is another moves all tokens behind it
//! hidden stream → shown y             as it was known before the phase
//! ```

use reference::rounding::{AttentionRound, ExpertSum, NormInput};
use reference::site::{VisionLayerSite, VisionSite};
use reference::{LayerSite, RoundingContract, Site, Storage};

use super::loaded::Loaded;
use super::state::Phase;
use super::stored::storage_at;
use super::way;

/// What is known of the residual stream, from what the candidate shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownStream {
    /// Whether all roundings are performed.
    is_performed: bool,
    /// Whether each token errs by itself, too.
    is_alone: bool,
}

impl KnownStream {
    /// What is shown.
    pub(super) const SHOWN: KnownStream = KnownStream { is_performed: true, is_alone: true };

    pub(super) fn and(self, other: Self) -> Self {
        KnownStream { is_performed: self.is_performed && other.is_performed, is_alone: self.is_alone && other.is_alone }
    }
}

/// What is known of the roundings on the way to a site from what the candidate shows.
pub(super) struct Known {
    /// Whether all of them are performed.
    pub(super) is_performed: bool,
    /// The keys and values on it that tokens read of one another, if these are all that keeps tokens from erring by themselves.
    pub(super) read: Option<Vec<Site>>,
}

impl Known {
    /// Of a site, with what is known of the residual stream before the phase.
    pub(super) fn of(site: Site, contract: &RoundingContract, loaded: &Loaded<'_>, stream: KnownStream) -> Self {
        let way = way::to(site, |input| loaded.has(input));
        let hidden = || way[1..].iter().copied();
        let is_told = !hidden().any(is_context) || tells_attention(site);
        let reads_stream = way.iter().copied().any(way::reads_stream);
        // What values were before they were saved nobody knows, unless they were stored in that type.
        let is_whole = |storage: Storage| [Storage::Real, storage].contains(&contract.saved);
        let mut shown = way.iter().flat_map(|site| way::inputs(*site)).filter(|input| loaded.has(*input));
        let are_whole = shown.all(|input| input.is_choice() || is_whole(storage_at(input, contract)))
            && (!reads_stream || is_whole(contract.streamed().storage));
        let are_performed = are_whole && way.iter().all(|site| rounds_as_known(*site, contract));
        let is_performed = are_performed && (stream.is_performed || !reads_stream);
        let is_told = is_told && is_performed && (stream.is_alone || !reads_stream);
        let read = || hidden().filter(|read| !is_key(site) && way::is_read_by_others(*read)).collect();
        Known { is_performed, read: is_told.then(read) }
    }

    /// The same of the residual stream, if the site is that.
    pub(super) fn stream(&self) -> KnownStream {
        KnownStream { is_performed: self.is_performed, is_alone: self.is_alone() }
    }

    /// Whether each token errs by itself. A key or a value that is another moves all tokens behind it.
    pub(super) fn is_alone(&self) -> bool {
        self.read.as_ref().is_some_and(Vec::is_empty)
    }
}

/// The residual stream, or what goes into it, as a phase leaves it.
pub(super) fn left_by(phase: Phase) -> Option<Site> {
    Some(match phase {
        Phase::Patches(pass) => Site::Vision(pass, VisionSite::PreNorm),
        Phase::TowerLayer(pass, layer) => Site::Vision(pass, VisionSite::Layer(layer, VisionLayerSite::Output)),
        Phase::Features(pass) => Site::Vision(pass, VisionSite::Features),
        Phase::Start => Site::InputsEmbeds,
        Phase::Layer(layer) => Site::Layer(layer, LayerSite::Output),
        Phase::Head => return None,
    })
}

/// Whether values are the residual stream's, between layers or within one.
fn is_stream(site: Site) -> bool {
    site.is_stream() || matches!(site, Site::Layer(_, LayerSite::Residual))
}

fn is_context(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::Context) | Site::Vision(_, VisionSite::Layer(_, VisionLayerSite::Context)))
}

/// Whether values are keys, before anyone reads them.
fn is_key(site: Site) -> bool {
    use VisionLayerSite as Tower;
    match site {
        Site::Layer(_, site) => matches!(site, LayerSite::KNorm | LayerSite::KRope),
        Site::Vision(_, VisionSite::Layer(_, site)) => site == Tower::KRope,
        _ => false,
    }
}

/// Whether values tell how the attention before them rounds: its output, or the residual stream. Behind the next norm little
/// is left of what one attention has otherwise than another, and the precision that was found may not be its own.
fn tells_attention(site: Site) -> bool {
    let is_output = |site: &LayerSite| matches!(site, LayerSite::Context | LayerSite::OProj | LayerSite::Attention);
    match site {
        Site::Layer(_, own) => is_stream(site) || is_output(&own),
        _ => true,
    }
}

/// Whether what an operator rounds inside is performed: attention that does not store its probabilities cuts keys into tiles of
/// unknown sizes, experts may be added in any order, and so may the parts of more than two ranks, and a sum that norms read before
/// it is rounded is not what is shown of it.
fn rounds_as_known(site: Site, contract: &RoundingContract) -> bool {
    match site {
        site if is_context(site) => {
            matches!(contract.attention, AttentionRound::Eager | AttentionRound::Operands)
        }
        Site::Layer(_, LayerSite::OProj | LayerSite::DenseDown | LayerSite::SharedDown) => {
            contract.ranks_of_rows() <= 2
        }
        Site::Layer(_, LayerSite::Mlp) => contract.ranks <= 2,
        Site::Layer(_, LayerSite::Experts) => contract.ranks <= 2 && contract.experts != ExpertSum::EachUnordered,
        Site::FinalNorm | Site::Layer(_, LayerSite::InputNorm | LayerSite::PostAttentionNorm | LayerSite::Output) => {
            contract.norm_input == NormInput::Stored
        }
        _ => true,
    }
}
