//! What is wrong in calls of one token alone, of which each tells too little.

use std::cell::RefCell;

use ndarray::{Array2, Axis, s};
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

use super::{Chooses, Port, Ported, Shown, has};
use crate::diagnose::calls::Calls;

/// What is said of an implementation that decodes the last tokens of a case's prompt, so many, and in calls of one token has ports' values;
/// in all it makes a choice otherwise, if any.
fn said(
    setting: &Setting,
    decoded: usize,
    ports: &[(Site, &Port<'_>)],
    chooses: Option<(Site, &Chooses<'_>)>,
) -> Vec<String> {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
    let (prompt, decoded) = setting.case.tokens.split_at(setting.case.tokens.len() - decoded);
    let steps: Vec<Vec<u32>> = std::iter::once(prompt.to_vec()).chain(decoded.iter().map(|t| vec![*t])).collect();
    let (mut calls, mut cache) = (Calls::default(), KvCache::new(checkpoint.config().num_hidden_layers));
    for tokens in &steps {
        let ports = if tokens.len() == 1 { ports } else { &[] };
        let mut ported = Ported { model: &model, ports, chooses, shown: Shown::default(), live: Live::default() };
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
    solved(&Comparison::new(compared, setting.contract)).expect("it can be put next to the reference")
}

/// A kernel for one row sums whole vectors alone.
#[test]
fn input_channels_are_left_out_in_calls_of_one_token() {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let port = |model: &Decoder<'_>, shown: &Shown| -> Array2<f32> {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::QProj)).expect("it is there").dense::<f32>();
        let x = shown.of(1, LayerSite::InputNorm);
        x.slice(s![.., ..64]).dot(&w.slice(s![.., ..64]).t())
    };
    let said = said(&setting, 4, &[(Site::Layer(1, LayerSite::QProj), &port)], None);
    has(&said, "4 of 40 rows, those of calls of one token, sum the first 64 of 96 input channels alone");
}

/// A buffer of the router's that is read before it is written.
#[test]
fn experts_of_the_call_before() {
    let before: RefCell<Option<Array2<usize>>> = RefCell::new(None);
    let stale = |chosen: &Array2<usize>| {
        let last = chosen.slice(s![chosen.nrows() - 1.., ..]).to_owned();
        let read = before.replace(Some(last)).filter(|_| chosen.nrows() == 1);
        read.unwrap_or_else(|| chosen.clone())
    };
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let said = said(&setting, 8, &[], Some((Site::Layer(1, LayerSite::GateExperts), &stale)));
    has(&said, "each call of one token has the choice that was right for the last token of the call before: ");
}

/// Blocks are chosen for the prompt's last token, and for none behind it.
#[test]
fn blocks_of_the_first_call() {
    let setting = Setting::of("m3-gqa4-f32", RoundingContract::EAGER_F32);
    let choices = setting.case.checkpoint().expect("it is whole").config().index.expect("M3 has one").choices;
    let first: RefCell<Option<Array2<usize>>> = RefCell::new(None);
    let stale = |chosen: &Array2<usize>| {
        let tokens = chosen.nrows() / choices;
        let rows: Vec<usize> = (0..choices).map(|choice| choice * tokens + tokens - 1).collect();
        let kept = first.borrow_mut().get_or_insert_with(|| chosen.select(Axis(0), &rows)).clone();
        if tokens > 1 { chosen.clone() } else { kept }
    };
    let said = said(&setting, 10, &[], Some((Site::Layer(2, LayerSite::Blocks), &stale)));
    has(&said, "each call of one token has the choice that was right for the last token of the first call: ");
}
