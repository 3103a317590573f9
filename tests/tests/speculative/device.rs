//! `tools/src/session/speculating/device.rs`: on the emulated device, what is decoded with drafts is what is decoded without,
//! and so is what caches then hold, bit for bit: a row of a pass has the same bits in any other pass.

use half::bf16;
use ndarray::Array2;
use optimized::emulated::Form;
use optimized::models::cache::Cache;
use optimized::models::decoder as on_device;
use optimized::models::mtp::hidden_of_model;
use rand::SeedableRng;
use reference::ops::sampling::Random;
use reference::semantics::MtpTopology;
use reference::speculative::mtp::ModuleDrafter;
use tests::device::emulated;
use tools::failure::Failure;
use tools::session::decoding::decode_optimized;
use tools::session::speculating::device::{DeviceModules, OnDevice};

use super::*;

fn loaded(config: &Config, semantics: &Semantics, weights: &dyn Weights) -> on_device::Decoder {
    on_device::Decoder::load(emulated(Form::Fast), config, semantics, weights, || ()).expect("it fits")
}

/// What is made with a drafter, and what the cache then holds.
fn made(
    model: &on_device::Decoder,
    p: &Speculation,
    drafter: &mut dyn Drafter<on_device::Pass, Failure>,
) -> (Vec<Choice>, Acceptance, Cache) {
    let cache = model.cache(PROMPT.len() + p.tokens * (p.drafts + 1)).expect("memory");
    let mut verifier = OnDevice { model, cache, features: Vec::new() };
    let (choices, acceptance) = speculate(&mut verifier, &PROMPT, p, drafter, |_| ()).expect("it runs");
    (choices, acceptance, verifier.cache)
}

/// Token by token, by the loop that knows nothing of drafts.
fn plain(model: &on_device::Decoder, p: &Speculation) -> Vec<Choice> {
    let how = reference::decode::Decode { tokens: p.tokens, sampling: p.sampling, seed: p.seed, chunk: None };
    decode_optimized(model, (&PROMPT, None), &how, None, |_| ()).expect("it runs")
}

/// The same greedily, written out; and what a cache holds of the prompt and all tokens but the last.
fn kept(model: &on_device::Decoder, count: usize) -> (Vec<Choice>, Vec<Array2<bf16>>) {
    let (mut cache, mut next) = (model.cache(PROMPT.len() + count).expect("memory"), PROMPT.to_vec());
    let mut choices = Vec::new();
    while choices.len() < count {
        let logits = model.forward(&next, &[], &mut cache, None).expect("it runs");
        let (token, margin) = model.greedy(&logits).expect("it runs");
        choices.push(Choice { token, margin: f64::from(margin) });
        next = vec![token];
    }
    (choices, cache.download(model.gpu()).expect("it is there"))
}

impl Drafter<on_device::Pass, Failure> for Forced {
    fn draft(
        &mut self,
        Verified { text, first, pass }: &Verified<'_, on_device::Pass>,
        most: usize,
        _: &Sampling,
        _: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Failure> {
        let rows = [pass.stream.dim().0, pass.normed.dim().0, pass.logits.dim().0];
        Ok(self.drafts((text, *first), rows, most))
    }
}

impl Drafter<on_device::Pass, Failure> for Nothing {
    fn draft(
        &mut self,
        _: &Verified<'_, on_device::Pass>,
        _: usize,
        _: &Sampling,
        _: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Failure> {
        Ok(Vec::new())
    }
}

/// Every pattern of three drafts, and some of seven.
#[test]
fn no_pattern_of_drafts_changes_a_bit() {
    for config in [small(), small_m3()] {
        let weights = weights(&config, 3);
        let model = loaded(&config, &Semantics::RELEASED, &weights);
        let (want, kept) = kept(&model, GREEDY.tokens);
        assert_eq!(want, plain(&model, &GREEDY));
        let patterns = (0..1_u32 << 3).map(|bits| (3, 3, bits)).chain((0..1 << 7).step_by(43).map(|bits| (7, 7, bits)));
        for (drafts, length, bits) in patterns {
            let right: Vec<bool> = (0..length).map(|place| bits >> place & 1 == 1).collect();
            let mut drafter = Forced::new(&want, &right, config.vocab_size);
            let (choices, acceptance, cache) = made(&model, &Speculation { drafts, ..GREEDY }, &mut drafter);
            assert_eq!(choices, want, "{right:?}");
            assert_eq!(cache.len(), PROMPT.len() + GREEDY.tokens - 1);
            assert!(cache.download(model.gpu()).expect("it is there") == kept, "{right:?}");
            assert_eq!(acceptance.share() == Some(1.0), !right.contains(&false));
        }
    }
}

/// With the modules of a synthetic model of that seed: how many drafts were made, and were right. Texts are those of plain
/// decoding, token by token, and so are caches.
fn accepted(config: &Config, (topology, drafts): (MtpTopology, usize), seed: u64) -> [usize; 2] {
    let weights = Synthesis { seed, modules: drafts, ..Synthesis::default() }.weights(config);
    let semantics = Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED };
    let model = loaded(config, &semantics, &weights);
    let p = Speculation { tokens: 6, drafts, ..GREEDY };
    let (want, kept) = kept(&model, p.tokens);
    let modules = DeviceModules::load(&model, &weights, drafts, PROMPT.len() + p.tokens).expect("memory");
    let (found, acceptance, cache) = made(&model, &p, &mut ModuleDrafter::by(modules).expect("it has some"));
    assert_eq!(found, want, "{topology}, seed {seed}");
    assert!(cache.download(model.gpu()).expect("it is there") == kept, "{topology}, seed {seed}");
    [acceptance.drafted.iter().sum(), acceptance.accepted.iter().sum()]
}

#[test]
fn a_hundred_models_of_each_family_say_with_drafts_what_they_say_without() {
    for (config, topology, drafts, seeds) in [
        (small(), MtpTopology::Doc000, 3, 100),
        (small_m3(), MtpTopology::VllmM3, 7, 100),
        (small_m3(), MtpTopology::HfGeneric, 3, 5),
    ] {
        let found = (0..seeds).map(|seed| accepted(&config, (topology, drafts), seed));
        let [drafted, accepted] = found.fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
        let share = accepted as f64 / drafted as f64;
        assert!((0.2..0.8).contains(&share), "{topology}: {share}");
    }
}

/// Whatever was accepted of the last drafts, the next are those of the whole text, and modules' caches have the same bits.
#[test]
fn drafts_after_rounds_are_those_of_the_whole_text() {
    const TEXT: [u32; 12] = [7, 1, 19, 7, 0, 22, 13, 5, 5, 20, 2, 18];
    for (config, topology) in
        [(small(), MtpTopology::Doc000), (small_m3(), MtpTopology::VllmM3), (small_m3(), MtpTopology::HfGeneric)]
    {
        let weights = Synthesis { seed: 2, modules: 3, ..Synthesis::default() }.weights(&config);
        let semantics = Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED };
        let model = loaded(&config, &semantics, &weights);
        let modules = || DeviceModules::load(&model, &weights, 3, 2 * TEXT.len()).expect("memory");
        let ask = |drafter: &mut ModuleDrafter<DeviceModules<'_>>, first, until, pass: &on_device::Pass| {
            let verified = Verified { text: &TEXT[..until], first, pass };
            drafter.draft(&verified, 3, &Sampling::Greedy, &mut ChaCha8Rng::seed_from_u64(0)).expect("it runs")
        };
        for steps in [[1, 1, 1, 1], [4, 1, 1, 1], [1, 3, 2, 1]] {
            let (mut drafter, mut cache) =
                (ModuleDrafter::by(modules()).expect("some"), model.cache(32).expect("memory"));
            let (mut first, mut until) = (0, 5);
            for step in steps {
                let pass = model.pass(&TEXT[first..until - 1], &[], &mut cache, None).expect("it runs");
                let drafts = ask(&mut drafter, first, until, &pass);
                let mut alone = ModuleDrafter::by(modules()).expect("some");
                let mut whole = model.cache(32).expect("memory");
                let all = model.pass(&TEXT[..until - 1], &[], &mut whole, None).expect("it runs");
                assert_eq!(drafts, ask(&mut alone, 0, until, &all), "{topology}: {until} tokens");
                for module in 0..if topology.has_a_module_each() { 3 } else { 1 } {
                    let [own, other] = [&drafter, &alone].map(|drafter| {
                        let cache = drafter.modules().cache(module);
                        cache.download(model.gpu()).expect("it is there")
                    });
                    assert!(own == other, "{topology}: module {module} after {until} tokens");
                }
                (first, until) = (until - 1, until + step);
            }
        }
    }
}

/// Drawn on the host from the device's logits: without drafts those of plain decoding with the same seed, and with drafts some are
/// accepted and some are not.
#[test]
fn tokens_are_drawn_by_the_same_rule() {
    let sampling = Sampling::Random(Random { temperature: 1.0, top_k: Some(12), top_p: 0.95 });
    for (config, drafts) in [(small(), 3), (small_m3(), 7)] {
        let weights = Synthesis { seed: 4, modules: 3, ..Synthesis::default() }.weights(&config);
        let model = loaded(&config, &Semantics::RELEASED, &weights);
        let (mut drafted, mut accepted) = (0, 0);
        for seed in 0..4 {
            let p = Speculation { tokens: 24, drafts, sampling, seed, ..GREEDY };
            assert_eq!(made(&model, &p, &mut Nothing).0, plain(&model, &p));
            let modules = DeviceModules::load(&model, &weights, drafts.min(3), PROMPT.len() + 24).expect("memory");
            let (choices, found, _) = made(&model, &p, &mut ModuleDrafter::by(modules).expect("some"));
            assert_eq!(choices.len(), 24);
            drafted += found.drafted.iter().sum::<usize>();
            accepted += found.accepted.iter().sum::<usize>();
        }
        assert!(0 < accepted && accepted < drafted, "{accepted} of {drafted}");
    }
}

/// What engines are known to slip on is seen here, too.
#[test]
fn slips_are_seen() {
    let config = small_m3();
    let weights = weights(&config, 3);
    let model = loaded(&config, &Semantics::RELEASED, &weights);
    let (want, kept) = kept(&model, GREEDY.tokens);
    let slipping = |slip, right: &[bool]| made(&model, &with(slip), &mut Forced::new(&want, right, config.vocab_size));
    let (choices, _, cache) = slipping(Slip::KvNotRolledBack, &[true, false]);
    assert!(choices[..13] != want && cache.len() > PROMPT.len() + 12);
    let (choices, ..) = slipping(Slip::AcceptAfterMismatch, &[true, false, true]);
    assert_ne!(tokens(&choices)[..13], tokens(&want));
    let (choices, acceptance, cache) = slipping(Slip::BonusMissing, &[true]);
    assert_eq!((tokens(&choices), acceptance.rounds), (tokens(&want), 4));
    assert!(cache.download(model.gpu()).expect("it is there") == kept);
}

/// The hidden states that modules read are the model's, of all its rows.
#[test]
fn hidden_states_are_those_of_the_reading() {
    let config = small_m3();
    let weights = weights(&config, 3);
    for (text, is_normed) in
        [("released", true), ("released,mtp_hidden=stream", false), ("released,mtp_topology=doc000", false)]
    {
        let model = loaded(&config, &text.parse().expect("a reading"), &weights);
        let mut cache = model.cache(8).expect("memory");
        let pass = model.pass(&PROMPT, &[], &mut cache, None).expect("it runs");
        let [found, normed, stream] = [hidden_of_model(&model, &pass), &pass.normed, &pass.stream]
            .map(|x| model.gpu().download(x).expect("it is there"));
        assert_ne!(normed, stream);
        assert_eq!(found, if is_normed { normed } else { stream }, "{text}");
    }
}
