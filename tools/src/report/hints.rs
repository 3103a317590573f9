//! What is no verdict and still worth another look: structure that too few tokens show to tell it from chance.

use crate::judge::verdict::SiteReport;

/// A sentence for each site that has some.
pub(super) fn of(sites: &[SiteReport]) -> impl Iterator<Item = String> {
    sites.iter().filter_map(|report| {
        let hint = report.hint?;
        Some(format!(
            "{}: {hint}; these are too few tokens to call it suspicious, though by chance one right run in {:.0e} has it: verify more",
            report.site,
            1.0 / hint.probability
        ))
    })
}
