//! What nothing known explains, and an operator's equation says when it is solved: experts that other experts compute for, keys
//! that are not seen, weights in another order.

use std::collections::HashMap;

use ndarray::{Array1, Array2, Axis, s};
use optimized::models::capture::Capture;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::{NoProbe, Probe};
use reference::run::Run;
use reference::weights::{LayerWeight, Weight};
use reference::{LayerSite, RoundingContract, Site, Tracked};
use tests::mistaken::Setting;
use tests::seen::{Seen, modules};
use tools::judge::candidate::Live;

/// What an operator gives in place of its own, of all that was computed before it.
type Port = dyn Fn(&Decoder<'_>, &Shown) -> Array2<f32>;

/// Values and choices so far.
#[derive(Default)]
struct Shown {
    values: HashMap<Site, Array2<f32>>,
    chosen: HashMap<Site, Array2<usize>>,
}

/// Puts a port's values in the place of those at a site, and keeps all.
struct Ported<'m> {
    model: &'m Decoder<'m>,
    at: Site,
    port: &'m Port,
    shown: Shown,
    live: Live,
}

impl Probe<f32> for Ported<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        self.shown.values.insert(site, value.value.clone());
        if site == self.at {
            value.value = (self.port)(self.model, &self.shown);
        }
        Capture::value(&mut self.live, site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        self.shown.chosen.insert(site, chosen.clone());
        Capture::choices(&mut self.live, site, chosen.clone());
    }
}

/// What is said of an implementation whose modules' outputs are shown, and that has a port's values at a site of layer 1.
fn said(case: &str, at: LayerSite, port: &Port) -> Vec<String> {
    let setting = Setting::of(case, RoundingContract::EAGER_F32);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
    let at = Site::Layer(1, at);
    let mut ported = Ported { model: &model, at, port, shown: Shown::default(), live: Live::default() };
    let mut cache = KvCache::new(checkpoint.config().num_hidden_layers);
    model.forward(&setting.case.tokens, &mut cache, &mut Run::new(setting.contract, &mut ported)).expect("it runs");
    let shows = |site| modules(site) || site == Site::Layer(1, LayerSite::QNorm);
    let seen = Seen { live: &ported.live, shows, value: |_, value| value };
    let diagnosis = setting.diagnose(&seen);
    assert!(diagnosis.explained.is_empty(), "{diagnosis:#?}");
    diagnosis.solved
}

fn has(said: &[String], sentence: &str) {
    assert!(said.iter().any(|own| own.starts_with(sentence)), "{sentence}: {said:#?}");
}

/// The sum over a token's experts of their weights' products with what `expert` computes for each.
fn mixture(model: &Decoder<'_>, shown: &Shown, computes: impl Fn(usize, usize) -> Option<usize>) -> Array2<f32> {
    let at = |site| Site::Layer(1, site);
    let x = Tracked { value: shown.values[&at(LayerSite::PostAttentionNorm)].clone(), error: None };
    let (chosen, weights) = (&shown.chosen[&at(LayerSite::GateExperts)], &shown.values[&at(LayerSite::GateWeights)]);
    let mut probe = NoProbe;
    let run = Run::new(RoundingContract::EAGER_F32, &mut probe);
    let experts = model.config().num_local_experts;
    let each: Vec<Array2<f32>> =
        (0..experts).map(|expert| model.expert(1, expert, &x, &run).expect("it runs").value).collect();
    let mut passed = vec![0; experts];
    let mut sum = Array2::zeros(x.dim());
    for ((token, slot), &expert) in chosen.indexed_iter() {
        passed[expert] += 1;
        if let Some(by) = computes(expert, passed[expert] - 1) {
            let mut row = sum.row_mut(token);
            row.scaled_add(weights[[token, slot]], &each[by % experts].row(token));
        }
    }
    sum
}

#[test]
fn experts_that_compute_for_others() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        mixture(model, shown, |expert, rank| Some(if rank < 3 { expert } else { expert + 1 }))
    };
    let said = said("m2-gqa3-f32", LayerSite::Experts, &port);
    has(&said, "the next expert computes in an expert's place: for the tokens of an expert behind its first 3");
}

#[test]
fn experts_that_are_left_out() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        mixture(model, shown, |expert, rank| (expert != 2 || rank < 1).then_some(expert))
    };
    let said = said("m2-gqa3-f32", LayerSite::Experts, &port);
    has(&said, "what an expert says is left out of the sum: expert 2, for the tokens of an expert behind its first 1");
}

/// Attention of which token sees which keys.
fn attention(model: &Decoder<'_>, shown: &Shown, sees: impl Fn(usize, usize) -> bool) -> Array2<f32> {
    let config = model.config();
    let of = |site| &shown.values[&Site::Layer(1, site)];
    let (q, k, v) = (of(LayerSite::QRope), of(LayerSite::KRope), of(LayerSite::VProj));
    let (heads, groups, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
    let mut o = Array2::zeros(q.dim());
    for head in 0..heads {
        let (own, group) = (head * d..(head + 1) * d, head * groups / heads);
        let columns = group * d..(group + 1) * d;
        for i in 0..q.nrows() {
            let weight = |j: usize| {
                let product = q.slice(s![i, own.clone()]).dot(&k.slice(s![j, columns.clone()]));
                if sees(i, j) { (product / (d as f32).sqrt()).exp() } else { 0.0 }
            };
            let weights: Array1<f32> = (0..k.nrows()).map(weight).collect();
            let mean = weights.dot(&v.slice(s![.., columns.clone()])) / weights.sum();
            o.slice_mut(s![i, own.clone()]).assign(&mean);
        }
    }
    o
}

#[test]
fn keys_that_are_not_seen() {
    let port = |model: &Decoder<'_>, shown: &Shown| attention(model, shown, |i, j| j <= i && (j != 2 || i == 2));
    has(&said("m2-gqa3-f32", LayerSite::Context, &port), "attention does not see key 2: all tokens that are off");
}

/// Splits of eight keys whose means are put together by their largest scores alone.
#[test]
fn splits_without_their_sums() {
    const SIZE: usize = 8;
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let config = model.config();
        let of = |site| &shown.values[&Site::Layer(1, site)];
        let (q, k, v) = (of(LayerSite::QRope), of(LayerSite::KRope), of(LayerSite::VProj));
        let (heads, groups, d) = (config.num_attention_heads, config.num_key_value_heads, config.head_dim);
        let mut o = Array2::zeros(q.dim());
        for (head, i) in (0..heads).flat_map(|head| (0..q.nrows()).map(move |i| (head, i))) {
            let (own, group) = (head * d..(head + 1) * d, head * groups / heads);
            let columns = group * d..(group + 1) * d;
            let (mut sum, mut mean) = (0.0, Array1::zeros(d));
            for first in (0..=i).step_by(SIZE) {
                let keys = first..(first + SIZE).min(i + 1);
                let scores = k.slice(s![keys.clone(), columns.clone()]).dot(&q.slice(s![i, own.clone()]));
                let largest = scores.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score));
                let weights = scores.mapv(|score| ((score - largest) / (d as f32).sqrt()).exp());
                let of_split = weights.dot(&v.slice(s![keys, columns.clone()])) / weights.sum();
                let weight = (largest / (d as f32).sqrt()).exp();
                sum += weight;
                mean = mean + of_split * weight;
            }
            o.slice_mut(s![i, own]).assign(&(mean / sum));
        }
        o
    };
    let sentence = "attention's splits of 8 keys are put together by their largest scores, without their sums";
    has(&said("m2-gqa3-f32", LayerSite::Context, &port), sentence);
}

/// The weight of a norm is stored by channels of heads, and read by heads.
#[test]
fn a_norms_weight_transposed() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let w = model.weights().get(Weight::Layer(1, LayerWeight::QNorm)).expect("it is there").dense::<f32>();
        let w = w.index_axis(Axis(0), 0).to_owned();
        let heads = model.config().num_attention_heads;
        let columns = w.len() / heads;
        let read: Array1<f32> = (0..w.len()).map(|i| w[i % heads * columns + i / heads]).collect();
        &shown.values[&Site::Layer(1, LayerSite::QNorm)] * &(&read / &w)
    };
    let said = said("m2-gqa3-f32", LayerSite::QNorm, &port);
    has(&said, "the weight is read as [");
}

/// A vector kernel that leaves the channels out of the sum that fill no whole vector.
#[test]
fn a_norms_mean_square_without_its_tail() {
    let port = |model: &Decoder<'_>, shown: &Shown| {
        let y = &shown.values[&Site::Layer(1, LayerSite::PostAttentionNorm)];
        let x = &shown.values[&Site::Layer(1, LayerSite::Residual)];
        let width = model.config().hidden_size;
        let squares = |columns| x.slice(s![.., ..columns]).mapv(|x| x * x).sum_axis(Axis(1));
        let times = (squares(width) / squares(width - 4)).mapv(f32::sqrt);
        y * &times.insert_axis(Axis(1))
    };
    let said = said("m2-gqa3-f32", LayerSite::PostAttentionNorm, &port);
    has(&said, "the mean square has the first ");
}
