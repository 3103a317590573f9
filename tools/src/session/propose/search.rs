//! Tokens that reach experts, found chunk by chunk: several are drawn and run, and the one that reaches the most is kept.

use std::collections::BTreeMap;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reference::models::decoder::{Decoder, Stream};
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{Error, LayerSite, RoundingContract, Site, Tracked};

use super::reach::{Choice, Reach, bias};

/// Tokens that are chosen together.
const CHUNK: usize = 8;

/// Chunks that are tried for a place while experts are missing.
const TRIED: usize = 4;

/// How many draws in so many are of tokens that are known to reach a missing expert.
const KNOWN: (u32, u32) = (1, 2);

/// A prompt on its way.
pub(super) struct Search<'m> {
    model: &'m Decoder<'m>,
    reach: Reach,
    bias: BTreeMap<usize, Vec<f64>>,
    cache: KvCache<f64>,
    rng: ChaCha8Rng,
    /// Tokens that may be drawn.
    words: Vec<u32>,
}

/// Keeps choices of experts.
#[derive(Default)]
struct Choices(Vec<Choice>);

impl Probe<f64> for Choices {
    fn visit(&mut self, _: Site, _: &mut Tracked<f64>) {}

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if matches!(site, Site::Layer(_, LayerSite::GateExperts)) {
            self.0.push(Choice { site, scores: scores.value.clone(), chosen: chosen.clone() });
        }
    }
}

impl<'m> Search<'m> {
    pub(super) fn new(model: &'m Decoder<'m>, reach: Reach, seed: u64) -> Result<Self, Error> {
        let config = model.config();
        let places = config.vision.iter().flat_map(|vision| [vision.image_token, vision.video_token]);
        // A text ends at its end, and pictures have places of their own.
        let special: Vec<u32> = places.chain(config.eos_token_id.iter().copied()).collect();
        let all = 0..u32::try_from(config.vocab_size).unwrap_or(u32::MAX);
        let words: Vec<u32> = all.clone().filter(|token| !special.contains(token)).collect();
        let words = if words.is_empty() { all.collect() } else { words };
        let bias = reach.layers().map(|layer| Ok((layer, bias(model, layer)?))).collect::<Result<_, Error>>()?;
        let cache = KvCache::new(config.num_hidden_layers);
        Ok(Search { model, reach, bias, cache, rng: ChaCha8Rng::seed_from_u64(seed), words })
    }

    /// How many steps it takes from one length to another.
    pub(super) fn steps(from: usize, to: usize) -> usize {
        usize::from(from > 0) + (to - from).div_ceil(CHUNK)
    }

    /// The prompt, which begins with `start`.
    pub(super) fn run(
        &mut self,
        start: Vec<u32>,
        length: usize,
        mut progress: impl FnMut(),
    ) -> Result<Vec<u32>, Error> {
        let mut tokens = start;
        if !tokens.is_empty() {
            let choices = self.read(&tokens, 0)?;
            self.reach.keep(&choices);
            progress();
        }
        while tokens.len() < length {
            let chunk = self.next(tokens.len(), CHUNK.min(length - tokens.len()))?;
            tokens.extend(chunk);
            progress();
        }
        Ok(tokens)
    }

    /// What was reached.
    pub(super) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// The chunk, of those that are drawn, that is sent to missing experts the most often.
    fn next(&mut self, first: usize, count: usize) -> Result<Vec<u32>, Error> {
        let tried = if self.reach.missing().is_empty() { 1 } else { TRIED };
        let mut best: Option<(usize, Vec<u32>)> = None;
        for _ in 0..tried {
            let chunk: Vec<u32> = (0..count).map(|_| self.draw()).collect();
            let choices = self.read(&chunk, first)?;
            let gain = self.reach.gain(&choices);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, chunk));
            }
        }
        let (_, chunk) = best.expect("one chunk is tried at least");
        let choices = self.read(&chunk, first)?;
        self.reach.keep(&choices);
        Ok(chunk)
    }

    /// A token: one that is known to reach a missing expert, or any.
    fn draw(&mut self) -> u32 {
        let missing = self.reach.missing();
        if !missing.is_empty() && self.rng.random_ratio(KNOWN.0, KNOWN.1) {
            let known = missing[self.rng.random_range(0..missing.len())];
            if !known.is_empty() {
                return known[self.rng.random_range(0..known.len())];
            }
        }
        self.words[self.rng.random_range(0..self.words.len())]
    }

    /// The choices for tokens from a position on, where the prompt has been read up to there.
    fn read(&mut self, tokens: &[u32], first: usize) -> Result<Vec<Choice>, Error> {
        self.cache.truncate(first);
        let mut probe = Choices::default();
        let mut run = Run::new(RoundingContract::IDEAL, &mut probe);
        let mut stream = Stream::from(self.model.embed(tokens, first, &mut run)?);
        let table = self.model.rope_table(first, tokens.len(), &mut run);
        for layer in 0..self.reach.end() {
            stream = self.model.layer(layer, &stream, &table, &mut self.cache, &mut run)?;
        }
        self.reach.learn(tokens, &probe.0, &self.bias);
        Ok(probe.0)
    }
}
