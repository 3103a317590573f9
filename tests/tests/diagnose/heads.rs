//! Logits alone: bounds of a model that is deep are no numbers there, and noise decides.

use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{RoundingContract, Semantics, Site, Tracked};
use tests::memory::{Memory, tiny};
use tools::diagnose::diagnosis::{Diagnosis, diagnose};
use tools::judge::candidate::Live;
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;

/// Keeps logits.
struct Head(Live);

impl Probe<f32> for Head {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        if site == Site::Logits {
            Capture::value(&mut self.0, site, value.value.clone());
        }
    }

    fn choose(&mut self, _: Site, _: &Tracked<f32>, _: &mut Array2<usize>) {}
}

/// Of a model that computes with one ε and has another.
fn diagnosed(rms_norm_eps: f64) -> Diagnosis {
    let config = Config { num_hidden_layers: 6, ..tiny() };
    let weights = Memory::random(&config, 5);
    let own = Config { rms_norm_eps, ..config.clone() };
    let tokens: Vec<u32> = (0..12).map(|i| i * 7 % 40).collect();
    let mut head = Head(Live::default());
    let model = Decoder::new(&own, Semantics::DOCUMENTS, &weights).expect("a model");
    let mut run = Run::<f32>::new(RoundingContract::EAGER_F32, &mut head);
    model.forward(&tokens, &mut KvCache::new(6), &mut run).expect("it runs");
    let (steps, prompt) = ([tokens], 12);
    let compared = Compared {
        config: &config,
        weights: &weights,
        semantics: Semantics::DOCUMENTS,
        candidate: &head.0,
        steps: &steps,
        prompt,
        media: None,
        hidden: None,
    };
    diagnose(&Comparison::new(compared, RoundingContract::EAGER_F32), |_| ())
        .expect("it can be put next to the reference")
}

#[test]
fn right_logits_alone_are_right() {
    assert!(diagnosed(1e-6).is_right());
}

#[test]
fn wrong_logits_alone_are_not() {
    assert!(!diagnosed(1e-2).is_right());
}
