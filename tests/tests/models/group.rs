//! A group of ranks next to the model that they share.

mod on_devices;

use std::collections::HashMap;

use fixtures::synth::Synthesis;
use ndarray::Array2;
use reference::bound::ErrorBound;
use reference::compare::compare;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::models::group::Group;
use reference::ops::kv_cache::KvCache;
use reference::probe::{NoProbe, Probe};
use reference::ranks::Ranks;
use reference::ranks::weights::RankWeights;
use reference::run::Run;
use reference::weights::Weights;
use reference::{LayerSite, Real, RoundingContract, Semantics, Site, Storage, Tracked};
use serde_json::json;
use tests::released::with_few;

/// R that document 002's head counts are shared by.
const COUNTS: [usize; 6] = [1, 2, 4, 8, 16, 64];

const TEXT: [u32; 12] = [7, 1, 39, 7, 0, 22, 13, 13, 5, 63, 1, 18];

/// λ at which no independent, centred error is ever seen.
const NEVER: f64 = 8.0;

/// M2 with its 48 query and 8 key heads, and few of all else.
fn m2() -> Config {
    let few = json!({
        "vocab_size": 64, "hidden_size": 24, "intermediate_size": 8, "head_dim": 16, "rotary_dim": 8,
        "num_local_experts": 64, "num_mtp_modules": 0, "max_position_embeddings": 64,
    });
    Config::from_json(&with_few("minimax-m2.7", 2, &few).to_string()).expect("a configuration")
}

/// M3 with its 64 query, 4 key and 4 index heads, and few of all else.
fn m3() -> Config {
    let few = json!({
        "vocab_size": 64, "hidden_size": 24, "intermediate_size": 8, "dense_intermediate_size": 64,
        "shared_intermediate_size": 64, "num_local_experts": 64, "head_dim": 16, "rotary_dim": 8,
    });
    let mut config = Config::from_json(&with_few("minimax-m3", 2, &few).to_string()).expect("a configuration");
    let index = config.index.as_mut().expect("an index branch");
    (index.blocks.size, index.blocks.top_k, config.vision) = (2, 3, None);
    config
}

/// What sites showed last.
struct Seen<T> {
    values: HashMap<Site, Tracked<T>>,
    chosen: HashMap<Site, Array2<usize>>,
}

impl<T: Real> Probe<T> for Seen<T> {
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        self.values.insert(site, value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<T>, chosen: &mut Array2<usize>) {
        self.chosen.insert(site, chosen.clone());
    }
}

/// Holds each operator of the whole model, from what the group had before it, against what the group shows behind it.
struct Local<'s, T> {
    group: &'s Seen<T>,
    /// Sites that the group does not show.
    missing: Vec<Site>,
    /// Sites with values outside their bounds.
    faults: Vec<Site>,
}

impl<T: Real> Probe<f64> for Local<'_, T> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        let Some(shown) = self.group.values.get(&site) else {
            self.missing.push(site);
            return;
        };
        let got = shown.value.mapv(T::wide);
        let found = compare(got.view(), value.view(), &value.error_or_exact(), Storage::Real, NEVER);
        if found.faults > 0 {
            self.faults.push(site);
        }
        *value = Tracked::exact(got);
    }

    fn choose(&mut self, site: Site, _: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if let Some(shown) = self.group.chosen.get(&site) {
            chosen.assign(shown);
        }
    }

    fn stores(&self, site: Site) -> bool {
        self.group.values.contains_key(&site)
    }
}

/// What a group shows of a text.
fn shown<T: Real, W: Weights>(config: &Config, ranks: Ranks, weights: &[W], contract: RoundingContract) -> Seen<T> {
    let group = Group::new(config, Semantics::RELEASED, ranks, weights).expect("it can be shared");
    seen(&group, contract)
}

fn seen<T: Real>(group: &Group<'_>, contract: RoundingContract) -> Seen<T> {
    let mut seen = Seen { values: HashMap::new(), chosen: HashMap::new() };
    group.pass(&TEXT, &mut group.caches(), &mut Run::<T>::new(contract, &mut seen)).expect("a good text");
    seen
}

/// The whole model beside a group: which sites are faulty, and which are missing.
fn judged<T: Real>(
    config: &Config,
    weights: &dyn Weights,
    group: &Seen<T>,
    contract: RoundingContract,
) -> [Vec<Site>; 2] {
    let model = Decoder::new(config, Semantics::RELEASED, weights).expect("a model");
    let mut local = Local { group, missing: Vec::new(), faults: Vec::new() };
    let mut cache = KvCache::new(config.num_hidden_layers);
    model.forward(&TEXT, &mut cache, &mut Run::<f64>::bounding(contract, &mut local)).expect("a good text");
    [local.faults, local.missing]
}

/// Blocks are chosen on the ranks of their index heads; routed and shared experts are one sum before ranks see it.
const HIDDEN: [LayerSite; 5] =
    [LayerSite::BlockMax, LayerSite::BlockScore, LayerSite::SharedDown, LayerSite::Shared, LayerSite::Experts];

/// Both models, and which sites of them a group does not show.
fn models() -> [(Config, Vec<Site>); 2] {
    [(m2(), Vec::new()), (m3(), HIDDEN.map(|site| Site::Layer(1, site)).to_vec())]
}

/// Operator by operator: in f32, and in what engines round to, where each rank's sum is rounded before all are added up.
#[test]
fn ranks_compute_what_the_whole_model_does_within_its_bounds() {
    let profiles = ["eager_f32", "eager_bf16", "eager_f16", "fused", "transformers_bf16", "vllm_bf16", "sglang_bf16"];
    for (config, hidden) in models() {
        let weights = Synthesis { seed: 3, ..Synthesis::default() }.weights(&config);
        for count in COUNTS {
            let ranks = Ranks::of(&config, count).expect("it can be shared");
            let own = RankWeights::of_all(&config, ranks, &weights);
            for profile in profiles {
                let contract: RoundingContract = profile.parse().expect("a profile");
                let contract = RoundingContract { ranks: count, ..contract };
                let group = shown::<f64, _>(&config, ranks, &own, contract);
                let [faults, missing] = judged(&config, &weights, &group, contract);
                assert_eq!((faults, &missing), (Vec::new(), &hidden), "{profile} on {count} ranks");
            }
        }
    }
}

/// What ranks add up is not what one rounds once: without the roundings of ranks, the bounds are too narrow for them.
#[test]
fn roundings_of_ranks_are_needed() {
    for (config, _) in models() {
        let weights = Synthesis { seed: 3, ..Synthesis::default() }.weights(&config);
        let ranks = Ranks::of(&config, 16).expect("it can be shared");
        let own = RankWeights::of_all(&config, ranks, &weights);
        let group = shown::<f64, _>(&config, ranks, &own, RoundingContract { ranks: 16, ..RoundingContract::FUSED });
        let [faults, _] = judged(&config, &weights, &group, RoundingContract::FUSED);
        let is_sum = |site: &Site| {
            let Site::Layer(_, site) = site else { return false };
            matches!(site, LayerSite::OProj | LayerSite::DenseDown | LayerSite::Experts | LayerSite::Mlp)
        };
        assert!(!faults.is_empty() && faults.iter().all(is_sum), "{faults:?}");
    }
}

/// Logits of prompt and decoded tokens, freely running in f64, are within the bound that carries through the whole model.
#[test]
fn ranks_and_the_whole_model_have_the_same_logits() {
    for config in [m2(), m3()] {
        let weights = Synthesis { seed: 4, ..Synthesis::default() }.weights(&config);
        let whole = Decoder::new(&config, Semantics::RELEASED, &weights).expect("a model");
        for count in COUNTS {
            let ranks = Ranks::of(&config, count).expect("it can be shared");
            let own = RankWeights::of_all(&config, ranks, &weights);
            let group = Group::new(&config, Semantics::RELEASED, ranks, &own).expect("it can be shared");
            let (mut cache, mut caches) = (KvCache::new(config.num_hidden_layers), group.caches());
            for call in [&TEXT[..9], &TEXT[9..10], &TEXT[10..]] {
                let mut probe = tests::probes::GivenTable;
                let want =
                    whole.forward(call, &mut cache, &mut Run::<f64>::bounding(RoundingContract::IDEAL, &mut probe));
                let want = want.expect("a good text");
                let mut probe = NoProbe;
                let got = group.pass(call, &mut caches, &mut Run::new(RoundingContract::IDEAL, &mut probe));
                let got = got.expect("a good text").logits.value;
                let error: ErrorBound = want.error_or_exact();
                let found = compare(got.view(), want.view(), &error, Storage::Real, NEVER);
                assert_eq!(found.faults, 0, "{count} ranks: {:?}", found.worst);
                let sure = error.certain.iter().zip(&want.value).filter(|(error, x)| **error < x.abs()).count();
                assert!(2 * sure > want.value.len(), "the bound says nothing: {sure} of {}", want.value.len());
            }
        }
    }
}

/// Document 002's divisors are the right ones, and no others.
#[test]
fn other_divisors_are_faults_of_the_norms() {
    let config = m2();
    let weights = Synthesis { seed: 5, ..Synthesis::default() }.weights(&config);
    let ranks = Ranks::of(&config, 64).expect("it can be shared");
    let own = RankWeights::of_all(&config, ranks, &weights);
    let [q, k, padded] = [48 * 16, 64 * 16, 64 * 16];
    for (divisors, faulty) in
        [([q, k], None), ([padded, k], Some(LayerSite::QNorm)), ([q, 8 * 16], Some(LayerSite::KNorm))]
    {
        let group = Group::new(&config, Semantics::RELEASED, ranks, &own).expect("it can be shared").dividing(divisors);
        let seen = seen::<f32>(&group, RoundingContract::EAGER_F32);
        let [faults, _] = judged(&config, &weights, &seen, RoundingContract::EAGER_F32);
        let expected: Vec<Site> =
            faulty.into_iter().flat_map(|site| [Site::Layer(0, site), Site::Layer(1, site)]).collect();
        assert_eq!(faults, expected);
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let refused = |count: usize| Ranks::of(&m2(), count).expect_err("it cannot").to_string();
    assert_eq!(refused(0), "ranks C1: R = 0, expected at least 1");
    assert_eq!(refused(3), "ranks C2: R = 3, expected a divisor or a multiple of the 8 key heads");
    assert_eq!(refused(128), "ranks C3: num_local_experts = 64, expected a multiple of the 128 ranks that share it");
    let config = Config { vocab_size: 60, ..m2() };
    let said = Ranks::of(&config, 8).expect_err("it cannot").to_string();
    assert_eq!(said, "ranks C4: vocab_size = 60, expected a multiple of the 8 ranks that share it");
    let config = Config { dense_intermediate_size: 60, ..m3() };
    let said = Ranks::of(&config, 8).expect_err("it cannot").to_string();
    assert_eq!(said, "ranks C5: dense_intermediate_size = 60, expected a multiple of the 8 ranks that share it");
    let config = Config { shared_intermediate_size: 60, ..m3() };
    let said = Ranks::of(&config, 8).expect_err("it cannot").to_string();
    assert_eq!(said, "ranks C6: shared_intermediate_size = 60, expected a multiple of the 8 ranks that share it");
    let config = m2();
    let weights = Synthesis::default().weights(&config);
    let ranks = Ranks::of(&config, 4).expect("it can be shared");
    let own = RankWeights::of_all(&config, ranks, &weights);
    let said =
        Group::new(&config, Semantics::RELEASED, ranks, &own[1..]).map(|_| ()).expect_err("a rank lacks").to_string();
    assert_eq!(said, "group C1: ranks with weights = 3, expected 4");
    let group = Group::new(&config, Semantics::RELEASED, ranks, &own).expect("it can be shared");
    let (mut caches, mut probe) = (group.caches::<f64>(), NoProbe);
    let said = group.pass(&TEXT, &mut caches[1..], &mut Run::new(RoundingContract::IDEAL, &mut probe));
    assert_eq!(said.map(|_| ()).expect_err("a cache lacks").to_string(), "group C2: caches = 3, expected 4");
    let otherwise = Semantics { q_norm_eps: Some(1e-5), ..Semantics::RELEASED };
    let said = Group::new(&config, otherwise, ranks, &own).map(|_| ()).expect_err("an ε of its own").to_string();
    assert_eq!(said, "group C3: how queries and keys are normed = otherwise, expected as released");
}

/// Document 002's table: 48 query heads over 64 ranks, six to eight ranks of a key head.
#[test]
fn heads_are_where_document_002_has_them() {
    let ranks = Ranks::of(&m2(), 64).expect("it can be shared");
    assert_eq!((ranks.padded_heads(), ranks.replicas()), (64, 8));
    for rank in 0..64 {
        let (group, slot) = (rank / 8, rank % 8);
        assert_eq!(ranks.query_heads(rank), [(slot < 6).then_some(6 * group + slot)]);
        assert_eq!(ranks.key_heads(rank), group..group + 1);
    }
    let ranks = Ranks::of(&m2(), 16).expect("it can be shared");
    assert_eq!(ranks.query_heads(5), [Some(15), Some(16), Some(17)]);
    assert_eq!((ranks.key_heads(5), ranks.replicas()), (2..3, 2));
    let ranks = Ranks::of(&m2(), 4).expect("it can be shared");
    assert_eq!((ranks.key_heads(3), ranks.query_heads(3)[0], ranks.replicas()), (6..8, Some(36), 1));
}
