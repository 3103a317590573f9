//! A mistake that reproduces nothing is none.

use half::bf16;
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};
use tests::seen::{Seen, setting};
use tools::diagnose::diagnosis::Diagnosis;
use tools::judge::candidate::Live;

/// An f32 model that gives what some sites of layer 1 have on in bf16.
struct Reduced {
    sites: &'static [LayerSite],
    live: Live,
}

impl Probe<f32> for Reduced {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        if self.sites.iter().any(|own| site == Site::Layer(1, *own)) {
            value.value.mapv_inplace(|x| bf16::from_f32(x).to_f32());
        }
        Capture::value(&mut self.live, site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        Capture::choices(&mut self.live, site, chosen.clone());
    }
}

/// What is said of its layers' outputs.
fn diagnosed(sites: &'static [LayerSite]) -> Diagnosis {
    let setting = setting();
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
    let mut reduced = Reduced { sites, live: Live::default() };
    let mut run = Run::<f32>::new(RoundingContract::EAGER_F32, &mut reduced);
    model.forward(&setting.case.tokens, &mut KvCache::new(2), &mut run).expect("it runs");
    let shows = |site| matches!(site, Site::Embedding | Site::Layer(_, LayerSite::Output));
    setting.diagnose(&Seen { live: &reduced.live, shows, value: |_, value| value })
}

/// A router that rounds unsettles choices, so that layers alone are within their bounds, and not one of their values is reproduced.
/// The first are as those of an all-reduce in bf16.
#[test]
fn what_reproduces_no_value_explains_none() {
    for sites in [&[LayerSite::Attention][..], &[LayerSite::QRope, LayerSite::KRope]] {
        let diagnosis = diagnosed(sites);
        assert!(!diagnosis.is_right());
        for explained in &diagnosis.explained {
            let [before, under] = explained.reproduced.expect("it was tried");
            assert!(under.equal > before.equal.max(64), "{} ({}): {under:?}", explained.name, explained.way);
        }
    }
}
