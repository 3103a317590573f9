//! Decoding: prefill, then one token at a time.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::error::require;
use crate::models::decoder::Decoder;
use crate::models::group::Group;
use crate::ops::kv_cache::KvCache;
use crate::ops::sampling::{Choice, Sampling, sample};
use crate::run::Run;
use crate::{Error, Real, Tracked};

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decode {
    /// Tokens to make.
    pub tokens: usize,
    /// How each is chosen.
    pub sampling: Sampling,
    /// Of the draws.
    pub seed: u64,
    /// Prompt tokens in one forward pass; `None` for all.
    pub chunk: Option<usize>,
}

/// A model that reads tokens behind those that its cache has.
pub trait LanguageModel<T: Real> {
    /// What it keeps of tokens.
    type Cache;

    /// A cache of no tokens.
    fn cache(&self) -> Self::Cache;

    /// Logits of tokens that follow those in the cache.
    fn read(&self, tokens: &[u32], cache: &mut Self::Cache, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error>;
}

impl<T: Real> LanguageModel<T> for Decoder<'_> {
    type Cache = KvCache<T>;

    fn cache(&self) -> KvCache<T> {
        KvCache::new(self.config().num_hidden_layers)
    }

    fn read(&self, tokens: &[u32], cache: &mut KvCache<T>, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        self.forward(tokens, cache, run)
    }
}

/// With a cache on each rank.
impl<T: Real> LanguageModel<T> for Group<'_> {
    type Cache = Vec<KvCache<T>>;

    fn cache(&self) -> Vec<KvCache<T>> {
        self.caches()
    }

    fn read(&self, tokens: &[u32], cache: &mut Vec<KvCache<T>>, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        Ok(self.pass(tokens, cache, run)?.logits)
    }
}

/// Makes tokens after `prompt`. `each` is told of every choice as it is made.
pub fn decode<T: Real>(
    model: &impl LanguageModel<T>,
    prompt: &[u32],
    p: &Decode,
    run: &mut Run<'_, T>,
    mut each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Error> {
    require(!prompt.is_empty(), "decode C1", "length of the prompt", 0, "at least 1")?;
    let mut cache = model.cache();
    let mut rng = ChaCha8Rng::seed_from_u64(p.seed);
    let mut choices: Vec<Choice> = Vec::with_capacity(p.tokens);
    let mut next = prompt.to_vec();
    while choices.len() < p.tokens {
        let mut last = None;
        for chunk in next.chunks(p.chunk.unwrap_or(next.len()).max(1)) {
            last = Some(model.read(chunk, &mut cache, run)?);
        }
        let logits = last.expect("there is at least one token").value;
        let choice = sample(&p.sampling, logits.row(logits.nrows() - 1), &mut rng)?;
        each(&choice);
        next = vec![choice.token];
        choices.push(choice);
    }
    Ok(choices)
}
