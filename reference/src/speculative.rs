//! Speculative decoding: drafts of several tokens, which one pass of the model verifies (SPEC A20).
//!
//! A round reads the last token and k drafts, accepts some of them ([`acceptance`]), and has one token more; keys, values and index
//! keys of rejected drafts are dropped. Errors: C1 a prompt; C2 at least one draft a round.

pub mod acceptance;
pub mod drafter;
pub mod mtp;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::require;
use crate::models::decoder::{Decoder, Pass};
use crate::ops::kv_cache::KvCache;
use crate::ops::sampling::{Choice, Sampling, sample};
use crate::run::Run;
use crate::{Error, Real};
use acceptance::{Round, Slip, accept};
use drafter::{Drafter, Verified};

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation {
    /// Tokens to make.
    pub tokens: usize,
    /// Drafts of a round, at most.
    pub drafts: usize,
    /// How each token is chosen.
    pub sampling: Sampling,
    /// Of the draws.
    pub seed: u64,
    /// What is computed otherwise than it should be.
    pub slip: Option<Slip>,
}

/// How many drafts were accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Passes that verified drafts.
    pub rounds: usize,
    /// Rounds that had a draft in a place, from the first on.
    pub drafted: Vec<usize>,
    /// Those in which it was accepted.
    pub accepted: Vec<usize>,
}

impl Acceptance {
    fn count(&mut self, drafts: usize, accepted: usize) {
        if drafts == 0 {
            return;
        }
        self.rounds += 1;
        for (counts, n) in [(&mut self.drafted, drafts), (&mut self.accepted, accepted)] {
            counts.resize(counts.len().max(drafts), 0);
            counts[..n].iter_mut().for_each(|count| *count += 1);
        }
    }

    /// The share of the drafts that were accepted; none without drafts.
    pub fn share(&self) -> Option<f64> {
        let (drafted, accepted) = (self.drafted.iter().sum::<usize>(), self.accepted.iter().sum::<usize>());
        (drafted > 0).then(|| accepted as f64 / drafted as f64)
    }
}

/// Makes tokens after `prompt`, which is at least one token, with drafts of a drafter that is new. The cache is empty and of the
/// model's layers; it then holds the prompt and all tokens but the last, as it does after decoding token by token. `each` is told
/// of every choice as it is made.
pub fn speculate<T: Real>(
    model: &Decoder<'_>,
    prompt: &[u32],
    p: &Speculation,
    (drafter, cache): (&mut dyn Drafter<T>, &mut KvCache<T>),
    run: &mut Run<'_, T>,
    mut each: impl FnMut(&Choice),
) -> Result<(Vec<Choice>, Acceptance), Error> {
    require(!prompt.is_empty(), "speculative C1", "length of the prompt", 0, "at least 1")?;
    require(p.drafts > 0, "speculative C2", "drafts", 0, "at least 1")?;
    let mut rng = ChaCha8Rng::seed_from_u64(p.seed);
    let (mut choices, mut acceptance) = (Vec::with_capacity(p.tokens), Acceptance::default());
    if p.tokens == 0 {
        return Ok((choices, acceptance));
    }
    let mut text = prompt.to_vec();
    let mut first = 0;
    let mut pass = model.pass(prompt, cache, run)?;
    let last = pass.logits.value.row(prompt.len() - 1);
    let mut round = Round { choices: vec![sample(&p.sampling, last, &mut rng)?], accepted: 0 };
    loop {
        round.choices.iter().for_each(&mut each);
        text.extend(round.choices.iter().map(|choice| choice.token));
        choices.append(&mut round.choices);
        if choices.len() >= p.tokens {
            return Ok((choices, acceptance));
        }
        // A verification gives a token more than it accepts, and reads no position that the model lacks.
        let positions = model.config().max_position_embeddings.saturating_sub(text.len());
        let most = p.drafts.min(p.tokens - choices.len() - 1).min(positions);
        let verified = Verified { text: &text, first, pass: &pass };
        let mut drafts = drafter.draft(&verified, most, &p.sampling, &mut rng)?;
        drafts.truncate(most);
        first = text.len() - 1;
        let read: Vec<u32> = text[first..].iter().copied().chain(drafts.iter().map(|draft| draft.token)).collect();
        pass = model.pass(&read, cache, run)?;
        round = accept(p.slip, pass.logits.view(), &drafts, &p.sampling, &mut rng)?;
        acceptance.count(drafts.len(), round.accepted);
        let right = round.choices.len();
        if p.slip != Some(Slip::KvNotRolledBack) {
            cache.truncate(first + right);
        }
        pass = of_rows(&pass, right);
    }
}

/// The first rows of a pass.
fn of_rows<T: Real>(pass: &Pass<T>, rows: usize) -> Pass<T> {
    let [stream, normed, logits] = [&pass.stream, &pass.normed, &pass.logits].map(|x| x.rows(0..rows.min(x.dim().0)));
    Pass { stream, normed, logits }
}
