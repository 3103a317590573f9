//! What choices leave in doubt that rounding decides, that a candidate does not show, and that nothing it shows of the same layer tells:
//! rows of their tokens, up to the next value of the residual stream that it shows.
//!
//! ```text
//! layer l      token t chose experts 2 and 5, or 2 and 7          nothing behind is shown, or all of it is at fault anyway
//! layer l + 1  rows of t are in doubt                             until the stream is shown,
//!              and rows behind choices that are open here, too    for what tells of them reads keys of t
//! ```
//!
//! The runs that measure noise make these choices, too, and some of them otherwise: so is the candidate's number of tokens predicted that
//! are off because of that, and more are a fault. What other tokens read of one is covered by the noise itself.

use ndarray::Array2;
use reference::{LayerSite, Site};

use super::floor::MEMBERS;
use super::loaded::Loaded;
use super::state::Phase;
use super::structure::chances;
use super::substitution::Unshown;
use super::way;

/// How often more tokens are off than is taken for chance.
const MISSED: f64 = 1e-6;

/// Choices of tokens that are open.
pub(super) struct Open {
    /// The first site that chooses.
    pub(super) first: Site,
    /// Whether each token of the pass has one.
    pub(super) tokens: Vec<bool>,
}

/// For which tokens a run chose otherwise than the main one.
pub(super) type Otherwise = Vec<bool>;

/// What the main run chose where the candidate shows no choice.
pub(super) type Chosen = Vec<(Site, Array2<usize>)>;

/// Tokens of which something is in doubt.
#[derive(Clone)]
pub(crate) struct Doubtful {
    tokens: Vec<bool>,
    /// For which of them each of the runs that measure noise chose otherwise.
    otherwise: Vec<Otherwise>,
}

impl Doubtful {
    fn new(tokens: Vec<bool>) -> Self {
        Doubtful { otherwise: vec![vec![false; tokens.len()]; MEMBERS], tokens }
    }

    /// How many tokens there are.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether a token's rows are in doubt.
    pub(super) fn has(&self, token: usize) -> bool {
        self.tokens[token]
    }

    /// The same, where runs chose otherwise once more.
    pub(super) fn learn(&mut self, otherwise: &[Otherwise]) {
        for (known, run) in self.otherwise.iter_mut().zip(otherwise) {
            let each = known.iter_mut().zip(run).zip(&self.tokens);
            each.for_each(|((known, run), is_in_doubt)| *known |= run & is_in_doubt);
        }
    }

    /// Those of either.
    fn and(mut self, other: &Doubtful) -> Self {
        self.tokens.iter_mut().zip(&other.tokens).for_each(|(one, other)| *one |= other);
        self.learn(&other.otherwise);
        self
    }

    /// Whether other choices explain that so many tokens are off. The runs made so many of a Poisson variable's, and the candidate is the
    /// next run.
    pub(super) fn explains(&self, off: usize) -> bool {
        let count = self.otherwise.iter().flatten().filter(|is_otherwise| **is_otherwise).count();
        chances::next_has(off, count, MEMBERS) > MISSED
    }
}

/// What is in doubt of a pass, on its way through the layers.
#[derive(Default)]
pub(super) struct Doubt {
    /// Of the residual stream before a layer, if anything is.
    stream: Option<Doubtful>,
    /// Those of the phase's choices that nothing tells for sure: their recovery was given up, as of a layer that is at fault whatever
    /// they are, or what tells of them is in doubt.
    given_up: Option<Open>,
}

impl Doubt {
    /// The same at the start of a pass, or where the stream is shown.
    pub(super) fn begin(&mut self) {
        self.stream = None;
    }

    /// Whether anything is in doubt of the residual stream, and so of what tells of a layer's choices.
    pub(super) fn is_any(&self) -> bool {
        self.stream.is_some()
    }

    /// Nothing tells these choices of the phase for sure.
    pub(super) fn give_up(&mut self, open: Open) {
        self.given_up = Some(open);
    }

    /// Whether choices before a site were given up.
    pub(super) fn is_given_up_before(&self, site: Site) -> bool {
        self.given_up.as_ref().is_some_and(|open| site > open.first)
    }

    /// The tokens whose rows of what was computed at a site are in doubt, if any are.
    pub(super) fn at(&self, site: Site, computed: &Array2<f64>, loaded: &Loaded<'_>) -> Option<Doubtful> {
        let own = self.given_up.as_ref().filter(|_| self.is_given_up_before(site));
        let all = together(own.map(|open| &open.tokens[..]), self.of_stream(site, loaded))?;
        has_rows_of(site, computed, all.len()).then_some(all)
    }

    /// Those of the stream, if a site is computed from it.
    fn of_stream(&self, site: Site, loaded: &Loaded<'_>) -> Option<&Doubtful> {
        let way = way::to(site, |input| loaded.has(input));
        self.stream.as_ref().filter(|_| way.into_iter().any(way::reads_stream))
    }

    /// Goes on behind a phase that leaves tokens' choices open, beside those that were given up, and of which runs chose otherwise.
    pub(super) fn go_on(&mut self, phase: Phase, loaded: &Loaded<'_>, mut open: Vec<bool>, otherwise: &[Otherwise]) {
        let given_up = self.given_up.take();
        let Phase::Layer(layer) = phase else { return };
        let output = Site::Layer(layer, LayerSite::Output);
        if loaded.has(output) {
            return self.begin();
        }
        if let Some(given_up) = given_up {
            open.iter_mut().zip(given_up.tokens).for_each(|(open, given_up)| *open |= given_up);
        }
        self.stream = together(Some(&open), self.of_stream(output, loaded));
        if let Some(stream) = &mut self.stream {
            stream.learn(otherwise);
        }
    }
}

/// The tokens that are open, and those that are in doubt already, if there are any.
fn together(open: Option<&[bool]>, doubtful: Option<&Doubtful>) -> Option<Doubtful> {
    let open = open.filter(|open| open.contains(&true)).map(|open| Doubtful::new(open.to_vec()));
    match (open, doubtful) {
        (Some(open), Some(doubtful)) => Some(open.and(doubtful)),
        (open, doubtful) => open.or_else(|| doubtful.cloned()),
    }
}

/// For which of so many tokens choices are others than those of the main run.
pub(super) fn otherwise(chosen: &[Unshown], main: &[(Site, Array2<usize>)], tokens: usize) -> Otherwise {
    let mut otherwise = vec![false; tokens];
    for (site, main) in main {
        let Some(chosen) = chosen.iter().find(|unshown| unshown.site == *site) else { continue };
        let sets = chosen.chosen.rows().into_iter().zip(main.rows()).enumerate();
        sets.for_each(|(row, (one, other))| {
            otherwise[row % tokens] |= !one.iter().all(|choice| other.iter().any(|other| other == choice));
        });
    }
    otherwise
}

/// Whether a site has a row for each token, or as attention's probabilities have them, for each token of each head.
pub(super) fn has_rows_of(site: Site, value: &Array2<f64>, tokens: usize) -> bool {
    let by_head = matches!(site, Site::Layer(_, LayerSite::Probabilities));
    value.nrows() == tokens || by_head && value.nrows().is_multiple_of(tokens)
}
