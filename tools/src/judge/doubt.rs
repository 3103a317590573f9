//! What choices leave in doubt that rounding decides, that a candidate does not show, and that nothing it shows of the same layer tells:
//! rows of their tokens, up to the next value of the residual stream that it shows.
//!
//! ```text
//! layer l      token t chose experts 2 and 5, or 2 and 7          nothing behind is shown
//! layer l + 1  rows of t are in doubt                             until the stream is shown
//! ```
//!
//! What other tokens read of it is covered by the noise, whose runs choose, too. Where most tokens are open, rounding decides little
//! of that: bounds are so wide that they say nothing, and all are judged by the noise.

use reference::{LayerSite, Site};

use super::loaded::Loaded;
use super::state::Phase;
use super::way;

/// The tokens of a pass whose rows are in doubt, on its way through the layers.
#[derive(Debug, Clone, Default)]
pub(super) struct Doubt {
    /// Those of the residual stream before a layer; none, where it is empty.
    stream: Vec<bool>,
}

impl Doubt {
    /// The same at the start of a pass, or where the stream is shown.
    pub(super) fn begin(&mut self) {
        self.stream.clear();
    }

    /// Which tokens' rows are in doubt at a site, if some are.
    pub(super) fn at(&self, site: Site, loaded: &Loaded<'_>) -> Option<Vec<bool>> {
        let is_read = |site: &Site| match site {
            Site::Layer(_, site) => matches!(site, LayerSite::Residual | LayerSite::InputNorm),
            site => *site == Site::FinalNorm,
        };
        let reads_stream = || way::to(site, |input| loaded.has(input)).iter().any(is_read);
        (are_some(&self.stream) && reads_stream()).then(|| self.stream.clone())
    }

    /// Goes on behind a phase that leaves choices of these tokens open.
    pub(super) fn go_on(&mut self, phase: Phase, loaded: &Loaded<'_>, open: &[bool]) {
        let Phase::Layer(layer) = phase else { return };
        let output = Site::Layer(layer, LayerSite::Output);
        if loaded.has(output) {
            return self.begin();
        }
        let mut stream = self.at(output, loaded).unwrap_or_else(|| vec![false; open.len()]);
        stream.iter_mut().zip(open).for_each(|(row, open)| *row |= open);
        self.stream = stream;
    }
}

/// Whether some tokens are in doubt, and most are not.
pub(super) fn are_some(tokens: &[bool]) -> bool {
    let count = tokens.iter().filter(|is_open| **is_open).count();
    count > 0 && 2 * count < tokens.len()
}
