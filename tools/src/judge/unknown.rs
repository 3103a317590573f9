//! What attention to positions that are not in a dump leaves unknown.
//!
//! A server keeps the keys and values of a prefix that requests share, and computes only what follows it. What attention makes of
//! such a prefix cannot be recomputed, nor what is made of that, up to the next value that the candidate shows.

use std::collections::BTreeSet;

use reference::{LayerSite, Site};

use super::way::{inputs, reads_stream};

/// What is unknown on the way through a phase.
#[derive(Debug, Clone)]
pub(super) struct Unknown {
    /// Positions whose keys and values are not in the dump.
    absent: usize,
    /// The sites of this phase that are not shown, and are made of them.
    sites: BTreeSet<Site>,
    /// The residual stream.
    stream: bool,
}

impl Unknown {
    /// Where so many positions are not in the dump: nothing yet, but what goes into the phase, if that is unknown.
    pub(super) fn new(absent: usize, stream: bool) -> Self {
        Unknown { absent, sites: BTreeSet::new(), stream }
    }

    /// Whether the residual stream is unknown.
    pub(super) fn is_stream(&self) -> bool {
        self.stream
    }

    /// Why nothing can be said of a site's value, if so; `shown` if what is made of it goes on from the candidate's. What is made of the
    /// same beside it does not.
    pub(super) fn meet(&mut self, site: Site, shown: bool) -> Option<String> {
        if self.absent == 0 {
            return None;
        }
        let unknown = matches!(site, Site::Layer(_, LayerSite::Context))
            || reads_stream(site) && self.stream
            || inputs(site).iter().any(|input| self.sites.contains(input));
        if unknown && !shown {
            self.sites.insert(site);
        }
        if matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Output)) {
            self.stream = unknown && !shown;
        }
        let count = self.absent;
        unknown.then(|| format!("it depends on the first {count} positions, whose keys and values are not in the dump"))
    }
}
