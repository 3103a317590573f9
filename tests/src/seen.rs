//! Candidates that show less than they have, or something else.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::config::Config;
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Site};
use tools::failure::Failure;
use tools::judge::candidate::{Candidate, Live};

use crate::mistaken::Setting;

/// A candidate seen through something.
pub struct Seen<'a, S, V> {
    /// What it has.
    pub live: &'a Live,
    /// Which sites it shows.
    pub shows: S,
    /// What it shows there, of what it has.
    pub value: V,
}

impl<S: Fn(Site) -> bool + Sync, V: Fn(Site, Array2<f64>) -> Array2<f64> + Sync> Candidate for Seen<'_, S, V> {
    fn has(&self, at: At) -> bool {
        (self.shows)(at.site) && self.live.has(at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        Ok((self.value)(at.site, self.live.matrix(at, extent)?))
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        self.live.choices(at, extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        if self.has(at) { self.live.size(at) } else { None }
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

/// What hooks on modules show.
pub fn modules(site: Site) -> bool {
    use LayerSite::{
        Attention, GateExperts, GateLogits, InputNorm, KProj, Mlp, Output, PostAttentionNorm, QProj, VProj,
    };
    let shown = [Attention, GateExperts, GateLogits, InputNorm, KProj, Mlp, Output, PostAttentionNorm, QProj, VProj];
    site.layer().is_none() || matches!(site, Site::Layer(_, site) if shown.contains(&site))
}

/// A built-in case, as an implementation in f32 runs it.
pub fn setting() -> Setting {
    Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32)
}

/// What is said of 40 × 96 values in layer 1, changed, and of nothing else. Those of the output projection are what another
/// weight would make of some changes; those of the context no weight makes.
pub fn pattern(site: LayerSite, change: impl Fn(Array2<f64>) -> Array2<f64> + Sync) -> String {
    let changed = Site::Layer(1, site);
    let setting = setting();
    let live = setting.with(&[]);
    let value = |site, value| if site == changed { change(value) } else { value };
    let shows = |site| site != Site::Layer(1, LayerSite::Attention);
    let diagnosis = setting.diagnose(&Seen { live: &live, shows, value });
    assert_eq!(diagnosis.unexplained.as_ref().map(|fault| fault.site), Some(changed));
    diagnosis.pattern.join("; ")
}
