//! What transformers' `generate(use_mtp=True)` made of M3 with modules of its own layers, next to our rounds of drafts.

use std::fs;

use fixtures::checkpoint::Checkpoint;
use rand_chacha::ChaCha8Rng;
use reference::models::decoder::{Decoder, Pass};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::Sampling;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::speculative::drafter::{Draft, Drafter, Verified};
use reference::speculative::mtp::MtpDrafter;
use reference::speculative::{Reference, Speculation, speculate};
use reference::{Error, RoundingContract, Semantics};
use serde::Deserialize;
use tests::repository;

/// `index.json`, as far as it is used.
#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    rounds: Vec<Round>,
}

/// What was drafted, and how much of it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Round {
    drafts: Vec<u32>,
    accepted: usize,
}

/// Keeps the drafts of each round with the length of the text before it.
struct Watched<'m, 'w> {
    drafter: MtpDrafter<'m, 'w, f64>,
    rounds: Vec<(usize, Vec<u32>)>,
}

impl Drafter<Pass<f64>> for Watched<'_, '_> {
    fn draft(
        &mut self,
        verified: &Verified<'_, Pass<f64>>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Error> {
        let drafts = self.drafter.draft(verified, most, sampling, rng)?;
        self.rounds.push((verified.text.len(), drafts.iter().map(|draft| draft.token).collect()));
        Ok(drafts)
    }
}

/// Tokens, drafts and acceptance, round by round. The library drafts beyond the last token that is asked for, and drops that.
#[test]
fn rounds_are_those_of_generate() {
    let folder = repository::path("fixtures/golden-speculation");
    let golden = fs::read_to_string(folder.join("index.json")).expect("it is there");
    let golden: Golden = serde_json::from_str(&golden).expect("it has these fields");
    let checkpoint = Checkpoint::open(&folder.join("model")).expect("every tensor has its place");
    let semantics: Semantics = "released,mtp_topology=hf_generic".parse().expect("a reading");
    let config = checkpoint.config();
    let model = Decoder::new(config, semantics, &checkpoint).expect("it fits");
    let drafter = MtpDrafter::new(&model, checkpoint.mtp_modules(), RoundingContract::IDEAL).expect("it has modules");
    let mut watched = Watched { drafter, rounds: Vec::new() };
    let (mut cache, mut unseen) = (KvCache::new(config.num_hidden_layers), NoProbe);
    let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
    let p = Speculation {
        tokens: golden.tokens.len(),
        drafts: checkpoint.mtp_modules(),
        sampling: Sampling::Greedy,
        seed: 0,
        slip: None,
    };
    let mut reference = Reference { model: &model, cache: &mut cache, run: &mut run };
    let (choices, _) = speculate(&mut reference, &golden.prompt, &p, &mut watched, |_| ()).expect("it runs");
    let tokens: Vec<u32> = choices.iter().map(|choice| choice.token).collect();
    assert_eq!(tokens, golden.tokens);

    let ends = watched.rounds.iter().skip(1).map(|(text, _)| *text).chain([golden.prompt.len() + tokens.len()]);
    let found: Vec<Round> = watched
        .rounds
        .iter()
        .zip(ends)
        .map(|((text, drafts), end)| Round { drafts: drafts.clone(), accepted: end - text - 1 })
        .collect();
    let cut = |(golden, found): (&Round, &Round)| {
        let drafts = golden.drafts[..found.drafts.len()].to_vec();
        Round { drafts, accepted: golden.accepted }
    };
    assert_eq!(found.len(), golden.rounds.len());
    assert_eq!(found, golden.rounds.iter().zip(&found).map(cut).collect::<Vec<_>>());
    // Of a draft that is wrong at once, one that is right and one that is all right there are some.
    for accepted in 0..=2 {
        assert!(found.iter().filter(|round| round.accepted == accepted).count() > 2, "{accepted}");
    }
}
