//! Ranks that share routed experts, next to their sums as they are written out here.

use std::ops::Range;

use fixtures::checkpoint::held::HeldWeights;
use ndarray::{Array2, s};
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::run::Run;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Semantics, Site, Storage};
use tests::memory::{Memory, tiny};
use tests::probes::Recorder;

const TEXT: [u32; 12] = [5, 9, 2, 33, 17, 21, 4, 11, 38, 0, 26, 8];

const RANKS: usize = 2;

fn run(config: &Config, memory: &Memory, contract: RoundingContract) -> Recorder<f64> {
    let weights = HeldWeights::under(&contract, config.norm_weight, memory);
    let model = Decoder::new(config, Semantics::RELEASED, &weights).expect("it fits");
    let mut recorder = Recorder::new(false);
    let mut cache = KvCache::new(config.num_hidden_layers);
    model.forward(&TEXT, &mut cache, &mut Run::new(contract, &mut recorder)).expect("it runs");
    recorder
}

/// What ranks make of the first layer's experts: each a sum that it stores of its own, which are added up and stored. `own` says which
/// hidden channels of an expert a rank has.
fn added_up(
    config: &Config,
    memory: &Memory,
    seen: &Recorder<f64>,
    own: impl Fn(usize, usize) -> Range<usize>,
) -> Array2<f64> {
    let bf16 = |x: f64| Storage::Bf16.nearest(x);
    let value = |site: LayerSite| &seen.value(Site::Layer(0, site)).value;
    let (hidden, w, chosen) = (value(LayerSite::ExpertHidden), value(LayerSite::GateWeights), seen.experts(0));
    let down = |expert: usize| {
        let weight = Weight::Layer(0, LayerWeight::Expert(expert, Projection::Down));
        memory.get(weight).expect("it is there").dense::<f64>().mapv(bf16)
    };
    let down: Vec<Array2<f64>> = (0..config.num_local_experts).map(down).collect();
    let part = |rank: usize, token: usize, column: usize| {
        let products = (0..chosen.ncols()).map(|slot| {
            let (expert, row) = (chosen[[token, slot]], token * chosen.ncols() + slot);
            let channels = own(rank, expert);
            let said = hidden.slice(s![row, channels.clone()]).dot(&down[expert].slice(s![column, channels]));
            bf16(w[[token, slot]] * bf16(said))
        });
        bf16(products.sum())
    };
    Array2::from_shape_fn((TEXT.len(), config.hidden_size), |(token, column)| {
        (0..RANKS).map(|rank| part(rank, token, column)).reduce(|sum, part| bf16(sum + part)).expect("there are ranks")
    })
}

/// vLLM's kernels store each product with a weight; no two ways to share give the same sums.
#[test]
fn ranks_store_their_own_sums() {
    let (config, contract) = (tiny(), "vllm_bf16".parse::<RoundingContract>().expect("a profile"));
    let memory = Memory::random(&config, 3);
    let (width, experts) = (config.intermediate_size / RANKS, config.num_local_experts / RANKS);
    let of_channels = |rank: usize, _: usize| rank * width..(rank + 1) * width;
    let of_experts = |rank: usize, expert: usize| if expert / experts == rank { 0..RANKS * width } else { 0..0 };
    let sums = |way: &str| {
        let seen = run(&config, &memory, contract.in_way(way).expect("a mode"));
        let experts = seen.value(Site::Layer(0, LayerSite::Experts)).value.clone();
        (seen, experts)
    };
    let (seen, channels) = sums("ranks=2,sharded=channels");
    assert_eq!(channels, added_up(&config, &memory, &seen, of_channels));
    let (seen, whole) = sums("ranks=2,sharded=experts");
    assert_eq!(whole, added_up(&config, &memory, &seen, of_experts));
    let (seen, alone) = sums("ranks=2,sharded=experts_alone");
    assert_eq!(alone, added_up(&config, &memory, &seen, of_experts));
    let (of_one, one) = sums("ranks=1");
    let attention = |seen: &Recorder<f64>| seen.value(Site::Layer(0, LayerSite::Attention)).value.clone();
    assert_eq!(attention(&seen), attention(&of_one), "attention is not shared");
    assert!(channels != whole && alone != one && whole != alone);
}

/// Without rounding, what is shared is what is not.
#[test]
fn shares_add_up_to_the_whole() {
    let config = tiny();
    let memory = Memory::random(&config, 3);
    let logits = |ranks: usize, way: &str| {
        let contract = RoundingContract { ranks, ..RoundingContract::IDEAL }.in_way(way).expect("a mode");
        run(&config, &memory, contract).value(Site::Logits).value.clone()
    };
    let whole = logits(1, "sharded=experts");
    for way in ["sharded=experts", "sharded=channels", "sharded=experts_alone"] {
        let apart = (&logits(4, way) - &whole).mapv(f64::abs).fold(0.0, |most: f64, x| most.max(*x));
        // Some hundred sums of f64, of numbers of order 1.
        assert!(apart < 1e3 * f64::EPSILON, "{way}: {apart:e}");
    }
}
