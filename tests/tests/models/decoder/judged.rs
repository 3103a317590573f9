//! A candidate in f32 against the truth and its bounds: site by site from its own inputs, and freely running.

use super::*;
use ndarray::Array2;
use reference::accumulator::Accumulator;
use reference::compare::compare;
use reference::{LayerSite, Site, Storage};
use tests::judge::NEVER;
use tests::probes::Seen;

/// Holds each value against what a candidate showed there, and goes on from that if `substituting`.
struct Judge {
    candidate: Recorder<f32>,
    next: usize,
    substituting: bool,
    compared: usize,
}

impl Judge {
    fn of(candidate: Recorder<f32>, substituting: bool) -> Self {
        Judge { candidate, next: 0, substituting, compared: 0 }
    }

    fn shown(&mut self, site: Site) -> Seen<f32> {
        let (at, seen) = self.candidate.seen[self.next].clone();
        self.next += 1;
        assert_eq!(at, site);
        seen
    }
}

impl Probe<f64> for Judge {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        let Seen::Value(shown) = self.shown(site) else { panic!("{site} is a value") };
        let (got, error) = (shown.value.mapv(f64::from), value.error_or_exact());
        let found = compare(got.view(), value.view(), &error, Storage::Real, NEVER);
        assert_eq!((found.faults, found.count), (0, got.len()), "{site}: {:?}", found.worst);
        self.compared += found.count;
        if self.substituting {
            *value = Tracked::exact(got);
        }
    }

    /// Where the candidate chose otherwise, the scores must be closer than their errors.
    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        let Seen::Chosen(shown) = self.shown(site) else { panic!("{site} is a choice") };
        let error = scores.error_or_exact();
        for (i, (mine, other)) in chosen.rows().into_iter().zip(shown.rows()).enumerate() {
            for (&a, &b) in mine.iter().zip(other) {
                let gap = (scores.value[[i, a]] - scores.value[[i, b]]).abs();
                assert!(a == b || gap <= error.certain[[i, a]] + error.certain[[i, b]], "{site}: {mine} or {other}");
            }
        }
        chosen.assign(&shown);
    }

    fn wants(&self, _: Site) -> bool {
        self.candidate.asking
    }
}

/// Runs a candidate in f32, then the truth beside it.
fn judged(contract: RoundingContract, asking: bool, substituting: bool, seed: u64) {
    let memory = Memory::random(&tiny(), seed);
    let (model, mut candidate) = (model(&tiny(), &memory), Recorder::<f32>::new(asking));
    pass(&model, contract, &mut candidate).expect("a good text");
    let mut judge = Judge::of(candidate, substituting);
    let mut cache = KvCache::new(2);
    model.forward(&TEXT, &mut cache, &mut Run::bounding(contract, &mut judge)).expect("a good text");
    assert_eq!(judge.next, judge.candidate.seen.len());
    assert!(judge.compared > TEXT.len() * 48 * 30);
}

/// One operator at a time: each starts from what the candidate had.
#[test]
fn a_candidate_keeps_the_bound_of_every_site() {
    for (_, contract) in RoundingContract::PRESETS.into_iter().filter(|(name, _)| *name != "ideal") {
        for seed in 0..4 {
            judged(contract, false, true, seed);
            judged(contract, true, true, seed);
        }
    }
}

/// With the fields of a contract mixed.
#[test]
fn a_candidate_keeps_the_bounds_of_other_contracts() {
    for contract in [
        "eager_bf16,rms=one,rope=once",
        "eager_bf16,qk_norm=once,swiglu=once",
        "eager_f16,attention=flash,experts=once",
        "eager_bf16,gate=activations,routing=activations",
        "fused,norm_input=sum",
        "fused,experts=each,rms=two,attention=eager",
    ] {
        judged(contract.parse().expect("a contract"), false, true, 5);
        judged(contract.parse().expect("a contract"), true, true, 5);
    }
}

/// All operators together: the bounds carry the errors of what came before.
#[test]
fn a_candidate_keeps_the_bounds_that_carry_through_the_model() {
    for seed in 0..4 {
        judged(RoundingContract::EAGER_F32, false, false, seed);
        judged(RoundingContract::EAGER_F32, true, false, seed);
    }
}

/// And these bounds are of use, for a layer: in f32 the sign of most of its outputs is certain, and of nearly all likely.
/// In the next layer the first scores that may be off by more than 1 make them useless.
#[test]
fn bounds_that_carry_through_a_layer_still_say_something() {
    let memory = Memory::random(&tiny(), 0);
    let (model, mut seen) = (model(&tiny(), &memory), Recorder::<f64>::new(false));
    let contract = RoundingContract { accumulator: Accumulator::F32, ..RoundingContract::EAGER_F32 };
    let mut run = Run::bounding(contract, &mut seen);
    model.forward(&TEXT, &mut KvCache::new(2), &mut run).expect("a good text");
    let output = seen.value(Site::Layer(0, LayerSite::Output));
    let error = output.error_or_exact();
    let unsure = |error: Array2<f64>| error.iter().zip(&output.value).filter(|(e, x)| **e > x.abs()).count();
    let (unsure, unlikely) = (unsure(error.certain), unsure(error.sigma * NEVER));
    assert!(unsure * 4 < output.value.len() && unlikely * 100 < output.value.len(), "{unsure}, {unlikely}");
    assert!(1 < error.carried && error.carried < seen.value(Site::Logits).error_or_exact().carried);
}
