//! A candidate's values of one step, as the runs of a phase read them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use ndarray::Array2;
use reference::config::Config;
use reference::products::Products;
use reference::site::{Extent, NONE};
use reference::{LayerSite, RoundingContract, Site, Storage};

use crate::failure::Failure;
use crate::judge::candidate::{Candidate, other_size};
use crate::judge::lens::Lens;
use crate::judge::masked::with_mask;
use crate::judge::measured::stored;
use crate::judge::stored::{shown_in, storage_at};
use crate::judge::verdict::{SiteReport, Verdict};

/// Choices that are made for a run, by site; a row of [`NONE`] alone leaves the run its own choice.
pub(super) type Forced = HashMap<Site, Array2<usize>>;

/// A candidate's values of one step and layer, each read once, whichever of its runs asks first.
pub(crate) struct Loaded<'a> {
    candidate: &'a dyn Candidate,
    pub(super) config: &'a Config,
    step: usize,
    pub(super) extent: Extent,
    /// Positions whose keys and values are known to nobody.
    pub(super) absent: usize,
    values: Mutex<HashMap<Site, Arc<Array2<f64>>>>,
    /// Choices that the candidate does not show, as far as they follow from its values.
    recovered: Mutex<Forced>,
    shown: Mutex<HashMap<Site, Option<Arc<[usize]>>>>,
    /// Of these values with the model's weights.
    products: Arc<Products<f64>>,
}

impl<'a> Loaded<'a> {
    pub(crate) fn new(candidate: &'a dyn Candidate, config: &'a Config, step: usize, extent: Extent) -> Self {
        let absent = candidate.start(step).map_or(0, |start| start.absent);
        let (values, shown, recovered) = (Mutex::default(), Mutex::default(), Mutex::default());
        let products = Arc::default();
        Loaded { candidate, config, step, extent, absent, values, recovered, shown, products }
    }

    /// The products that all runs of the phase share, which are of one model.
    pub(super) fn products(&self) -> &Products<f64> {
        &self.products
    }

    /// Goes on with these choices wherever the candidate shows none.
    pub(super) fn recover(&self, choices: Forced) {
        held(&self.recovered).extend(choices);
    }

    /// Whether choices are recovered at a site.
    pub(super) fn has_recovered(&self, site: Site) -> bool {
        held(&self.recovered).contains_key(&site)
    }

    /// Puts the choices that are recovered at a site in place of a run's own.
    pub(super) fn choose_as_recovered(&self, site: Site, chosen: &mut Array2<usize>) {
        let recovered = held(&self.recovered);
        let rows = recovered.get(&site).into_iter().flat_map(|recovered| recovered.rows());
        for (mut own, recovered) in chosen.rows_mut().into_iter().zip(rows) {
            if recovered.iter().any(|&choice| choice != NONE) {
                own.assign(&recovered);
            }
        }
    }

    /// The same values, with these choices beside those that are recovered already.
    pub(super) fn with(&self, choices: Forced) -> Self {
        let (values, shown) = (held(&self.values).clone(), held(&self.shown).clone());
        let mut recovered = held(&self.recovered).clone();
        recovered.extend(choices);
        let (values, shown, recovered) = (Mutex::new(values), Mutex::new(shown), Mutex::new(recovered));
        Loaded { values, recovered, shown, products: Arc::clone(&self.products), ..*self }
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

    pub(super) fn other_size(&self, site: Site) -> Option<(usize, usize)> {
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
    pub(crate) fn shown(&self, site: Site) -> Result<Option<Arc<[usize]>>, Failure> {
        if let Some(shown) = held(&self.shown).get(&site) {
            return Ok(shown.clone());
        }
        let shown: Option<Arc<[usize]>> = self.candidate.shown(self.at(site), self.extent)?.map(Arc::from);
        held(&self.shown).insert(site, shown.clone());
        Ok(shown)
    }

    /// The rows of the reference's matrix at a site that tokens have, each as many as every other.
    pub(super) fn rows(&self, site: Site, tokens: &[usize]) -> Vec<usize> {
        let each = self.size(site).0 / self.extent.tokens.max(1);
        if site.token_axis(self.config) == Some(1) {
            return (0..each)
                .flat_map(|head| tokens.iter().map(move |token| head * self.extent.tokens + token))
                .collect();
        }
        tokens.iter().flat_map(|token| (0..each).map(move |i| token * each + i)).collect()
    }

    /// The rows of the head's output that the candidate shows, if not all; all where that is not known.
    pub(super) fn rows_of_head(&self) -> Option<Vec<usize>> {
        let mut rows = BTreeSet::new();
        for site in [Site::LmHead, Site::Logits].into_iter().filter(|site| self.has(*site)) {
            rows.extend(self.rows(site, &self.shown(site).ok()??));
        }
        Some(rows.into_iter().collect())
    }

    /// Whether nothing that the candidate shows from a site on depends on other tokens than these, which it shows there: no
    /// later layer attends, and no later site has a row of another token.
    pub(super) fn leads_nowhere_else(&self, site: Site, tokens: &[usize]) -> Result<bool, Failure> {
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

    /// In what the candidate gives logits.
    pub(super) fn measure(&self, site: Site) -> Measure {
        self.candidate.measure(self.at(site))
    }

    /// What the candidate's values at a site are shown in.
    pub(crate) fn shown_in(&self, site: Site, contract: &RoundingContract, values: &Array2<f64>) -> Storage {
        if self.measure(site) == Measure::Logits { shown_in(site, contract, values) } else { stored(values) }
    }

    /// What the candidate stores there, of logits that it gives otherwise nothing: what is made of them is rounded once.
    pub(super) fn stored_in(&self, site: Site, contract: &RoundingContract) -> Storage {
        if self.measure(site) == Measure::Logits { storage_at(site, contract) } else { Storage::Real }
    }

    pub(crate) fn value(&self, site: Site) -> Result<Arc<Array2<f64>>, Failure> {
        if let Some(value) = held(&self.values).get(&site) {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(with_mask(site, self.candidate.matrix(self.at(site), self.extent)?, self.extent));
        self.require(site, value.dim())?;
        held(&self.values).insert(site, Arc::clone(&value));
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

/// What runs read in common, also after one has panicked: nothing is left half done.
fn held<T>(common: &Mutex<T>) -> MutexGuard<'_, T> {
    common.lock().unwrap_or_else(PoisonError::into_inner)
}
