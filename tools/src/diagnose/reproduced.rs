//! Whether what is assumed of a site reproduces as many of its values as what is right does.
//!
//! Of values that are off a little, much comes within their bounds by chance, and more where what is assumed makes these wide. A
//! right candidate's values are its twin's, bit for bit, but for those that other orders of sums make others: how many these are,
//! the twin's runs in other orders tell.

use reference::Storage;

use super::share::SIGNIFICANT;
use super::trial::{Before, Tried};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::verdict::SiteReport;

/// Of the values that are expected to be the twin's, the share that is so at least under what is right, in types of 16 bits: an error
/// of two steps where rounding is expected alone, as of a factor that was fitted, leaves as many.
const COARSE: f64 = 0.25;

/// The same in finer types, in which a kernel's functions may have errors of ten times what other orders of sums make.
const FINE: f64 = 0.1;

/// Runs in other orders, whose mean it takes.
const ORDERS: usize = 3;

/// Values of which so many are expected to be the twin's, at least, tell it: a right candidate has fewer than a quarter of these by
/// six standard deviations of chance, √64.
const ENOUGH: f64 = 64.0;

impl Comparison<'_> {
    /// Whether at the site of a fault values are reproduced as by what is right. What is chosen is judged by its margins alone.
    pub(super) fn is_reproduced(
        &self,
        before: &Before<'_>,
        tried: &Tried,
        fault: &SiteReport,
    ) -> Result<bool, Failure> {
        let [without, share] = tried.reproduced;
        if self.contract.shown() == Storage::Real || fault.site.is_choice() {
            return Ok(true);
        }
        // Whatever it makes of the bounds: of the values that are off it gives none, where by the others' share it would give
        // `gain`, which is by √gain standard deviations of chance more.
        let at_site = before.reports.iter().filter(|report| report.site == fault.site);
        let off: usize = at_site.map(|report| report.faults).sum();
        let gain = off as f64 * without.equal as f64 / without.count as f64;
        if share.equal <= without.equal && gain >= SIGNIFICANT.powi(2) {
            return Ok(false);
        }
        let least = if self.tells_structure() { COARSE } else { FINE };
        if share.equal as f64 >= least * share.count as f64 {
            return Ok(true);
        }
        let agreements = self.under(&tried.assumption, self.around(fault.site), |all| all.agreements_beside(ORDERS))?;
        let here = agreements.iter().filter(|(at, _)| at.site == fault.site);
        let expected: f64 = here.map(|(_, twin)| twin.count as f64 - twin.unequal_expected).sum();
        Ok(expected < ENOUGH || share.equal as f64 >= least * expected)
    }
}
