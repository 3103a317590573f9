//! The probes that put a candidate's values in place of the reference's.

use std::sync::Arc;

use fixtures::names::measure::Measure;
use ndarray::{Array2, Axis};
use reference::bound::ErrorBound;
use reference::probe::Probe;
use reference::site::NONE;
use reference::{LayerSite, Real, Rounding, RoundingContract, Site, Storage, Tracked};

use super::lens::Lens;
use super::loaded::Loaded;
use super::measured::{measured, of_shown, stored};
use super::slots;
use super::stored::{saved_as, storage_at};
use crate::failure::Failure;
use crate::judge::unknown::Unknown;
use crate::judge::way;

/// What the reference computed at a site that is judged.
pub(crate) struct Seen {
    pub(crate) site: Site,
    /// Before the candidate's value was put in its place.
    pub(crate) computed: Tracked<f64>,
    /// Sites on the way that the candidate does not show: operators that are judged together with this one.
    pub(crate) segment: Vec<Site>,
    /// The tokens that the candidate shows, if not all: `computed` has the rows of these.
    pub(crate) shown: Option<Arc<[usize]>>,
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
    pub(crate) shown: Option<Arc<[usize]>>,
    /// Why nothing can be said of it.
    pub(crate) unknown: Option<String>,
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
    /// How the candidate rounds.
    contract: RoundingContract,
    /// Nothing is kept of sites that this does not name; all, if it is `None`.
    pub(crate) only: Option<Vec<Site>>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) choices: Vec<SeenChoice>,
    /// Choices that the candidate does not show, where errors of scores are known, or all.
    pub(super) unshown: Vec<Unshown>,
    /// Whether all choices that the candidate does not show are kept.
    pub(super) records: bool,
    /// Keys and values that the candidate does not show, as operators store them; if they are kept.
    pub(super) read: Option<Vec<(Site, Array2<f64>)>>,
    pub(crate) missing: Vec<Site>,
    /// Sites that the candidate shows in another size.
    pub(crate) others: Vec<Site>,
    pub(crate) failure: Option<Failure>,
    pub(super) segment: Vec<Site>,
    pub(super) unknown: Unknown,
}

impl<'a> Substitution<'a> {
    /// For a run of a candidate that rounds as `contract` says. Nothing is kept of sites that `only` does not name.
    pub(crate) fn new(
        lens: Lens,
        loaded: &'a Loaded<'a>,
        contract: &RoundingContract,
        only: Option<Vec<Site>>,
    ) -> Self {
        let (seen, choices, unshown, missing, others, segment) = Default::default();
        let unknown = Unknown::new(loaded.absent, false);
        let (failure, records, read) = (None, false, None);
        Substitution {
            lens,
            loaded,
            contract: *contract,
            only,
            seen,
            choices,
            unshown,
            records,
            read,
            missing,
            others,
            failure,
            segment,
            unknown,
        }
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
            if let Some(read) = self.read.as_mut().filter(|_| way::is_read_by_others(site)) {
                read.push((site, value.value.clone()));
            }
            self.pass_over(site);
            return Ok(());
        }
        let (candidate, shown) = (self.loaded.value(site)?, self.loaded.shown(site)?);
        let rows = shown.as_ref().map(|tokens| self.loaded.rows(site, tokens));
        // What the candidate's values were converted to when they were saved, and how a run takes them back.
        let saved = saved_as(&self.contract, &candidate)
            .map_or(Rounding::NONE, |storage| Rounding { storage, mode: self.contract.mode });
        if self.keeps(site) {
            let computed = rows.as_ref().map_or_else(|| value.clone(), |rows| value.select(rows));
            // What another run that draws its errors would have saved.
            let save =
                |computed: Tracked<f64>| Tracked { value: computed.value.mapv_into(|x| saved.round(x)), ..computed };
            let computed = if saved.mode.draws() { save(computed) } else { computed };
            let computed = match self.loaded.measure(site) {
                Measure::Logits => computed.with_rounding(saved.storage),
                of => {
                    let logits = Rounding { storage: storage_at(site, &self.contract), mode: self.contract.mode };
                    let computed = measured(of, computed, logits, stored(&candidate));
                    if of == Measure::SomeLogProbs { of_shown(computed, &candidate) } else { computed }
                }
            };
            let computed =
                if slots::are_unknown(site, self.loaded) { slots::in_order_of(&candidate, computed) } else { computed };
            let (passed, loaded) = (std::mem::take(&mut self.segment), self.loaded);
            let segment = way::segment(site, passed, loaded.config, loaded.extent, |input| loaded.has(input));
            self.seen.push(Seen { site, computed, segment, shown: shown.clone(), unknown });
        }
        // What follows a value that is not a number is judged from the reference's own.
        let is_plain = self.loaded.measure(site) == Measure::Logits;
        if is_plain && self.lens.substitutes(site) && candidate.iter().all(|x| x.is_finite() || site.is_masked()) {
            let own_storage = storage_at(site, &self.contract);
            let mut own = before_saved(&candidate, (own_storage, saved), value.error.is_some());
            if slots::are_unknown(site, self.loaded) {
                let order = rows.as_ref().map_or_else(|| value.value.clone(), |rows| value.value.select(Axis(0), rows));
                own = slots::in_order_of(&order, own);
            }
            *value = match rows.as_ref().zip(shown) {
                Some((rows, tokens)) => {
                    let is_alone = self.loaded.leads_nowhere_else(site, &tokens)?;
                    partly(value, rows, &own, is_alone)
                }
                None => own,
            };
        }
        Ok(())
    }

    fn try_choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) -> Result<(), Failure> {
        let has = self.loaded.has(site);
        let unknown = self.unknown.meet(site, has);
        if !has {
            self.pass_over(site);
            let is_recovered = self.loaded.has_recovered(site);
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
            self.choices.push(SeenChoice { site, tokens, scores, chosen, candidate, shown, unknown });
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

/// What a candidate's values of a type were before they were saved, as a run takes them. Where all neighbours in that type are values of
/// the one that they were saved in, too, as those of bf16 are of f16 but for the smallest, or this is the same, nothing was lost.
pub(super) fn before_saved(values: &Array2<f64>, (stored, saved): (Storage, Rounding), bounds: bool) -> Tracked<f64> {
    let own = match saved.storage {
        storage if storage == Storage::Real || storage == stored => Tracked::exact(values.clone()),
        storage => {
            let mut own = Tracked::before_saved(values.clone(), storage, saved.mode);
            // Below a power of two numbers lie twice as dense.
            for (at, &x) in values.indexed_iter().filter(|(_, x)| 2.0 * storage.spacing(**x) <= stored.spacing(**x)) {
                own.value[at] = x;
                if let Some(error) = &mut own.error {
                    (error.certain[at], error.sigma[at]) = (0.0, 0.0);
                }
            }
            own
        }
    };
    if bounds { own } else { Tracked::plain(own.value) }
}

/// The reference's value with a candidate's in some of its rows. The others keep their error, unless the candidate's are alone:
/// nothing that is judged depends on others.
fn partly(value: &Tracked<f64>, rows: &[usize], own: &Tracked<f64>, is_alone: bool) -> Tracked<f64> {
    let mut value = value.clone();
    if let Some(error) = value.error.as_mut().filter(|_| is_alone) {
        *error = ErrorBound::exact(value.value.dim());
    }
    for (i, &row) in rows.iter().enumerate() {
        value.value.row_mut(row).assign(&own.value.row(i));
        if let (Some(error), Some(own)) = (&mut value.error, &own.error) {
            error.certain.row_mut(row).assign(&own.certain.row(i));
            error.sigma.row_mut(row).assign(&own.sigma.row(i));
        }
    }
    value
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

    fn rows_of_head(&self) -> Option<Vec<usize>> {
        self.loaded.rows_of_head()
    }
}
