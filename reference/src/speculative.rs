//! Speculative decoding: drafts of several tokens, which one pass of the model verifies (SPEC A20).
//!
//! A round reads the last token and k drafts, accepts some of them ([`acceptance`]), and has one token more; keys, values and index
//! keys of rejected drafts are dropped. Errors: C1 a prompt; C2 at least one draft a round.

pub mod acceptance;
pub mod drafter;
pub mod mtp;

use ndarray::s;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::require;
use crate::models::decoder::{Decoder, Pass};
use crate::ops::kv_cache::KvCache;
use crate::ops::sampling::{Choice, Sampling};
use crate::run::Run;
use crate::{ContractError, Error, Real};
use acceptance::{Round, Slip, accept};
use drafter::{Draft, Drafter, Verified};

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

/// A model with its caches, as rounds use it.
pub trait Verifier {
    /// What it computes of the tokens that it reads at once, a row each.
    type Pass;
    /// What may go wrong on the way.
    type Error: From<ContractError>;

    /// Positions that the model has.
    fn positions(&self) -> usize;

    /// Reads tokens, which follow those in its caches.
    fn read(&mut self, tokens: &[u32]) -> Result<Self::Pass, Self::Error>;

    /// What is accepted of drafts by the last rows of a pass: one before each draft, and one after them.
    fn accept(
        &mut self,
        pass: &Self::Pass,
        drafts: &[Draft],
        how: (Option<Slip>, &Sampling),
        rng: &mut ChaCha8Rng,
    ) -> Result<Round, Self::Error>;

    /// Forgets all tokens but the first.
    fn truncate(&mut self, tokens: usize);

    /// The first rows of a pass.
    fn of_rows(&self, pass: Self::Pass, rows: usize) -> Result<Self::Pass, Self::Error>;
}

/// Makes tokens after `prompt`, which is at least one token, with drafts of a drafter that is new. The caches are empty; they
/// then hold the prompt and all tokens but the last, as they do after decoding token by token. `each` is told of every choice as
/// it is made.
pub fn speculate<V: Verifier>(
    model: &mut V,
    prompt: &[u32],
    p: &Speculation,
    drafter: &mut dyn Drafter<V::Pass, V::Error>,
    mut each: impl FnMut(&Choice),
) -> Result<(Vec<Choice>, Acceptance), V::Error> {
    require(!prompt.is_empty(), "speculative C1", "length of the prompt", 0, "at least 1")?;
    require(p.drafts > 0, "speculative C2", "drafts", 0, "at least 1")?;
    let mut rng = ChaCha8Rng::seed_from_u64(p.seed);
    let (mut choices, mut acceptance) = (Vec::with_capacity(p.tokens), Acceptance::default());
    if p.tokens == 0 {
        return Ok((choices, acceptance));
    }
    let how = (p.slip, &p.sampling);
    let mut text = prompt.to_vec();
    let mut first = 0;
    let mut pass = model.read(prompt)?;
    let mut round = model.accept(&pass, &[], how, &mut rng)?;
    loop {
        round.choices.iter().for_each(&mut each);
        text.extend(round.choices.iter().map(|choice| choice.token));
        choices.append(&mut round.choices);
        if choices.len() >= p.tokens {
            return Ok((choices, acceptance));
        }
        // A verification gives a token more than it accepts, and reads no position that the model lacks.
        let positions = model.positions().saturating_sub(text.len());
        let most = p.drafts.min(p.tokens - choices.len() - 1).min(positions);
        let verified = Verified { text: &text, first, pass: &pass };
        let mut drafts = drafter.draft(&verified, most, &p.sampling, &mut rng)?;
        drafts.truncate(most);
        first = text.len() - 1;
        let read: Vec<u32> = text[first..].iter().copied().chain(drafts.iter().map(|draft| draft.token)).collect();
        pass = model.read(&read)?;
        round = model.accept(&pass, &drafts, how, &mut rng)?;
        acceptance.count(drafts.len(), round.accepted);
        let right = round.choices.len();
        if p.slip != Some(Slip::KvNotRolledBack) {
            model.truncate(first + right);
        }
        pass = model.of_rows(pass, right)?;
    }
}

/// The reference with a cache.
pub struct Reference<'a, 'w, 'p, T> {
    /// The model.
    pub model: &'a Decoder<'w>,
    /// Empty, of the model's layers.
    pub cache: &'a mut KvCache<T>,
    /// How passes are computed.
    pub run: &'a mut Run<'p, T>,
}

impl<T: Real> Verifier for Reference<'_, '_, '_, T> {
    type Pass = Pass<T>;
    type Error = Error;

    fn positions(&self) -> usize {
        self.model.config().max_position_embeddings
    }

    fn read(&mut self, tokens: &[u32]) -> Result<Pass<T>, Error> {
        self.model.pass(tokens, self.cache, self.run)
    }

    fn accept(
        &mut self,
        pass: &Pass<T>,
        drafts: &[Draft],
        how: (Option<Slip>, &Sampling),
        rng: &mut ChaCha8Rng,
    ) -> Result<Round, Error> {
        let z = pass.logits.view();
        let first = z.nrows().saturating_sub(drafts.len() + 1);
        Ok(accept(how.0, z.slice(s![first.., ..]), drafts, how.1, rng)?)
    }

    fn truncate(&mut self, tokens: usize) {
        self.cache.truncate(tokens);
    }

    fn of_rows(&self, pass: Pass<T>, rows: usize) -> Result<Pass<T>, Error> {
        let [stream, normed, logits] =
            [&pass.stream, &pass.normed, &pass.logits].map(|x| x.rows(0..rows.min(x.dim().0)));
        Ok(Pass { stream, normed, logits })
    }
}
