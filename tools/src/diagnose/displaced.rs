//! Numbers of the configuration that a candidate has otherwise, by so little that no bound shows it.
//!
//! A site that has other values than the twin in every layer may be of a precision that nobody knows. Where one number of the
//! configuration makes as many of them the twin's as a right candidate has, it is that number.

use std::collections::BTreeMap;

use reference::Site;

use super::catalogue::assumption::Assumption;
use super::search::{self, Bench};
use super::share::Share;
use crate::failure::Failure;
use crate::judge::agreement::Agreement;
use crate::judge::comparison::Comparison;
use crate::judge::found::Found;
use crate::judge::lens::Lens;
use crate::judge::verdict::{SiteReport, Verdict};

impl Comparison<'_> {
    /// By site, what number the values have otherwise, in a sentence. Each site is looked at by itself, so that parts of a comparison say
    /// together what all of it does; one that is at fault is left to those faults.
    pub(crate) fn displaced(&self, assumption: &Assumption, found: &Found) -> Result<BTreeMap<Site, String>, Failure> {
        let mut displaced = BTreeMap::new();
        let doubtful = found.open.tests.iter().filter(|(_, tests)| tests.is_doubtful());
        for (site, _) in doubtful {
            let is_of_site = |report: &&SiteReport| report.site == *site && report.lens == Lens::Local;
            let reports: Vec<&SiteReport> = found.sites.iter().filter(is_of_site).collect();
            let agreement = reports.iter().filter_map(|report| report.twin).reduce(Agreement::with);
            let Some((first, agreement)) = reports.first().zip(agreement) else { continue };
            if reports.iter().any(|report| report.verdict == Verdict::Fault) {
                continue;
            }
            let Some(bench) = Bench::new(self, assumption, first)? else { continue };
            let Some((fitted, share)) = search::displaced(&bench, &agreement) else { continue };
            displaced.insert(
                *site,
                format!(
                    "with {} = {}, {} of its values are those of this precision; with the configuration's {}, {}",
                    fitted.parameter,
                    fitted.fit,
                    percent(share),
                    fitted.configured,
                    percent(Share { count: agreement.count, equal: agreement.equal }),
                ),
            );
        }
        Ok(displaced)
    }

    /// What the local lens says of all layers, the numbers that are displaced among it.
    pub(super) fn with_displaced(&self, assumption: &Assumption) -> Result<Vec<SiteReport>, Failure> {
        let mut found = self.under(assumption, self.all(), |verification| verification.part(&[], |_| ()))?;
        found.open.displaced = self.displaced(assumption, &found)?;
        Ok(found.concluded().sites)
    }
}

fn percent(Share { count, equal }: Share) -> String {
    format!("{:.2} %", 100.0 * equal as f64 / count.max(1) as f64)
}
