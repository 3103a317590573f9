//! What drafts depend on: the text alone, and no drafts before.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::models::decoder::{Decoder, Pass};
use reference::models::mtp::{MtpModule, hidden_of_model, hidden_of_module};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::{Random, Sampling, argmax};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::semantics::MtpTopology::{self, Doc000, HfGeneric, VllmM3};
use reference::speculative::drafter::{Draft, Drafter, Verified};
use reference::speculative::mtp::MtpDrafter;
use reference::{RoundingContract, Semantics};
use tests::memory::{Memory, tiny, tiny_m3};

const TEXT: [u32; 12] = [7, 1, 39, 7, 0, 22, 13, 5, 5, 30, 2, 18];

fn ideal(probe: &mut NoProbe) -> Run<'_, f64> {
    Run::new(RoundingContract::IDEAL, probe)
}

fn each_topology(mut try_it: impl FnMut(MtpTopology, &Decoder<'_>)) {
    for (config, topology) in [(tiny(), Doc000), (tiny_m3(), VllmM3), (tiny_m3(), HfGeneric)] {
        let memory = Memory::with_modules(&config, (topology, 3), 5);
        let semantics = Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED };
        try_it(topology, &Decoder::new(&config, semantics, &memory).expect("it fits"));
    }
}

/// A pass of the model over the text's tokens from `first` to the last but one of `until`.
fn read(model: &Decoder<'_>, cache: &mut KvCache<f64>, first: usize, until: usize) -> Pass<f64> {
    model.pass(&TEXT[first..until - 1], cache, &mut ideal(&mut NoProbe)).expect("it runs")
}

fn ask(drafter: &mut MtpDrafter<'_, '_, f64>, first: usize, until: usize, pass: &Pass<f64>) -> Vec<Draft> {
    let verified = Verified { text: &TEXT[..until], first, pass };
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    drafter.draft(&verified, 3, &Sampling::Greedy, &mut rng).expect("it runs")
}

/// Whatever part of the last drafts was accepted: from none of them to all and a token more.
#[test]
fn drafts_after_rounds_are_those_of_the_whole_text() {
    each_topology(|topology, model| {
        for steps in [[1, 1, 1, 1], [4, 1, 1, 1], [1, 3, 2, 1], [2, 2, 2, 1], [4, 3, 0, 0]] {
            let mut drafter = MtpDrafter::new(model, 3, RoundingContract::IDEAL).expect("it has modules");
            let mut cache = KvCache::new(model.config().num_hidden_layers);
            let (mut first, mut until) = (0, 5);
            for step in steps {
                let drafts = ask(&mut drafter, first, until, &read(model, &mut cache, first, until));
                let mut whole = MtpDrafter::new(model, 3, RoundingContract::IDEAL).expect("it has modules");
                let all = read(model, &mut KvCache::new(model.config().num_hidden_layers), 0, until);
                assert_eq!(drafts, ask(&mut whole, 0, until, &all), "{topology}: {until} tokens");
                (first, until) = (until - 1, until + step);
                if step == 0 {
                    break;
                }
            }
        }
    });
}

/// Written out: each module over the whole text with the drafts before it, or vLLM's over each draft in turn.
#[test]
fn drafts_are_what_the_modules_say() {
    each_topology(|topology, model| {
        let pass = read(model, &mut KvCache::new(model.config().num_hidden_layers), 0, TEXT.len());
        let mut drafter = MtpDrafter::new(model, 3, RoundingContract::IDEAL).expect("it has modules");
        let drafts = ask(&mut drafter, 0, TEXT.len(), &pass);
        let mut text = TEXT[1..].to_vec();
        let mut hidden = hidden_of_model(model, &pass);
        let mut one = KvCache::new(1);
        for (number, draft) in drafts.iter().enumerate() {
            let (module, mut own) = if topology == VllmM3 { (0, one.clone()) } else { (number, KvCache::new(1)) };
            let module = MtpModule::of(model, module);
            let pass = module.pass(&text, &hidden, &mut own, &mut ideal(&mut NoProbe)).expect("it runs");
            let says = argmax(pass.logits.value.row(text.len() - 1)).expect("a vocabulary").token;
            assert_eq!((draft.token, &draft.probabilities), (says, &None), "{topology}: draft {number}");
            let last = text.len() - 1;
            let next = hidden_of_module(topology, pass);
            if topology == VllmM3 {
                (text, one) = (vec![says], own);
                hidden = next.expect("in series").rows(last..last + 1);
            } else {
                text = [&text[1..], &[says]].concat();
                hidden = next.unwrap_or(hidden);
            }
        }
        assert_eq!(drafts.len(), 3);
    });
}

/// Drawn drafts come with what they were drawn by.
#[test]
fn drawn_drafts_have_probabilities() {
    each_topology(|_, model| {
        let pass = read(model, &mut KvCache::new(model.config().num_hidden_layers), 0, TEXT.len());
        let mut drafter = MtpDrafter::new(model, 3, RoundingContract::IDEAL).expect("it has modules");
        let verified = Verified { text: &TEXT, first: 0, pass: &pass };
        let sampling = Sampling::Random(Random { temperature: 2.0, top_k: Some(5), top_p: 1.0 });
        let drafts = drafter.draft(&verified, 2, &sampling, &mut ChaCha8Rng::seed_from_u64(3)).expect("it runs");
        assert_eq!(drafts.len(), 2);
        for Draft { token, probabilities } in drafts {
            let q = probabilities.expect("it was drawn");
            assert!(q[token as usize] > 0.0 && q.iter().filter(|q| **q > 0.0).count() == 5);
            assert!((q.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    });
}

#[test]
fn c1_to_c3_of_the_drafter() {
    let (config, topology) = (tiny(), Doc000);
    let memory = Memory::with_modules(&config, (topology, 3), 5);
    let model = Decoder::new(&config, Semantics::RELEASED, &memory).expect("it fits");
    let none = MtpDrafter::<f64>::new(&model, 0, RoundingContract::IDEAL).err().expect("refused");
    assert_eq!(none.to_string(), "mtp_drafter C1: modules = 0, expected at least 1");
    let mut drafter = MtpDrafter::new(&model, 3, RoundingContract::IDEAL).expect("it has modules");
    let pass = read(&model, &mut KvCache::new(2), 0, 5);
    let mut asked = |first, most| {
        let verified = Verified { text: &TEXT[..first + 5], first, pass: &pass };
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        drafter
            .draft(&verified, most, &Sampling::Greedy, &mut rng)
            .map(|drafts| drafts.len())
            .map_err(|e| e.to_string())
    };
    assert_eq!(asked(1, 1), Err("mtp_drafter C3: first new token = 1, expected 0".into()));
    assert_eq!(asked(0, 1), Ok(1));
    let behind = asked(4, 3).expect_err("the second module has read nothing");
    assert_eq!(behind, "mtp_drafter C2: rows that a module has read = 0, expected 2");
}
