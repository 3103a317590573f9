//! `optimized/src/models/group.rs`: ranks on the emulated device next to the model that they share.

use std::collections::HashMap;

use fixtures::synth::Synthesis;
use ndarray::{Array2, ArrayView2, Axis, concatenate};
use optimized::communicator::members::{Member, open};
use optimized::device::DeviceChoice;
use optimized::emulated::Form;
use optimized::models::capture::Capture;
use optimized::models::decoder::Decoder;
use optimized::models::group::Group;
use reference::config::Config;
use reference::ranks::Ranks;
use reference::weights::Weights;
use reference::{LayerSite, RoundingContract, Semantics, Site, Tracked};

use super::{Seen, TEXT, judged, models};

const DEVICE: DeviceChoice = DeviceChoice::Emulated(Form::Fast);

impl Capture for Seen<f64> {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        self.values.insert(site, Tracked::plain(value.mapv(f64::from)));
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        self.chosen.insert(site, chosen);
    }
}

fn group(config: &Config, weights: &dyn Weights, members: Vec<Member>) -> Group {
    let ranks = Ranks::of(config, members.len()).expect("it can be shared");
    let loaded = Group::load(members, ranks, (config, &Semantics::RELEASED), weights, || ());
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

/// Logits of all ranks' tokens, on the host.
fn logits(group: &Group, tokens: &[u32], capture: Option<&mut dyn Capture>) -> Array2<f32> {
    let mut caches = group.caches(tokens.len()).expect("memory");
    let parts = group.forward(tokens, &mut caches, capture).unwrap_or_else(|error| panic!("{error}"));
    let parts: Vec<_> = parts.iter().map(|part| group.gpu().download(part).expect("memory").mapv(f32::from)).collect();
    let views: Vec<ArrayView2<'_, f32>> = parts.iter().map(|part| part.view()).collect();
    concatenate(Axis(1), &views).expect("all tokens")
}

/// Sites that only the reference shows: kernels go on with what is there in registers.
fn is_within_kernels(site: &Site) -> bool {
    use LayerSite::{DenseGateUp, IndexKNorm, IndexQNorm, KNorm, QNorm, SharedGateUp};
    matches!(site, Site::Layer(_, QNorm | KNorm | IndexQNorm | IndexKNorm | DenseGateUp | SharedGateUp))
}

/// Operator by operator, of both models; ranks that have no query head but zeros, too.
#[test]
fn ranks_compute_what_the_whole_model_does_within_its_bounds() {
    for (config, hidden) in models() {
        let weights = Synthesis { seed: 6, ..Synthesis::default() }.weights(&config);
        for count in [1, 2, 4, 8, 16, 64] {
            let contract = RoundingContract { ranks: count, ..RoundingContract::PARITY };
            let group = group(&config, &weights, open(DEVICE, count).expect("the emulated device"));
            let mut seen = Seen { values: HashMap::new(), chosen: HashMap::new() };
            logits(&group, &TEXT, Some(&mut seen));
            let [faults, missing] = judged(&config, &weights, &seen, contract);
            let missing: Vec<Site> = missing.into_iter().filter(|site| !is_within_kernels(site)).collect();
            assert_eq!((faults, missing), (Vec::new(), hidden.clone()), "{count} ranks");
        }
    }
}

/// One rank's sums are its own parts, and its bits those of a model that nobody shares; prompt and decoded tokens.
#[test]
fn one_rank_has_the_bits_of_the_whole_model() {
    for (config, _) in models() {
        let weights = Synthesis { seed: 7, ..Synthesis::default() }.weights(&config);
        let one = group(&config, &weights, open(DEVICE, 1).expect("the emulated device"));
        let gpu = optimized::device::Gpu::open(DEVICE).expect("the emulated device");
        let whole = Decoder::load(gpu, &config, &Semantics::RELEASED, &weights, || ()).expect("a model");
        let (mut caches, mut cache) =
            (one.caches(TEXT.len()).expect("memory"), whole.cache(TEXT.len()).expect("memory"));
        for call in [&TEXT[..9], &TEXT[9..10], &TEXT[10..]] {
            let got = one.forward(call, &mut caches, None).unwrap_or_else(|error| panic!("{error}"));
            let want = whole.forward(call, &[], &mut cache, None).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(one.last_row(&got).expect("memory"), whole.last_row(&want).expect("memory"));
        }
    }
}

/// Whoever comes first: the bits of every run are the same.
#[test]
fn ranks_have_the_same_bits_in_every_run() {
    for (config, _) in models() {
        let weights = Synthesis { seed: 8, ..Synthesis::default() }.weights(&config);
        let group = group(&config, &weights, open(DEVICE, 4).expect("the emulated device"));
        let first = logits(&group, &TEXT, None);
        (0..3).for_each(|_| assert_eq!(logits(&group, &TEXT, None), first));
    }
}

/// The checked form sees what a rank's stream reads before another's has written it, and what is freed before it is read.
#[test]
fn no_rank_reads_what_another_has_not_written() {
    let checked = DeviceChoice::Emulated(Form::Checked);
    for (config, _) in models() {
        let weights = Synthesis { seed: 9, ..Synthesis::default() }.weights(&config);
        let [fast, checked] = [DEVICE, checked].map(|device| {
            let group = group(&config, &weights, open(device, 2).expect("the emulated device"));
            logits(&group, &TEXT[..3], None)
        });
        assert_eq!(fast, checked);
    }
}

/// A rank that fails stops the others, which wait for it, and its error is told.
#[test]
fn a_rank_that_fails_stops_the_group() {
    let (config, _) = &models()[0];
    let weights = Synthesis { seed: 10, ..Synthesis::default() }.weights(config);
    let group = group(config, &weights, open(DEVICE, 2).expect("the emulated device"));
    let mut caches = group.caches(2).expect("memory");
    let mut short = group.caches(1).expect("memory");
    caches[1] = short.swap_remove(1);
    let said = group.forward(&TEXT[..2], &mut caches, None).expect_err("a cache is too small").to_string();
    assert_eq!(said, "decoder K1: positions = 2, expected at most the cache's, 1");
}
