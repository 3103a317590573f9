//! A candidate: named activations that are put next to the reference's, live or from a dump.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use ndarray::{Array2, Axis};
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::site::{Extent, NONE};
use reference::{LayerSite, Site};

use crate::failure::Failure;

/// Activations by site.
pub trait Candidate: Sync {
    /// Whether there is a value.
    fn has(&self, at: At) -> bool;

    /// The value, as the matrix that the reference holds at the site; an error if its shape is another.
    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure>;

    /// The choices at a site that has them; an error if their shape is another.
    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure>;

    /// The tokens of the pass whose rows are in what is shown; all of them, if `None`.
    fn shown(&self, _at: At, _extent: Extent) -> Result<Option<Vec<usize>>, Failure> {
        Ok(None)
    }

    /// In what logits are given at a site.
    fn measure(&self, _at: At) -> Measure {
        Measure::Logits
    }

    /// Where a pass begins, if not at the position after the pass before it.
    fn start(&self, _step: usize) -> Option<Start> {
        None
    }

    /// Rows and columns of what is kept at a site, whatever the model's sizes.
    fn size(&self, at: At) -> Option<(usize, usize)>;

    /// The same candidate, as one of a model of other sizes.
    fn under<'a>(&'a self, config: &Config) -> Box<dyn Candidate + 'a>;
}

/// Where a pass begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The position of its first token in the request. Tokens that earlier passes had from there on were drafts, rejected since.
    pub position: usize,
    /// The position by which that token is rotated, which is another where an engine counts padding.
    pub rotated: usize,
    /// Positions at the request's beginning that no pass has: their keys and values came from a cache.
    pub absent: usize,
}

impl<C: Candidate + ?Sized> Candidate for &C {
    fn has(&self, at: At) -> bool {
        (**self).has(at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        (**self).matrix(at, extent)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        (**self).choices(at, extent)
    }

    fn shown(&self, at: At, extent: Extent) -> Result<Option<Vec<usize>>, Failure> {
        (**self).shown(at, extent)
    }

    fn measure(&self, at: At) -> Measure {
        (**self).measure(at)
    }

    fn start(&self, step: usize) -> Option<Start> {
        (**self).start(step)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        (**self).size(at)
    }

    fn under<'a>(&'a self, config: &Config) -> Box<dyn Candidate + 'a> {
        (**self).under(config)
    }
}

/// The rows and columns of what a candidate shows where they are not the model's, and a reading may be why: it rotates or
/// chooses another number, or chooses for others.
pub(crate) fn other_size(candidate: &dyn Candidate, config: &Config, at: At, extent: Extent) -> Option<(usize, usize)> {
    let found = candidate.size(at).filter(|_| at.site.is_sized_by_reading())?;
    (found != at.site.matrix(config, extent)).then_some(found)
}

/// Activations in memory: a row a position, whether it was read with the prompt or decoded.
#[derive(Debug, Default, PartialEq)]
pub struct Live {
    values: HashMap<Site, Array2<f32>>,
    choices: HashMap<Site, Array2<usize>>,
    /// Positions of the passes so far, and of the last one.
    positions: usize,
    tokens: usize,
}

impl Candidate for Live {
    fn has(&self, At { step, site }: At) -> bool {
        step == 0 && (self.values.contains_key(&site) || self.choices.contains_key(&site))
    }

    fn matrix(&self, at: At, _: Extent) -> Result<Array2<f64>, Failure> {
        let value = self.values.get(&at.site).ok_or_else(|| Failure::new(format!("{at}: not captured")))?;
        Ok(value.mapv(f64::from))
    }

    fn choices(&self, at: At, _: Extent) -> Result<Array2<usize>, Failure> {
        self.choices.get(&at.site).cloned().ok_or_else(|| Failure::new(format!("{at}: not captured")))
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        let chosen = self.choices.get(&at.site).map(Array2::dim);
        self.values.get(&at.site).map(Array2::dim).or(chosen)
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

/// Takes the values of every forward pass, one below the other; blocks of keys, of which there are more and more, token by token
/// for each choice.
impl Capture for Live {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        if site == Site::Embedding {
            self.tokens = value.nrows();
            self.positions += self.tokens;
        }
        if matches!(site, Site::Layer(_, LayerSite::BlockMax)) {
            let passes = (self.positions - self.tokens, self.tokens);
            append_blocks(&mut self.values, site, passes, value, f32::NEG_INFINITY);
        } else {
            append(&mut self.values, site, value);
        }
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        if matches!(site, Site::Layer(_, LayerSite::Blocks)) {
            let passes = (self.positions - self.tokens, self.tokens);
            append_blocks(&mut self.choices, site, passes, chosen, NONE);
        } else {
            append(&mut self.choices, site, chosen);
        }
    }
}

fn append<T: Clone>(to: &mut HashMap<Site, Array2<T>>, site: Site, rows: Array2<T>) {
    match to.entry(site) {
        Entry::Vacant(place) => drop(place.insert(rows)),
        Entry::Occupied(mut before) => {
            before.get_mut().append(Axis(0), rows.view()).expect("a site has as many columns in every pass");
        }
    }
}

/// Rows for each choice of `tokens` tokens, after those of `seen` others; `missing` where there were fewer columns.
fn append_blocks<T: Copy>(
    to: &mut HashMap<Site, Array2<T>>,
    site: Site,
    (seen, tokens): (usize, usize),
    rows: Array2<T>,
    missing: T,
) {
    let choices = rows.nrows() / tokens;
    let before = to.remove(&site).unwrap_or_else(|| Array2::from_elem((choices * seen, 0), missing));
    let dim = (choices * (seen + tokens), before.ncols().max(rows.ncols()));
    let all = Array2::from_shape_fn(dim, |(row, column)| {
        let (choice, token) = (row / (seen + tokens), row % (seen + tokens));
        let found = match token.checked_sub(seen) {
            None => before.get([choice * seen + token, column]),
            Some(token) => rows.get([choice * tokens + token, column]),
        };
        found.copied().unwrap_or(missing)
    });
    to.insert(site, all);
}

/// Activations on disk.
impl Candidate for Sited {
    fn has(&self, at: At) -> bool {
        Sited::has(self, at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        Ok(Sited::matrix(self, at, extent)?)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        Ok(Sited::choices(self, at, extent)?)
    }

    fn shown(&self, at: At, extent: Extent) -> Result<Option<Vec<usize>>, Failure> {
        Ok(Sited::shown(self, at, extent)?)
    }

    fn measure(&self, at: At) -> Measure {
        Sited::measure(self, at)
    }

    fn start(&self, step: usize) -> Option<Start> {
        let (request, pass) = self.request().and_then(|request| Some((request, request.passes.get(step)?)))?;
        Some(Start { position: pass.first, rotated: pass.first + request.shift, absent: request.absent })
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        Sited::size(self, at)
    }

    fn under<'a>(&'a self, config: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(Sited::under(self, config))
    }
}
