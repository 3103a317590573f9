//! The probes that put a candidate's values in place of the reference's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use fixtures::names::at::At;
use ndarray::Array2;
use reference::config::Config;
use reference::probe::Probe;
use reference::site::Extent;
use reference::site::NONE;
use reference::{LayerSite, Site, Tracked};

use super::lens::Lens;
use crate::failure::Failure;
use crate::judge::candidate::{Candidate, other_size};
use crate::judge::verdict::{SiteReport, Verdict};

/// A candidate's values of one step and layer, each read once.
pub(crate) struct Loaded<'a> {
    candidate: &'a dyn Candidate,
    config: &'a Config,
    step: usize,
    extent: Extent,
    values: RefCell<HashMap<Site, Rc<Array2<f64>>>>,
    /// Choices that the candidate does not show, as far as they follow from its values.
    recovered: RefCell<HashMap<Site, Array2<usize>>>,
}

impl<'a> Loaded<'a> {
    pub(crate) fn new(candidate: &'a dyn Candidate, config: &'a Config, step: usize, extent: Extent) -> Self {
        Loaded { candidate, config, step, extent, values: RefCell::default(), recovered: RefCell::default() }
    }

    /// Goes on with these choices wherever the candidate shows none.
    pub(super) fn recover(&self, choices: HashMap<Site, Array2<usize>>) {
        self.recovered.borrow_mut().extend(choices);
    }

    /// The same values, with other choices where the candidate shows none.
    pub(super) fn with(&self, recovered: HashMap<Site, Array2<usize>>) -> Self {
        let values = RefCell::new(self.values.borrow().clone());
        Loaded { values, recovered: RefCell::new(recovered), ..*self }
    }

    pub(super) fn tokens(&self) -> usize {
        self.extent.tokens
    }

    pub(crate) fn step(&self) -> usize {
        self.step
    }

    pub(crate) fn has(&self, site: Site) -> bool {
        self.candidate.has(self.at(site)) && self.other_size(site).is_none()
    }

    fn other_size(&self, site: Site) -> Option<(usize, usize)> {
        other_size(self.candidate, self.config, self.at(site), self.extent)
    }

    /// The report of a site that the candidate shows in another size.
    pub(crate) fn fault_of_size(&self, site: Site) -> SiteReport {
        let ((rows, columns), found) = (self.size(site), self.other_size(site));
        let note = found.map(|found| format!("it is {} × {}, expected {rows} × {columns}", found.0, found.1));
        SiteReport { verdict: Verdict::Fault, faults: 1, note, ..SiteReport::missing(self.step, site, Lens::Local) }
    }

    /// The rows and columns that the site has in the model.
    fn size(&self, site: Site) -> (usize, usize) {
        site.matrix(self.config, self.extent)
    }

    /// The shape of the site's value as it is dumped.
    pub(crate) fn shape(&self, site: Site) -> Vec<usize> {
        site.shape(self.config, self.extent)
    }

    pub(crate) fn value(&self, site: Site) -> Result<Rc<Array2<f64>>, Failure> {
        if let Some(value) = self.values.borrow().get(&site) {
            return Ok(Rc::clone(value));
        }
        let value = Rc::new(self.candidate.matrix(self.at(site), self.extent)?);
        self.require(site, value.dim())?;
        self.values.borrow_mut().insert(site, Rc::clone(&value));
        Ok(value)
    }

    pub(crate) fn choices(&self, site: Site) -> Result<Array2<usize>, Failure> {
        let choices = self.candidate.choices(self.at(site), self.extent)?;
        self.require(site, choices.dim())?;
        Ok(choices)
    }

    fn require(&self, site: Site, found: (usize, usize)) -> Result<(), Failure> {
        let expected = self.size(site);
        if found == expected {
            return Ok(());
        }
        let problem = format!("{}: is {found:?} as a matrix, expected {expected:?}", self.at(site));
        Err(Failure::new(problem).help("are the tokens and the model those of the candidate?"))
    }

    fn at(&self, site: Site) -> At {
        At { step: self.step, site }
    }
}

/// What the reference computed at a site that is judged.
pub(crate) struct Seen {
    pub(crate) site: Site,
    /// Before the candidate's value was put in its place.
    pub(crate) computed: Tracked<f64>,
    /// Sites on the way that the candidate does not show.
    pub(crate) segment: Vec<Site>,
}

/// A choice that the reference would have made.
pub(crate) struct SeenChoice {
    pub(crate) site: Site,
    pub(crate) tokens: usize,
    pub(crate) scores: Tracked<f64>,
    pub(crate) chosen: Array2<usize>,
    pub(crate) candidate: Array2<usize>,
}

/// A choice that the candidate does not show.
pub(super) struct Unshown {
    pub(super) site: Site,
    /// By which the reference chose, with their errors.
    pub(super) scores: Tracked<f64>,
    /// What the reference chose.
    pub(super) chosen: Array2<usize>,
}

/// Puts the candidate's values in place of the reference's where the lens says so, and keeps what was there.
pub(crate) struct Substitution<'a> {
    pub(crate) lens: Lens,
    pub(crate) loaded: &'a Loaded<'a>,
    /// Nothing is kept of sites that this does not name; all, if it is `None`.
    pub(crate) only: Option<Vec<Site>>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) choices: Vec<SeenChoice>,
    /// Choices that the candidate does not show, where errors of scores are known.
    pub(super) unshown: Vec<Unshown>,
    pub(crate) missing: Vec<Site>,
    /// Sites that the candidate shows in another size.
    pub(crate) others: Vec<Site>,
    pub(crate) failure: Option<Failure>,
    segment: Vec<Site>,
}

impl<'a> Substitution<'a> {
    pub(crate) fn new(lens: Lens, loaded: &'a Loaded<'a>, only: Option<Vec<Site>>) -> Self {
        let (seen, choices, unshown, missing, others, segment) = Default::default();
        Substitution { lens, loaded, only, seen, choices, unshown, missing, others, failure: None, segment }
    }

    fn keeps(&self, site: Site) -> bool {
        self.lens.judges(site) && self.only.as_ref().is_none_or(|only| only.contains(&site))
    }

    /// Goes on with the reference's own value.
    fn pass_over(&mut self, site: Site) {
        self.segment.push(site);
        let of = if self.loaded.other_size(site).is_some() { &mut self.others } else { &mut self.missing };
        of.push(site);
    }

    fn try_visit(&mut self, site: Site, value: &mut Tracked<f64>) -> Result<(), Failure> {
        if !self.loaded.has(site) {
            self.pass_over(site);
            return Ok(());
        }
        let candidate = self.loaded.value(site)?;
        if self.keeps(site) {
            self.seen.push(Seen { site, computed: value.clone(), segment: std::mem::take(&mut self.segment) });
        }
        // What follows a value that is not a number is judged from the reference's own.
        if self.lens.substitutes(site) && candidate.iter().all(|x| x.is_finite() || site.is_masked()) {
            *value = match &value.error {
                Some(_) => Tracked::exact(candidate.as_ref().clone()),
                None => Tracked::plain(candidate.as_ref().clone()),
            };
        }
        Ok(())
    }

    fn try_choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) -> Result<(), Failure> {
        if !self.loaded.has(site) {
            self.pass_over(site);
            if let Some(recovered) = self.loaded.recovered.borrow().get(&site) {
                chosen.clone_from(recovered);
            } else if scores.error.is_some() {
                self.unshown.push(Unshown { site, scores: scores.clone(), chosen: chosen.clone() });
            }
            return Ok(());
        }
        let candidate = self.loaded.choices(site)?;
        let usable = is_usable(site, scores.dim().1, &candidate);
        if self.lens == Lens::Local && self.only.is_none() {
            let (scores, chosen, candidate) = (scores.clone(), chosen.clone(), candidate.clone());
            let tokens = self.loaded.extent.tokens;
            self.choices.push(SeenChoice { site, tokens, scores, chosen, candidate });
        }
        if usable {
            *chosen = candidate;
        }
        Ok(())
    }
}

/// Whether a model can go on with these choices: they are there to be chosen, and no block of keys is chosen twice.
pub(crate) fn is_usable(site: Site, choices: usize, chosen: &Array2<usize>) -> bool {
    if !matches!(site, Site::Layer(_, LayerSite::Blocks)) {
        return chosen.iter().all(|&expert| expert < choices);
    }
    chosen.rows().into_iter().all(|row| {
        let blocks: Vec<usize> = row.iter().copied().filter(|&block| block != NONE).collect();
        blocks.iter().enumerate().all(|(i, block)| *block < choices && !blocks[..i].contains(block))
    })
}

impl Probe<f64> for Substitution<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        if self.failure.is_none() {
            self.failure = self.try_visit(site, value).err();
        }
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if self.failure.is_none() {
            self.failure = self.try_choose(site, scores, chosen).err();
        }
    }

    fn wants(&self, site: Site) -> bool {
        self.lens == Lens::Local && self.loaded.has(site)
    }
}
