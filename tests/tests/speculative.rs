//! `reference/src/speculative.rs`: what is decoded with drafts is what is decoded without.

mod acceptance;
mod device;
mod drawn;
mod forced;
mod greedy;
mod slips;

use fixtures::checkpoint::memory::MemoryWeights;
use fixtures::synth::Synthesis;
use rand_chacha::ChaCha8Rng;
use reference::config::{Attention, Config, FeedForward, Layer};
use reference::models::decoder::{Decoder, Pass};
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::{Choice, Sampling};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::speculative::acceptance::Slip;
use reference::speculative::drafter::{Draft, Drafter, Verified};
use reference::speculative::{Acceptance, Reference, Speculation, speculate};
use reference::weights::Weights;
use reference::{Error, RoundingContract, Semantics};
use tests::memory::{tiny, tiny_m3};

const PROMPT: [u32; 5] = [7, 1, 19, 7, 0];

const GREEDY: Speculation = Speculation { tokens: 13, drafts: 3, sampling: Sampling::Greedy, seed: 0, slip: None };

/// Two layers of M2's, small.
fn small() -> Config {
    Config {
        vocab_size: 24,
        hidden_size: 16,
        intermediate_size: 6,
        num_attention_heads: 4,
        num_local_experts: 4,
        num_experts_per_tok: 2,
        ..tiny()
    }
}

/// Two of M3's, one of each kind of attention and network.
fn small_m3() -> Config {
    let sizes = small();
    let kinds = [(Attention::Full, FeedForward::Dense), (Attention::BlockSparse, FeedForward::Experts)];
    Config {
        vocab_size: sizes.vocab_size,
        hidden_size: sizes.hidden_size,
        intermediate_size: sizes.intermediate_size,
        num_hidden_layers: 2,
        num_attention_heads: sizes.num_attention_heads,
        num_local_experts: sizes.num_local_experts,
        num_experts_per_tok: sizes.num_experts_per_tok,
        layers: kinds.map(|(attention, feed_forward)| Layer { attention, feed_forward }).to_vec(),
        dense_intermediate_size: 10,
        shared_intermediate_size: 6,
        ..tiny_m3()
    }
}

/// A model of that seed, with modules that are often right.
fn weights(config: &Config, seed: u64) -> MemoryWeights {
    Synthesis { seed, modules: 3, ..Synthesis::default() }.weights(config)
}

fn model<'w>(config: &Config, weights: &'w dyn Weights) -> Decoder<'w> {
    Decoder::new(config, Semantics::RELEASED, weights).expect("it fits")
}

/// What is made with a drafter, and the cache behind it.
fn made(
    model: &Decoder<'_>,
    p: &Speculation,
    drafter: &mut dyn Drafter<Pass<f64>>,
) -> Result<(Vec<Choice>, Acceptance, KvCache<f64>), Error> {
    let mut cache = KvCache::new(model.config().num_hidden_layers);
    let mut told = Vec::new();
    let mut unseen = NoProbe;
    let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
    let (choices, acceptance) =
        speculate(&mut Reference { model, cache: &mut cache, run: &mut run }, &PROMPT, p, drafter, |choice| {
            told.push(*choice);
        })?;
    assert_eq!(choices, told);
    Ok((choices, acceptance, cache))
}

fn tokens(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|choice| choice.token).collect()
}

/// Plain decoding, token by token, and its cache: of the prompt and all tokens but the last.
fn plain(model: &Decoder<'_>, count: usize) -> (Vec<Choice>, KvCache<f64>) {
    let mut nothing = Nothing;
    let (choices, _, cache) = made(model, &Speculation { tokens: count, ..GREEDY }, &mut nothing).expect("it runs");
    (choices, cache)
}

/// Makes no drafts.
struct Nothing;

impl Drafter<Pass<f64>> for Nothing {
    fn draft(
        &mut self,
        _: &Verified<'_, Pass<f64>>,
        _: usize,
        _: &Sampling,
        _: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Error> {
        Ok(Vec::new())
    }
}

/// Drafts the tokens that come next where its pattern says so, and others where not. The pattern goes on from round to round.
struct Forced {
    /// The prompt and the tokens after it.
    text: Vec<u32>,
    right: Vec<bool>,
    made: usize,
    vocabulary: u32,
}

impl Forced {
    fn new(choices: &[Choice], right: &[bool], vocabulary: usize) -> Self {
        let text = [&PROMPT[..], &tokens(choices)].concat();
        Forced { text, right: right.to_vec(), made: 0, vocabulary: u32::try_from(vocabulary).expect("small") }
    }
}

impl Forced {
    /// Drafts after a text, of whose tokens from `first` on a pass with so many rows was made.
    fn drafts(&mut self, (text, first): (&[u32], usize), rows: [usize; 3], most: usize) -> Vec<Draft> {
        let next = text.len();
        assert_eq!(rows, [next - 1 - first; 3]);
        let drafts = (0..most).map(|i| {
            let right = self.right[(self.made + i) % self.right.len()];
            let token = self.text.get(next + i).copied().unwrap_or(0);
            Draft { token: if right { token } else { (token + 1) % self.vocabulary }, probabilities: None }
        });
        let drafts = drafts.collect();
        self.made += most;
        drafts
    }
}

impl Drafter<Pass<f64>> for Forced {
    fn draft(
        &mut self,
        Verified { text, first, pass }: &Verified<'_, Pass<f64>>,
        most: usize,
        _: &Sampling,
        _: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Error> {
        let rows = [pass.stream.dim().0, pass.normed.dim().0, pass.logits.dim().0];
        Ok(self.drafts((text, *first), rows, most))
    }
}

#[test]
fn c1_and_c2_and_no_tokens() {
    let config = small();
    let weights = weights(&config, 0);
    let model = model(&config, &weights);
    let refused = |p| made(&model, &p, &mut Nothing).err().map(|error| error.to_string());
    let none = Speculation { drafts: 0, ..GREEDY };
    assert_eq!(refused(none), Some("speculative C2: drafts = 0, expected at least 1".into()));
    let (mut cache, mut unseen) = (KvCache::<f64>::new(2), NoProbe);
    let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
    let mut reference = Reference { model: &model, cache: &mut cache, run: &mut run };
    let empty = speculate(&mut reference, &[], &GREEDY, &mut Nothing, |_| ()).expect_err("refused");
    assert_eq!(empty.to_string(), "speculative C1: length of the prompt = 0, expected at least 1");
    let (choices, acceptance, _) =
        made(&model, &Speculation { tokens: 0, ..GREEDY }, &mut Nothing).expect("nothing is asked for");
    assert_eq!((choices, acceptance.share()), (Vec::new(), None));
}

/// Drafts stop short of positions that the model lacks; the last token needs none.
#[test]
fn the_last_positions_are_used() {
    let config = Config { max_position_embeddings: PROMPT.len() + 12, ..small() };
    let weights = weights(&config, 0);
    let model = model(&config, &weights);
    let (want, _) = plain(&model, 13);
    let mut drafter = Forced::new(&want, &[true], config.vocab_size);
    let more = Speculation { drafts: 7, ..GREEDY };
    assert_eq!(tokens(&made(&model, &more, &mut drafter).expect("it fits").0), tokens(&want));
    let error = made(&model, &Speculation { tokens: 14, ..more }, &mut drafter).expect_err("a position too many");
    assert_eq!(error.to_string(), "decoder C3: positions = 18, expected at most max_position_embeddings = 17");
}

/// With a slip.
fn with(slip: Slip) -> Speculation {
    Speculation { slip: Some(slip), ..GREEDY }
}
