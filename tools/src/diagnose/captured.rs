//! Tensors that hold another site's values: a hook on another module, a module's input for its output, two names exchanged, a
//! buffer that was used again before it was saved.
//!
//! Where an operator computes what another site has, as without a norm, what follows is computed from that. Where a tensor alone
//! has it, what follows is right from what should have been there: so the reference goes on from its own values at every fault,
//! and what a fault's tensor has is looked for among what is computed at all sites. It counts if the candidate, read so, has fewer
//! faults and no new one, and if something that was computed from the right values is shown.

use std::collections::BTreeMap;

use fixtures::names::at::At;
use ndarray::{Array2, s};
use reference::{Site, Storage};

use super::catalogue::assumption::Assumption;
use super::catalogue::instead::Instead;
use super::catalogue::mistake::{Assumed, Change};
use super::catalogue::operator::in_any_layer;
use super::diagnosis::Explained;
use super::search::kinds;
use super::share::Share;
use super::trial::{at, faults};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::{SiteReport, Verdict};

/// The last rows of a tensor, which are compared: in the first, rotation and attention leave values as they are.
const ROWS: usize = 4;

/// Roundings of what is stored that an operator of several steps leaves in a row at most, all together.
const ROUNDINGS: f64 = 8.0;

/// How much nearer the other site is than its own.
const NEARER: f64 = 8.0;

/// Of a tensor's values, those that are its own site's, and those that are another's.
type Shares = BTreeMap<Site, [Share; 2]>;

/// Tensors that hold another site's values.
pub(super) struct Captured {
    pub(super) explained: Explained,
    pub(super) assumption: Assumption,
    pub(super) reports: Vec<SiteReport>,
}

/// A fault's tensor.
struct Shown {
    values: Array2<f64>,
    /// How far what the reference computes there is, and the values that are that bit for bit.
    own: (f64, usize),
    /// Another site that it is near to, how near, and the values that are that one's bit for bit.
    other: Option<(f64, Site, usize)>,
}

impl Shown {
    /// Whether a site is nearer than those before; of what has the same values, the same operator's in another layer is meant.
    fn is_nearer(&self, apart: f64, is_alike: bool) -> bool {
        self.other.is_none_or(|(nearest, ..)| apart < nearest || is_alike && apart == nearest)
    }
}

fn is_alike(one: Site, other: Site) -> bool {
    in_any_layer(one) == in_any_layer(other)
}

impl Comparison<'_> {
    /// Faults that are none where their tensors are read as those of other sites, if any are.
    pub(super) fn captured(&self, before: &Assumption, reports: &[SiteReport]) -> Result<Option<Captured>, Failure> {
        let faults = faults(reports);
        let (instead, shares) = self.other_sites(before, &faults)?;
        let Some(first) = faults.iter().find(|fault| instead.iter().any(|one| one.named == fault.site)) else {
            return Ok(None);
        };
        let assumed = Assumed::everywhere(&kinds::CAPTURED, Change::Captured(instead.clone()));
        let after = before.and(assumed.clone())?;
        let under = self.verdicts(&after, self.all())?;
        let left = self::faults(&under);
        let is_new = |fault: &&SiteReport| !faults.iter().any(|before| at(before) == at(fault));
        let is_of = |site: &Site| instead.iter().any(|one| one.named == *site);
        let is_right = |report: &&SiteReport| report.verdict != Verdict::Fault;
        let shows = |report: &SiteReport| is_of(&report.site) || report.segment.iter().any(is_of);
        let is_shown = under.iter().filter(is_right).any(shows);
        if left.len() >= faults.len() || left.iter().any(is_new) || !is_shown {
            return Ok(None);
        }
        let mut layers: Vec<usize> = instead.iter().filter_map(|one| one.named.layer()).collect();
        layers.sort_unstable();
        layers.dedup();
        let fits = (under.iter().filter(is_right).count(), under.len());
        let (left, reproduced) = (left.len(), shares.get(&first.site).copied());
        let explained = Explained { layers, reproduced, fits, left, ..Explained::of((*first).clone(), &assumed) };
        Ok(Some(Captured { explained, assumption: after, reports: under }))
    }

    /// The faults' sites whose tensors have what is computed at another site, and that one; with the values of each that are its
    /// own site's and the other's, of so many.
    fn other_sites(&self, before: &Assumption, faults: &[&SiteReport]) -> Result<(Vec<Instead>, Shares), Failure> {
        let mut shown = BTreeMap::new();
        for fault in faults.iter().filter(|fault| !fault.site.is_choice()) {
            let place = At { step: fault.step, site: fault.site };
            if let Some(values) = self.whole(place)? {
                shown.insert(place, Shown { values, own: (f64::INFINITY, 0), other: None });
            }
        }
        if shown.is_empty() {
            return Ok((Vec::new(), BTreeMap::new()));
        }
        let hidden = faults.iter().map(|fault| Instead { named: fault.site, is: None, is_read: false }).collect();
        let without = before.and(Assumed::everywhere(&kinds::CAPTURED, Change::Captured(hidden)))?;
        let limit = ROUNDINGS * self.contract.shown().unit_roundoff().max(ROUNDINGS * Storage::F32.unit_roundoff());
        self.under(&without, self.all(), |verification| {
            verification.each_computed(self.contract, |place, values| {
                for (of, shown) in shown.iter_mut().filter(|(of, _)| of.step == place.step) {
                    if values.dim() == shown.values.dim() {
                        let apart = apart(&shown.values, values);
                        if of.site == place.site {
                            shown.own = (apart, equal(&shown.values, values));
                        } else if apart <= limit && shown.is_nearer(apart, is_alike(of.site, place.site)) {
                            shown.other = Some((apart, place.site, equal(&shown.values, values)));
                        }
                    }
                }
            })
        })?;
        let mut found: BTreeMap<Site, (Site, [Share; 2])> = BTreeMap::new();
        for (of, Shown { values, own, other }) in shown {
            if let Some((_, other, equal)) = other.filter(|(apart, ..)| NEARER * apart < own.0) {
                let shares = [own.1, equal].map(|equal| Share { count: values.len(), equal });
                found.entry(of.site).or_insert((other, shares));
            }
        }
        let candidate = self.compared.candidate;
        let mut instead: Vec<Instead> = Vec::new();
        for (&named, &(is, _)) in &found {
            let has_own = candidate.has(At { step: 0, site: is }) && !found.contains_key(&is);
            let is_taken = has_own || instead.iter().any(|one| one.is_read && one.is == Some(is));
            instead.push(Instead { named, is: Some(is), is_read: !is_taken });
        }
        Ok((instead, found.into_iter().map(|(named, (_, shares))| (named, shares)).collect()))
    }

    /// What the candidate has at a site, if it shows all tokens there in the model's size, and numbers alone.
    fn whole(&self, place: At) -> Result<Option<Array2<f64>>, Failure> {
        let (candidate, extent) = (self.compared.candidate, self.extent(place.step));
        if !self.shows(place) || candidate.shown(place, extent)?.is_some() {
            return Ok(None);
        }
        let values = candidate.matrix(place, extent)?;
        Ok(Some(values).filter(|values| values.iter().all(|x| x.is_finite())))
    }
}

/// Values that are others, bit for bit.
fn equal(own: &Array2<f64>, values: &Array2<f64>) -> usize {
    own.iter().zip(values).filter(|(own, other)| own == other).count()
}

/// How far the last rows are from those of values, of these: that of the row that is farthest.
fn apart(own: &Array2<f64>, values: &Array2<f64>) -> f64 {
    let last = s![values.nrows().saturating_sub(ROWS).., ..];
    let (own, values) = (own.slice(last), values.slice(last));
    let each = own.rows().into_iter().zip(values.rows()).map(|(own, other)| {
        let (apart, size) = (&own - &other, other.dot(&other));
        if size > 0.0 { (apart.dot(&apart) / size).sqrt() } else { f64::INFINITY }
    });
    each.fold(0.0, |most, apart| if apart <= most { most } else { apart })
}
