//! What noise does, predicted and seen: how many values are not the reference's, rounded, how far a right implementation
//! strays, and what that does to the probabilities of the next token.

use ndarray::Array2;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Semantics, Site, Storage};
use tests::mistaken::Setting;
use tools::failure::Failure;
use tools::judge::candidate::{Candidate, Live};
use tools::judge::found::Found;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;

use fixtures::names::at::At;

fn settings() -> [Setting; 3] {
    [
        Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32),
        Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16),
        Setting::of("m2-sharded-bf16", RoundingContract::FUSED),
    ]
}

fn verify(setting: &Setting, candidate: &dyn Candidate) -> Vec<SiteReport> {
    found(setting, candidate, None).sites
}

fn found(setting: &Setting, candidate: &dyn Candidate, keep: Option<At>) -> Found {
    let weights = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(weights.config(), Semantics::DOCUMENTS, &weights).expect("it fits");
    let steps = std::slice::from_ref(&setting.case.tokens);
    let (contract, layers) = (setting.contract, 0..weights.config().num_hidden_layers);
    let (prompt, lenses) = (steps[0].len(), &[Lens::Local, Lens::Global]);
    let verification = Verification { model: &model, candidate, contract, steps, prompt, lenses, layers, keep };
    verification.run(|| ()).expect("it can be put next to the reference")
}

/// σ is an upper estimate, so what is expected is one too.
#[test]
fn no_more_values_differ_than_are_expected() {
    for setting in settings() {
        for site in verify(&setting, &setting.with(&[])) {
            let Some(expected) = site.unequal_expected else { continue };
            let seen = (site.count - site.equal) as f64;
            assert!(seen <= expected + 5.0 * expected.sqrt() + 3.0, "{}: {site:#?}", setting.name());
        }
    }
}

/// Right but for one site, whose values are cut off where they should be rounded to nearest.
struct CutOff<'a> {
    right: &'a Live,
    site: Site,
    exact: Array2<f64>,
}

impl Candidate for CutOff<'_> {
    fn has(&self, at: At) -> bool {
        self.right.has(at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        if at.site == self.site { Ok(self.exact.mapv(cut_off)) } else { self.right.matrix(at, extent) }
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        self.right.choices(at, extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        self.right.size(at)
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

/// x to the next bf16 towards 0.
fn cut_off(x: f64) -> f64 {
    let spacing = Storage::Bf16.spacing(x);
    (x / spacing).trunc() * spacing
}

#[test]
fn a_store_that_cuts_off_shows_as_too_many_values() {
    let setting = Setting::of("m2-sharded-bf16", RoundingContract::FUSED);
    let right = setting.with(&[]);
    for site in [LayerSite::VProj, LayerSite::OProj].map(|site| Site::Layer(0, site)) {
        // What the operator makes of the candidate's own inputs.
        let exact = found(&setting, &right, Some(At { step: 0, site })).kept.expect("it was judged").reference;
        let reports = verify(&setting, &CutOff { right: &right, site, exact });
        let report = reports.iter().find(|report| report.site == site && report.lens == Lens::Local);
        let report = report.expect("it was compared");
        let expected = report.unequal_expected.expect("it was judged by its bound");
        assert!(report.verdict >= Verdict::Suspicious, "{report:#?}");
        assert!((report.count - report.equal) as f64 > expected + 5.0 * expected.sqrt(), "{report:#?}");
    }
}

/// Under rounding to nearest at every point a run is one of many: never the nearest or the furthest of all.
#[test]
fn a_right_run_is_among_right_runs() {
    let setting = Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16);
    let reports = verify(&setting, &setting.with(&[]));
    let quantiles: Vec<f64> = reports.iter().filter_map(|report| report.quantile).filter(|q| *q > 0.0).collect();
    assert!(quantiles.len() > 2 && quantiles.iter().all(|q| (0.01..0.999).contains(q)), "{quantiles:?}");
}

/// Hoeffding's lemma, wherever no logit is outside its bound.
#[test]
fn divergence_stays_below_what_the_bounds_allow() {
    for setting in settings() {
        let reports = verify(&setting, &setting.with(&[]));
        let of_logits: Vec<&SiteReport> = reports.iter().filter(|report| report.likelihood.is_some()).collect();
        assert!(of_logits.len() >= 3, "under both lenses");
        for report in of_logits {
            let likelihood = report.likelihood.expect("it has one");
            assert!((0.0..=likelihood.bound + 1e-12).contains(&likelihood.divergence.max(0.0)), "{report:#?}");
        }
    }
}
