//! What nothing known explains, and an operator's equation says when it is solved.

mod blocks;
mod contexts;
mod experts;
mod grouped;
mod insides;
mod keys;
mod logits;
mod lookup;
mod normed;
mod norms;
mod products;
mod rotation;
mod router;
mod scores;
mod softmax;
mod splits;
mod stale;
mod steps;
mod sums;
mod tables;
mod tiles;
mod vision;

use std::collections::HashMap;

use half::bf16;
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};
use tests::mistaken::{Setting, shown};
use tests::seen::{Seen, modules};
use tools::diagnose::diagnosis::solved;
use tools::judge::candidate::Live;
use tools::judge::comparison::Comparison;

/// What an operator gives in place of its own, of all that was computed so far, its own values included.
type Port<'a> = dyn Fn(&Decoder<'_>, &Shown) -> Array2<f32> + 'a;

/// What a choice is changed into.
type Chooses<'a> = dyn Fn(&Array2<usize>) -> Array2<usize> + 'a;

/// Values and choices so far.
#[derive(Default)]
struct Shown {
    values: HashMap<Site, Array2<f32>>,
    chosen: HashMap<Site, Array2<usize>>,
}

impl Shown {
    fn of(&self, layer: usize, site: LayerSite) -> &Array2<f32> {
        &self.values[&Site::Layer(layer, site)]
    }
}

/// Puts ports' values in the place of those at their sites, and keeps all.
struct Ported<'m> {
    model: &'m Decoder<'m>,
    ports: &'m [(Site, &'m Port<'m>)],
    chooses: Option<(Site, &'m Chooses<'m>)>,
    shown: Shown,
    live: Live,
}

impl Probe<f32> for Ported<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        self.shown.values.insert(site, value.value.clone());
        if let Some((_, port)) = self.ports.iter().find(|(at, _)| *at == site) {
            value.value = port(self.model, &self.shown);
            self.shown.values.insert(site, value.value.clone());
        }
        Capture::value(&mut self.live, site, value.value.clone());
    }

    fn wants(&self, site: Site) -> bool {
        self.ports.iter().any(|(at, _)| *at == site)
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        if let Some((_, chooses)) = self.chooses.filter(|(at, _)| *at == site) {
            *chosen = chooses(chosen);
        }
        self.shown.chosen.insert(site, chosen.clone());
        Capture::choices(&mut self.live, site, chosen.clone());
    }
}

/// A case, how an implementation of it rounds, and what it shows beside its modules' outputs.
struct Subject {
    case: &'static str,
    contract: RoundingContract,
    shows: &'static [LayerSite],
}

/// The number behind some words.
fn number(said: &[String], words: &str) -> f64 {
    let text = said.iter().find_map(|own| own.split_once(words)).unwrap_or_else(|| panic!("{words}: {said:#?}")).1;
    let end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().unwrap_or_else(|_| panic!("{words}: {said:#?}"))
}

/// M2 in f32.
const M2: Subject = Subject { case: "m2-gqa3-f32", contract: RoundingContract::EAGER_F32, shows: &[LayerSite::QNorm] };

/// M2 in bf16.
const M2_BF16: Subject =
    Subject { case: "m2-sharded-bf16", contract: RoundingContract::EAGER_BF16, shows: &[LayerSite::QNorm] };

impl Subject {
    /// What `f` makes of an implementation that has ports' values at some sites.
    fn with<R>(&self, ports: &[(Site, &Port<'_>)], f: impl FnOnce(&Comparison<'_>) -> R) -> R {
        self.choosing(ports, None, f)
    }

    /// The same of one that chooses otherwise.
    fn choosing<R>(
        &self,
        ports: &[(Site, &Port<'_>)],
        chooses: Option<(Site, &Chooses<'_>)>,
        f: impl FnOnce(&Comparison<'_>) -> R,
    ) -> R {
        self.hiding(|_| false, ports, chooses, f)
    }

    /// The same of one that does not show all of its modules' outputs.
    fn hiding<R>(
        &self,
        is_hidden: impl Fn(Site) -> bool + Sync,
        ports: &[(Site, &Port<'_>)],
        chooses: Option<(Site, &Chooses<'_>)>,
        f: impl FnOnce(&Comparison<'_>) -> R,
    ) -> R {
        let setting = Setting::of(self.case, self.contract);
        let checkpoint = setting.case.checkpoint().expect("it is whole");
        let media = shown(&setting.case);
        let model = Decoder::new(checkpoint.config(), setting.semantics(), &checkpoint).expect("a model");
        let model = model.seeing(media.as_ref());
        let mut ported = Ported { model: &model, ports, chooses, shown: Shown::default(), live: Live::default() };
        let mut cache = KvCache::new(checkpoint.config().num_hidden_layers);
        model.forward(&setting.case.tokens, &mut cache, &mut Run::new(setting.contract, &mut ported)).expect("it runs");
        let beside = |site| matches!(site, Site::Layer(_, site) if self.shows.contains(&site));
        let shows = |site| !is_hidden(site) && (modules(site) || beside(site));
        let seen = Seen { live: &ported.live, shows, value: |_, value| value };
        setting.compare(&seen, f)
    }

    /// What is said of it.
    fn said(&self, ports: &[(Site, &Port<'_>)]) -> Vec<String> {
        self.with(ports, |comparison| solved(comparison).expect("it can be put next to the reference"))
    }

    /// What is said of one that makes a choice otherwise.
    fn said_of_choice(&self, at: Site, chooses: &Chooses<'_>) -> Vec<String> {
        self.choosing(&[], Some((at, chooses)), |comparison| {
            solved(comparison).expect("it can be put next to the reference")
        })
    }

    /// The same, of one site of layer 1.
    fn said_of(&self, at: LayerSite, port: &Port<'_>) -> Vec<String> {
        self.said(&[(Site::Layer(1, at), port)])
    }
}

/// As bf16 has them.
fn narrowed(values: Array2<f32>) -> Array2<f32> {
    values.mapv(|x| bf16::from_f32(x).to_f32())
}

fn has(said: &[String], sentence: &str) {
    assert!(said.iter().any(|own| own.starts_with(sentence)), "{sentence}: {said:#?}");
}
