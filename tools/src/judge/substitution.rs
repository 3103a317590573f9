//! The probes that put a candidate's values in place of the reference's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use fixtures::names::at::At;
use ndarray::{Array2, Axis};
use reference::config::Config;
use reference::probe::Probe;
use reference::products::Products;
use reference::site::{Extent, NONE};
use reference::{LayerSite, Real, Site, Tracked};

use super::lens::Lens;
use crate::failure::Failure;
use crate::judge::candidate::{Candidate, other_size};
use crate::judge::unknown::Unknown;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::judge::way;

/// A candidate's values of one step and layer, each read once.
pub(crate) struct Loaded<'a> {
    candidate: &'a dyn Candidate,
    config: &'a Config,
    step: usize,
    extent: Extent,
    /// Positions whose keys and values are known to nobody.
    absent: usize,
    values: RefCell<HashMap<Site, Rc<Array2<f64>>>>,
    /// Choices that the candidate does not show, as far as they follow from its values.
    recovered: RefCell<Forced>,
    shown: RefCell<HashMap<Site, Option<Rc<[usize]>>>>,
    /// Of these values with the model's weights.
    products: Rc<Products<f64>>,
}

impl<'a> Loaded<'a> {
    pub(crate) fn new(candidate: &'a dyn Candidate, config: &'a Config, step: usize, extent: Extent) -> Self {
        let absent = candidate.start(step).map_or(0, |start| start.absent);
        let (values, shown, recovered) = (RefCell::default(), RefCell::default(), RefCell::default());
        let products = Rc::default();
        Loaded { candidate, config, step, extent, absent, values, recovered, shown, products }
    }

    /// The products that all runs of the phase share, which are of one model.
    pub(super) fn products(&self) -> &Products<f64> {
        &self.products
    }

    /// Goes on with these choices wherever the candidate shows none.
    pub(super) fn recover(&self, choices: Forced) {
        self.recovered.borrow_mut().extend(choices);
    }

    /// Puts the choices that are recovered at a site in place of a run's own.
    pub(super) fn choose_as_recovered(&self, site: Site, chosen: &mut Array2<usize>) {
        let recovered = self.recovered.borrow();
        let rows = recovered.get(&site).into_iter().flat_map(|recovered| recovered.rows());
        for (mut own, recovered) in chosen.rows_mut().into_iter().zip(rows) {
            if recovered.iter().any(|&choice| choice != NONE) {
                own.assign(&recovered);
            }
        }
    }

    /// The same values, with these choices beside those that are recovered already.
    pub(super) fn with(&self, choices: Forced) -> Self {
        let (values, shown, recovered) = (self.values.clone(), self.shown.clone(), self.recovered.clone());
        recovered.borrow_mut().extend(choices);
        Loaded { values, recovered, shown, products: Rc::clone(&self.products), ..*self }
    }

    /// Whether the keys and values of all positions are known.
    pub(super) fn is_whole(&self) -> bool {
        self.absent == 0
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

    /// The shape of the site's value as it is dumped, of the tokens that are shown.
    pub(crate) fn shape(&self, site: Site, shown: Option<&[usize]>) -> Vec<usize> {
        site.shape(self.config, self.extent_of(shown))
    }

    fn extent_of(&self, shown: Option<&[usize]>) -> Extent {
        Extent { tokens: shown.map_or(self.extent.tokens, <[usize]>::len), ..self.extent }
    }

    /// The tokens of the pass that the candidate shows at a site, if not all.
    pub(crate) fn shown(&self, site: Site) -> Result<Option<Rc<[usize]>>, Failure> {
        if let Some(shown) = self.shown.borrow().get(&site) {
            return Ok(shown.clone());
        }
        let shown: Option<Rc<[usize]>> = self.candidate.shown(self.at(site), self.extent)?.map(Rc::from);
        self.shown.borrow_mut().insert(site, shown.clone());
        Ok(shown)
    }

    /// The rows of the reference's matrix at a site that tokens have, each as many as every other.
    fn rows(&self, site: Site, tokens: &[usize]) -> Vec<usize> {
        let each = self.size(site).0 / self.extent.tokens.max(1);
        tokens.iter().flat_map(|token| (0..each).map(move |i| token * each + i)).collect()
    }

    /// Whether nothing that the candidate shows from a site on depends on other tokens than these, which it shows there: no
    /// later layer attends, and no later site has a row of another token.
    fn leads_nowhere_else(&self, site: Site, tokens: &[usize]) -> Result<bool, Failure> {
        let last = self.config.num_hidden_layers.saturating_sub(1);
        let in_tail = |other: Site| other > site && other > Site::Layer(last, LayerSite::Probabilities);
        if site <= Site::Layer(last, LayerSite::Probabilities) {
            return Ok(false);
        }
        let inside = LayerSite::ALL.into_iter().map(|site| Site::Layer(last, site));
        let after = inside.chain([Site::FinalNorm, Site::LmHead, Site::Logits]);
        for other in after.filter(|&other| in_tail(other) && self.has(other)) {
            let shown = self.shown(other)?;
            if shown.is_none_or(|shown| shown.iter().any(|token| !tokens.contains(token))) {
                return Ok(false);
            }
        }
        Ok(true)
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
        let expected = site.matrix(self.config, self.extent_of(self.shown(site)?.as_deref()));
        // Blocks beyond those that there are to choose are for the choice's own verdict.
        let more = matches!(site, Site::Layer(_, LayerSite::Blocks)) && found.1 > expected.1;
        if found == expected || more && found.0 == expected.0 {
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
    /// Sites on the way that the candidate does not show: operators that are judged together with this one.
    pub(crate) segment: Vec<Site>,
    /// The tokens that the candidate shows, if not all: `computed` has the rows of these.
    pub(crate) shown: Option<Rc<[usize]>>,
    /// Why nothing can be said of the value: it depends on what nobody knows.
    pub(crate) unknown: Option<String>,
}

/// A choice that the reference would have made.
pub(crate) struct SeenChoice {
    pub(crate) site: Site,
    pub(crate) tokens: usize,
    pub(crate) scores: Tracked<f64>,
    pub(crate) chosen: Array2<usize>,
    pub(crate) candidate: Array2<usize>,
    /// The tokens that the candidate shows, if not all.
    pub(crate) shown: Option<Rc<[usize]>>,
}

/// Choices that are made for a run, by site; a row of [`NONE`] alone leaves the run its own choice.
pub(super) type Forced = HashMap<Site, Array2<usize>>;

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
    /// Choices that the candidate does not show, where errors of scores are known, or all.
    pub(super) unshown: Vec<Unshown>,
    /// Whether all choices that the candidate does not show are kept.
    pub(super) records: bool,
    pub(crate) missing: Vec<Site>,
    /// Sites that the candidate shows in another size.
    pub(crate) others: Vec<Site>,
    pub(crate) failure: Option<Failure>,
    pub(super) segment: Vec<Site>,
    unknown: Unknown,
}

impl<'a> Substitution<'a> {
    pub(crate) fn new(lens: Lens, loaded: &'a Loaded<'a>, only: Option<Vec<Site>>) -> Self {
        let (seen, choices, unshown, missing, others, segment) = Default::default();
        let unknown = Unknown::new(loaded.absent);
        let (failure, records) = (None, false);
        Substitution { lens, loaded, only, seen, choices, unshown, records, missing, others, failure, segment, unknown }
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
        let has = self.loaded.has(site);
        let unknown = self.unknown.meet(site, has);
        if !has {
            self.pass_over(site);
            return Ok(());
        }
        let (candidate, shown) = (self.loaded.value(site)?, self.loaded.shown(site)?);
        let rows = shown.as_ref().map(|tokens| self.loaded.rows(site, tokens));
        if self.keeps(site) {
            let computed = rows.as_ref().map_or_else(|| value.clone(), |rows| value.select(rows));
            let (passed, loaded) = (std::mem::take(&mut self.segment), self.loaded);
            let segment = way::segment(site, passed, loaded.config, loaded.extent, |input| loaded.has(input));
            self.seen.push(Seen { site, computed, segment, shown: shown.clone(), unknown });
        }
        // What follows a value that is not a number is judged from the reference's own.
        if self.lens.substitutes(site) && candidate.iter().all(|x| x.is_finite() || site.is_masked()) {
            *value = match (rows.as_ref().zip(shown), &value.error) {
                (Some((rows, tokens)), _) => {
                    let exact = self.loaded.leads_nowhere_else(site, &tokens)?;
                    partly(value, rows, &candidate, exact)
                }
                (None, Some(_)) => Tracked::exact(candidate.as_ref().clone()),
                (None, None) => Tracked::plain(candidate.as_ref().clone()),
            };
        }
        Ok(())
    }

    fn try_choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) -> Result<(), Failure> {
        if !self.loaded.has(site) {
            self.pass_over(site);
            let is_recovered = self.loaded.recovered.borrow().contains_key(&site);
            if self.records || scores.error.is_some() && !is_recovered {
                self.unshown.push(Unshown { site, scores: scores.clone(), chosen: chosen.clone() });
            }
            self.loaded.choose_as_recovered(site, chosen);
            return Ok(());
        }
        let (candidate, shown) = (self.loaded.choices(site)?, self.loaded.shown(site)?);
        let usable = is_usable(site, scores.dim().1, &candidate);
        let rows = shown.as_ref().map(|tokens| self.loaded.rows(site, tokens));
        if self.lens == Lens::Local && self.only.is_none() {
            let (scores, chosen) = match &rows {
                None => (scores.clone(), chosen.clone()),
                Some(rows) => (scores.select(rows), chosen.select(Axis(0), rows)),
            };
            let tokens = shown.as_ref().map_or(self.loaded.extent.tokens, |shown| shown.len());
            let (candidate, shown) = (candidate.clone(), shown.clone());
            self.choices.push(SeenChoice { site, tokens, scores, chosen, candidate, shown });
        }
        match rows {
            _ if !usable => {}
            None => *chosen = candidate,
            Some(rows) => {
                let shown = rows.iter().zip(candidate.rows());
                shown.for_each(|(&row, candidate)| chosen.row_mut(row).assign(&candidate));
            }
        }
        Ok(())
    }
}

/// The reference's value with a candidate's in some of its rows. The others keep their error, unless nothing that is judged
/// depends on them.
fn partly(value: &Tracked<f64>, rows: &[usize], candidate: &Array2<f64>, exact: bool) -> Tracked<f64> {
    let mut value = value.clone();
    for (&row, candidate) in rows.iter().zip(candidate.rows()) {
        value.value.row_mut(row).assign(&candidate);
        if let Some(error) = &mut value.error {
            error.certain.row_mut(row).fill(0.0);
            error.sigma.row_mut(row).fill(0.0);
        }
    }
    match value.error {
        Some(_) if exact => Tracked::exact(value.value),
        error => Tracked { error, ..value },
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

/// A run in f32 is put next to the same candidate.
impl Probe<f32> for Substitution<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        let mut wide = value.widened();
        Probe::<f64>::visit(self, site, &mut wide);
        value.value = wide.value.mapv(f32::of);
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f32>, chosen: &mut Array2<usize>) {
        Probe::<f64>::choose(self, site, &scores.widened(), chosen);
    }

    fn wants(&self, site: Site) -> bool {
        Probe::<f64>::wants(self, site)
    }

    fn stores(&self, site: Site) -> bool {
        Probe::<f64>::stores(self, site)
    }
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

    fn stores(&self, site: Site) -> bool {
        self.loaded.has(site)
    }
}
