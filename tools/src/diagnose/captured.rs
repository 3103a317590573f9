//! Tensors that hold another site's values: a hook on another module, a module's input for its output, two names exchanged, a
//! buffer that was used again before it was saved.
//!
//! Where an operator computes what another site has, as without a norm, what follows is computed from that. Where a tensor alone
//! has it, what follows is right from what should have been there: so the reference goes on from its own values at every fault,
//! and what a fault's tensor has is looked for among what is computed at all sites. It counts if the candidate, read so, has fewer
//! faults and no new one, and if something that was computed from the right values is shown.

use std::collections::{BTreeMap, HashMap};

use fixtures::names::at::At;
use ndarray::{Array2, s};
use reference::{Site, Storage};

use super::catalogue::assumption::Assumption;
use super::catalogue::instead::Instead;
use super::catalogue::mistake::{Assumed, Change, in_any_layer};
use super::diagnosis::Explained;
use super::search::kinds;
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

/// Tensors that hold another site's values.
pub(super) struct Captured {
    pub(super) explained: Explained,
    pub(super) assumption: Assumption,
    pub(super) reports: Vec<SiteReport>,
}

/// A fault's tensor: rows and columns, and the last of its rows.
struct Shown {
    dim: (usize, usize),
    rows: Array2<f64>,
    /// How far what the reference computes there is.
    own: f64,
    /// Another site that it is near to, and how near.
    other: Option<(f64, Site)>,
}

impl Shown {
    /// Whether a site is nearer than those before; of what has the same values, the same operator's in another layer is meant.
    fn is_nearer(&self, apart: f64, is_alike: bool) -> bool {
        self.other.is_none_or(|(nearest, _)| apart < nearest || is_alike && apart == nearest)
    }
}

fn is_alike(one: Site, other: Site) -> bool {
    in_any_layer(one) == in_any_layer(other)
}

impl Comparison<'_> {
    /// Faults that are none where their tensors are read as those of other sites, if any are.
    pub(super) fn captured(&self, before: &Assumption, reports: &[SiteReport]) -> Result<Option<Captured>, Failure> {
        let faults = faults(reports);
        let instead = self.other_sites(before, &faults)?;
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
        let explained = Explained { layers, fits, left: left.len(), ..Explained::of((*first).clone(), &assumed) };
        Ok(Some(Captured { explained, assumption: after, reports: under }))
    }

    /// The faults' sites whose tensors have what is computed at another site, and that one.
    fn other_sites(&self, before: &Assumption, faults: &[&SiteReport]) -> Result<Vec<Instead>, Failure> {
        let mut shown = HashMap::new();
        for fault in faults.iter().filter(|fault| !fault.site.is_choice()) {
            let place = At { step: fault.step, site: fault.site };
            if let Some(values) = self.whole(place)? {
                let last = values.nrows().saturating_sub(ROWS);
                let (dim, rows) = (values.dim(), values.slice(s![last.., ..]).to_owned());
                shown.insert(place, Shown { dim, rows, own: f64::INFINITY, other: None });
            }
        }
        if shown.is_empty() {
            return Ok(Vec::new());
        }
        let hidden = faults.iter().map(|fault| Instead { named: fault.site, is: None, is_read: false }).collect();
        let without = before.and(Assumed::everywhere(&kinds::CAPTURED, Change::Captured(hidden)))?;
        let limit = ROUNDINGS * self.contract.shown().unit_roundoff().max(ROUNDINGS * Storage::F32.unit_roundoff());
        self.under(&without, self.all(), |verification| {
            verification.each_computed(self.contract, |place, values| {
                for (of, shown) in shown.iter_mut().filter(|(of, _)| of.step == place.step) {
                    if values.dim() == shown.dim {
                        let apart = apart(&shown.rows, values);
                        if of.site == place.site {
                            shown.own = apart;
                        } else if apart <= limit && shown.is_nearer(apart, is_alike(of.site, place.site)) {
                            shown.other = Some((apart, place.site));
                        }
                    }
                }
            })
        })?;
        let mut found: BTreeMap<Site, Site> = BTreeMap::new();
        for (of, Shown { own, other, .. }) in shown {
            if let Some((_, other)) = other.filter(|(apart, _)| NEARER * apart < own) {
                found.insert(of.site, other);
            }
        }
        let candidate = self.compared.candidate;
        let mut instead: Vec<Instead> = Vec::new();
        for (&named, &is) in &found {
            let has_own = candidate.has(At { step: 0, site: is }) && !found.contains_key(&is);
            let is_taken = has_own || instead.iter().any(|one| one.is_read && one.is == Some(is));
            instead.push(Instead { named, is: Some(is), is_read: !is_taken });
        }
        Ok(instead)
    }

    /// What the candidate has at a site, if it shows all tokens there, and numbers alone.
    fn whole(&self, place: At) -> Result<Option<Array2<f64>>, Failure> {
        let (candidate, extent) = (self.compared.candidate, self.extent(place.step));
        if !candidate.has(place) || candidate.shown(place, extent)?.is_some() {
            return Ok(None);
        }
        let values = candidate.matrix(place, extent)?;
        Ok(Some(values).filter(|values| values.iter().all(|x| x.is_finite())))
    }
}

/// How far the last rows of values are from others, of these: that of the row that is farthest.
fn apart(rows: &Array2<f64>, values: &Array2<f64>) -> f64 {
    let last = values.slice(s![values.nrows() - rows.nrows().., ..]);
    let each = rows.rows().into_iter().zip(last.rows()).map(|(own, other)| {
        let (apart, size) = (&own - &other, other.dot(&other));
        if size > 0.0 { (apart.dot(&apart) / size).sqrt() } else { f64::INFINITY }
    });
    each.fold(0.0, |most, apart| if apart <= most { most } else { apart })
}
