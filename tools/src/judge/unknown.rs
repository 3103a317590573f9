//! What attention to positions that are not in a dump leaves unknown.
//!
//! A server keeps the keys and values of a prefix that requests share, and computes only what follows it. What attention makes of
//! such a prefix cannot be recomputed, nor what is made of that, up to the next value that the candidate shows.

use reference::{LayerSite, Site};

/// What is unknown on the way through a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unknown {
    /// Positions whose keys and values are not in the dump.
    absent: usize,
    /// What the last operator made.
    branch: bool,
    /// The residual stream beside it.
    stream: bool,
}

impl Unknown {
    /// Nothing yet, where so many positions are not in the dump.
    pub(super) fn new(absent: usize) -> Self {
        Unknown { absent, branch: false, stream: false }
    }

    /// The same, or what goes into the phase.
    pub(super) fn going_on(self, stream: bool) -> Self {
        Unknown { branch: stream, stream, ..self }
    }

    /// Whether the residual stream is unknown.
    pub(super) fn is_stream(self) -> bool {
        self.stream
    }

    /// Why nothing can be said of a site's value, if so; `shown` if what follows goes on from the candidate's.
    pub(super) fn meet(&mut self, site: Site, shown: bool) -> Option<String> {
        if self.absent == 0 {
            return None;
        }
        match site {
            Site::Layer(_, LayerSite::Context) => self.branch = true,
            Site::Layer(_, LayerSite::Residual | LayerSite::Output) => {
                self.branch |= self.stream;
                self.stream = self.branch;
            }
            _ => {}
        }
        let unknown = self.branch;
        if shown {
            self.branch = false;
            if matches!(site, Site::Layer(_, LayerSite::Residual | LayerSite::Output)) {
                self.stream = false;
            }
        }
        let count = self.absent;
        unknown.then(|| format!("it depends on the first {count} positions, whose keys and values are not in the dump"))
    }
}
