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
use tools::judge::candidate::Live;

/// An f32 model that gives the output of attention on in bf16, as an all-reduce in bf16 does.
struct Reduced(Live);

impl Probe<f32> for Reduced {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        if site == Site::Layer(1, LayerSite::Attention) {
            value.value.mapv_inplace(|x| bf16::from_f32(x).to_f32());
        }
        Capture::value(&mut self.0, site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        Capture::choices(&mut self.0, site, chosen.clone());
    }
}

/// A router that rounds unsettles choices, so that layers alone are within their bounds, and not one of their values is reproduced.
#[test]
fn what_reproduces_no_value_explains_none() {
    let setting = setting();
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
    let mut reduced = Reduced(Live::default());
    let mut run = Run::<f32>::new(RoundingContract::EAGER_F32, &mut reduced);
    model.forward(&setting.case.tokens, &mut KvCache::new(2), &mut run).expect("it runs");
    let shows = |site| matches!(site, Site::Embedding | Site::Layer(_, LayerSite::Output));
    let diagnosis = setting.diagnose(&Seen { live: &reduced.0, shows, value: |_, value| value });
    assert!(!diagnosis.is_right());
    for explained in &diagnosis.explained {
        let reproduced = explained.reproduced.expect("it was tried")[1];
        assert!(reproduced.equal > 0, "{}: {reproduced:?}", explained.name);
    }
}
