//! What is wrong in calls of one token alone, of which each tells too little.

use ndarray::{Array2, s};
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::run::Run;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tools::diagnose::diagnosis::solved;
use tools::judge::candidate::Live;
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;

use super::{Port, Ported, Shown, has};
use crate::diagnose::calls::Calls;

/// Tokens that are decoded.
const DECODED: usize = 4;

/// A kernel for one row sums whole vectors alone.
#[test]
fn input_channels_are_left_out_in_calls_of_one_token() {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
    let port = |model: &Decoder<'_>, shown: &Shown| -> Array2<f32> {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::QProj)).expect("it is there").dense::<f32>();
        let x = shown.of(1, LayerSite::InputNorm);
        x.slice(s![.., ..64]).dot(&w.slice(s![.., ..64]).t())
    };
    let at = Site::Layer(1, LayerSite::QProj);
    let ports: &[(Site, &Port<'_>)] = &[(at, &port)];
    let (prompt, decoded) = setting.case.tokens.split_at(setting.case.tokens.len() - DECODED);
    let steps: Vec<Vec<u32>> = std::iter::once(prompt.to_vec()).chain(decoded.iter().map(|t| vec![*t])).collect();
    let (mut calls, mut cache) = (Calls::default(), KvCache::new(checkpoint.config().num_hidden_layers));
    for tokens in &steps {
        let ports = if tokens.len() == 1 { ports } else { &[] };
        let mut ported = Ported { model: &model, ports, chooses: None, shown: Shown::default(), live: Live::default() };
        model.forward(tokens, &mut cache, &mut Run::new(setting.contract, &mut ported)).expect("it runs");
        calls.0.push(ported.live);
    }
    let compared = Compared {
        config: checkpoint.config(),
        weights: &checkpoint,
        semantics: setting.semantics(),
        candidate: &calls,
        steps: &steps,
        prompt: prompt.len(),
        media: None,
        hidden: None,
    };
    let said = solved(&Comparison::new(compared, setting.contract)).expect("it can be put next to the reference");
    has(&said, "4 of 40 rows, those of calls of one token, sum the first 64 of 96 input channels alone");
}
