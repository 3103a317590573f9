//! A candidate as a mistake has it seen: with layers in each other's place, without what it shows of a site, or with that of
//! another.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::Site;
use reference::config::Config;
use reference::site::Extent;

use super::catalogue::instead::Instead;
use crate::failure::Failure;
use crate::judge::candidate::{Candidate, Start};

/// What is seen otherwise.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Two layers, each of which shows what the other computed.
    pub(super) exchanged: Vec<(usize, usize)>,
    /// Sites whose values nothing behind them takes; the layer's number does not count.
    pub(super) unseen: Vec<Site>,
    /// Tensors that hold other sites' values.
    pub(super) instead: Vec<Instead>,
}

/// A candidate through a view.
pub(super) struct Viewed<'a> {
    pub(super) inner: &'a dyn Candidate,
    pub(super) view: &'a View,
}

impl View {
    fn at(&self, At { step, site }: At) -> At {
        let exchanged = self.exchanged.iter().fold(site, |site, &(a, b)| match site {
            Site::Layer(layer, inner) if layer == a => Site::Layer(b, inner),
            Site::Layer(layer, inner) if layer == b => Site::Layer(a, inner),
            other => other,
        });
        let read = self.instead.iter().find(|one| one.is_read && one.is == Some(exchanged));
        At { step, site: read.map_or(exchanged, |one| one.named) }
    }

    fn hides(&self, site: Site) -> bool {
        let of_other = self.instead.iter().any(|one| one.named == site);
        let is_read = self.instead.iter().any(|one| one.is_read && one.is == Some(site));
        of_other && !is_read || self.is_unseen(site)
    }

    fn is_unseen(&self, site: Site) -> bool {
        self.unseen.iter().any(|unseen| match (site, *unseen) {
            (Site::Layer(_, site), Site::Layer(_, unseen)) => site == unseen,
            // The two halves of a table are taken together.
            (Site::RopeCos | Site::RopeSin, Site::RopeCos | Site::RopeSin) => true,
            (site, unseen) => site == unseen,
        })
    }
}

impl Candidate for Viewed<'_> {
    fn has(&self, at: At) -> bool {
        !self.view.hides(at.site) && self.inner.has(self.view.at(at))
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        self.inner.matrix(self.view.at(at), extent)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        self.inner.choices(self.view.at(at), extent)
    }

    fn shown(&self, at: At, extent: Extent) -> Result<Option<Vec<usize>>, Failure> {
        self.inner.shown(self.view.at(at), extent)
    }

    fn start(&self, step: usize) -> Option<Start> {
        self.inner.start(step)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        self.inner.size(self.view.at(at)).filter(|_| self.has(at))
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}
