//! Attention to chosen blocks, in the whole model: M3's layers against full ones, prefill against decode.

use super::*;
use ndarray::{Array2, s};
use proptest::prelude::*;
use reference::config::{Attention, Index, Layer};
use reference::site::NONE;
use reference::{LayerSite, Site};
use tests::judge::within;

fn m3<'w>(config: &Config, weights: &'w dyn Weights) -> Decoder<'w> {
    Decoder::new(config, Semantics::RELEASED, weights).expect("the configuration keeps the contract")
}

/// The same with so many blocks chosen, of so many keys.
fn choosing(top_k: usize, size: usize) -> Config {
    let mut config = tiny_m3();
    let index = config.index.as_mut().expect("it has an index branch");
    (index.blocks.top_k, index.blocks.size) = (top_k, size);
    config
}

/// The same with full attention in every layer.
fn full() -> Config {
    let layers = tiny_m3().layers.iter().map(|layer| Layer { attention: Attention::Full, ..*layer }).collect();
    Config { layers, ..tiny_m3() }
}

/// The first `dense` rows are those of full attention; some row after them is not.
fn assert_dense(config: &Config, dense: usize, seed: u64) {
    let memory = Memory::random(config, seed);
    let sparse: Tracked<f64> = logits(&m3(config, &memory), RoundingContract::IDEAL);
    let all: Tracked<f64> = logits(&m3(&full(), &memory), RoundingContract::IDEAL);
    let largest = all.value.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
    let apart =
        |row: usize| (&sparse.value.row(row) - &all.value.row(row)).iter().fold(0.0_f64, |top, x| top.max(x.abs()));
    // Two orders of a few thousand additions in f64.
    assert!((0..dense).all(|row| apart(row) <= 1e-11 * largest));
    assert!(dense == TEXT.len() || (dense..TEXT.len()).any(|row| apart(row) > 1e-3 * largest));
}

/// A token that sees no more blocks than are chosen attends to all: six tokens, all of them, or none but the first.
#[test]
fn where_all_visible_blocks_are_chosen_attention_is_full() {
    for seed in 1..4 {
        assert_dense(&choosing(3, 2), 6, seed);
        assert_dense(&choosing(6, 2), 12, seed);
        assert_dense(&choosing(2, 4), 8, seed);
        assert_dense(&choosing(1, 12), 12, seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// In one pass or in several, logits, choices and all caches are the same.
    #[test]
    fn decode_is_prefill(seed in 0..1000_u64, cuts in prop::collection::vec(1..5_usize, 1..12), top_k in 1..5_usize) {
        let config = choosing(top_k, 2);
        let memory = Memory::random(&config, seed);
        let model = m3(&config, &memory);
        let mut whole = Recorder::<f64>::new(false);
        let want: Tracked<f64> = pass(&model, RoundingContract::IDEAL, &mut whole).expect("a good text");
        let (mut cache, mut first) = (KvCache::<f64>::new(4), 0);
        for count in cuts {
            let last = (first + count).min(TEXT.len());
            if first == last {
                break;
            }
            let mut seen = Recorder::new(false);
            let got = model.forward(&TEXT[first..last], &mut cache, &mut Run::new(RoundingContract::IDEAL, &mut seen));
            let got = got.expect("a good text").value;
            let want = want.value.slice(s![first..last, ..]);
            prop_assert!((&got - &want).iter().all(|x| x.abs() <= 1e-10));
            for layer in 2..4 {
                let site = Site::Layer(layer, LayerSite::Blocks);
                let (got, want) = (seen.chosen(site), whole.chosen(site));
                for (row, blocks) in got.rows().into_iter().enumerate() {
                    let (group, token) = (row / (last - first), first + row % (last - first));
                    let valid = |row: ndarray::ArrayView1<'_, usize>| row.iter().copied().filter(|b| *b != NONE).collect::<Vec<_>>();
                    prop_assert_eq!(valid(blocks), valid(want.row(group * TEXT.len() + token)));
                }
                prop_assert_eq!(cache.index(layer).expect("it is kept").dim(), (last, 6));
            }
            first = last;
        }
    }
}

/// The index branch's keys are trimmed with the others: a text that was taken back leaves no trace.
#[test]
fn truncation_trims_the_index_too() {
    let memory = Memory::random(&tiny_m3(), 1);
    let model = m3(&tiny_m3(), &memory);
    let mut cache = KvCache::<f64>::new(4);
    let forward = |tokens: &[u32], cache: &mut KvCache<f64>| {
        model.forward(tokens, cache, &mut Run::new(RoundingContract::IDEAL, &mut NoProbe)).expect("a good text").value
    };
    forward(&TEXT[..8], &mut cache);
    let want = forward(&TEXT[8..10], &mut cache);
    cache.truncate(8);
    assert_eq!(cache.index(3).map(Tracked::dim), Some((8, 6)));
    forward(&[3, 3, 3], &mut cache);
    cache.truncate(8);
    assert_eq!(forward(&TEXT[8..10], &mut cache), want);
    let mut adopted = KvCache::<f64>::new(4);
    adopted.adopt(3, &cache, 5);
    assert_eq!((adopted.index(3).map(Tracked::dim), adopted.len(3)), (Some((5, 6)), 5));
}

/// Chooses these blocks for every token and group.
struct Forced(Vec<usize>, Recorder<f64>);

impl Probe<f64> for Forced {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        self.1.visit(site, value);
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if matches!(site, Site::Layer(_, LayerSite::Blocks)) {
            chosen.indexed_iter_mut().for_each(|((_, slot), block)| *block = self.0[slot]);
        }
        self.1.choose(site, scores, chosen);
    }
}

/// The model goes on with the blocks that a probe leaves, and says what is wrong with those that are none.
#[test]
fn forced_blocks_are_read() {
    let memory = Memory::random(&tiny_m3(), 1);
    let model = m3(&tiny_m3(), &memory);
    let of = |blocks: [usize; 3]| {
        let mut probe = Forced(blocks.to_vec(), Recorder::new(false));
        pass(&model, RoundingContract::IDEAL, &mut probe).map(|logits: Tracked<f64>| logits.value)
    };
    let first = of([0, NONE, NONE]).expect("a choice");
    assert_eq!(of([NONE, 0, NONE]), Ok(first.clone()));
    assert_ne!(of([0, 1, NONE]), Ok(first));
    let error = of([0, 6, NONE]).expect_err("there are six blocks").to_string();
    assert_eq!(error, "block_sparse_attention C2: C[0, 1] = 6, expected one of 6 blocks, once in its row");
    assert!(of([2, 1, 2]).is_err());
}

/// A candidate that rounds as fused kernels do is within the bounds at every site, its choices legal or forced.
#[test]
fn a_rounded_run_is_within_the_bounds_of_each_operator() {
    let memory = Memory::random(&tiny_m3(), 1);
    let model = m3(&tiny_m3(), &memory);
    for contract in [RoundingContract::FUSED, RoundingContract::EAGER_BF16, RoundingContract::EAGER_F32] {
        let mut candidate = Recorder::<f64>::new(false);
        pass(&model, contract, &mut candidate).expect("a good text");
        let mut judge = Judge { candidate: &candidate, judged: 0 };
        model.forward(&TEXT, &mut KvCache::new(4), &mut Run::bounding(contract, &mut judge)).expect("a good text");
        assert!(judge.judged > 80, "{}", judge.judged);
    }
}

/// Holds each value against the candidate's, and goes on with that.
struct Judge<'c> {
    candidate: &'c Recorder<f64>,
    judged: usize,
}

impl Probe<f64> for Judge<'_> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        let own = self.candidate.value(site).value.clone();
        within(&own, &value.value, &value.error_or_exact()).unwrap_or_else(|error| panic!("{site}: {error}"));
        *value = Tracked::exact(own);
        self.judged += 1;
    }

    fn choose(&mut self, site: Site, _: &Tracked<f64>, chosen: &mut Array2<usize>) {
        chosen.assign(self.candidate.chosen(site));
    }
}

#[test]
fn c4_to_c7() {
    let memory = Memory::random(&tiny_m3(), 1);
    let of = |index: &dyn Fn(Index) -> Index, semantics: &str| {
        let config = Config { index: tiny_m3().index.map(index), ..tiny_m3() };
        let made = Decoder::new(&config, semantics.parse().expect("a reading"), &memory);
        made.err().map(|error| error.to_string())
    };
    let three = |index| Index { heads: 3, ..index };
    let error = "decoder C4: index heads = 3, expected 2: one for each key head";
    assert_eq!(of(&three, "released"), Some(error.into()));
    assert_eq!(of(&three, "documents"), None);
    let narrow = |index| Index { head_dim: 2, ..index };
    assert_eq!(
        of(&narrow, "released"),
        Some("decoder C5: rotary_dim = 4, expected at most 2, of an index head".into())
    );
    let none = |index: Index| index;
    let error = "decoder C6: chosen blocks = 0, expected at least 1";
    assert_eq!(of(&none, "released,msa_top_k=0"), Some(error.into()));
    let error = "decoder C7: index head_dim = 6, expected 8, that of the keys it takes";
    assert_eq!(of(&none, "released,index_key=main"), Some(error.into()));
}
