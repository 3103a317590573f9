//! `reference/src/decode.rs`.

use ndarray::Array2;
use reference::config::Config;
use reference::decode::{Decode, decode};
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::ops::sampling::{Choice, Random, Sampling, argmax};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::weights::{Weight, Weights};
use reference::{Error, Real, RoundingContract, Semantics, Site};
use tests::memory::{Memory, tiny};
use tests::probes::{GivenTable, Recorder, Seen};

const PROMPT: [u32; 7] = [7, 1, 39, 7, 0, 22, 13];

const GREEDY: Decode = Decode { tokens: 9, sampling: Sampling::Greedy, seed: 0, chunk: None };

const WARM: Sampling = Sampling::Random(Random { temperature: 3.0, top_k: None, top_p: 1.0 });

fn model<'w>(config: &Config, weights: &'w dyn Weights) -> Decoder<'w> {
    Decoder::new(config, Semantics::DOCUMENTS, weights).expect("the configuration keeps the contract")
}

fn made<T: Real>(
    model: &Decoder<'_>,
    prompt: &[u32],
    p: &Decode,
    contract: RoundingContract,
) -> Result<Vec<Choice>, Error> {
    decode::<T>(model, prompt, p, &mut Run::new(contract, &mut NoProbe), |_| ())
}

/// What a tiny model makes after the prompt.
fn after(p: &Decode) -> Vec<Choice> {
    let memory = Memory::random(&tiny(), 1);
    made::<f64>(&model(&tiny(), &memory), &PROMPT, p, RoundingContract::IDEAL).expect("a good prompt")
}

fn tokens(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|choice| choice.token).collect()
}

/// Token t is the t-th unit vector, its norm 2 long, and the head's row t + 1 asks for it.
#[test]
fn a_model_that_counts() {
    let config = Config { vocab_size: 4, hidden_size: 4, rms_norm_eps: 1e-300, ..tiny() };
    let mut memory = Memory::blank(&config);
    let unit = |shift| Array2::from_shape_fn((4, 4), |(i, j)| if i == (j + shift) % 4 { 1.0 } else { 0.0 });
    memory.set(Weight::Embedding, &unit(0));
    memory.set(Weight::LmHead, &unit(1));
    for (prompt, want) in [(&[0][..], [1, 2, 3, 0, 1, 2, 3, 0, 1]), (&[3, 1, 2], [3, 0, 1, 2, 3, 0, 1, 2, 3])] {
        let choices = made::<f64>(&model(&config, &memory), prompt, &GREEDY, RoundingContract::IDEAL);
        assert_eq!(choices, Ok(want.map(|token| Choice { token, margin: 2.0 }).to_vec()));
    }
}

/// Without a cache: the last logits of the whole text so far, whose sums are in another order.
#[test]
fn greedy_is_the_largest_logit_after_the_whole_text() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    let mut text = PROMPT.to_vec();
    for choice in after(&GREEDY) {
        let mut probe = GivenTable;
        let mut run = Run::bounding(RoundingContract::IDEAL, &mut probe);
        let logits = model.forward(&text, &mut KvCache::<f64>::new(2), &mut run).expect("a good text");
        let last = logits.select(&[text.len() - 1]);
        // Two logits of each run are off.
        let off = 4.0 * last.error_or_exact().certain.iter().copied().fold(0.0, f64::max);
        let whole = argmax(last.value.row(0)).expect("a vocabulary");
        assert!(off < choice.margin, "{off}, {choice:?}");
        assert!((whole.margin - choice.margin).abs() <= off, "{off}, {whole:?}, {choice:?}");
        assert_eq!(whole.token, choice.token);
        text.push(choice.token);
    }
}

/// Up to four rows are multiplied one by one: bitwise, margins included, in either arithmetic.
#[test]
fn chunks_of_up_to_four_tokens_choose_alike_bitwise() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    let in_chunks = |chunk, sampling, contract| {
        let p = Decode { chunk: Some(chunk), sampling, ..GREEDY };
        let wide = made::<f64>(&model, &PROMPT, &p, contract).expect("a good prompt");
        (wide, made::<f32>(&model, &PROMPT, &p, contract).expect("a good prompt"))
    };
    for (name, contract) in RoundingContract::PRESETS {
        for sampling in [Sampling::Greedy, WARM] {
            let one = in_chunks(1, sampling, contract);
            // A chunk of nothing is one of a token.
            for chunk in [0, 2, 3, 4] {
                assert_eq!(in_chunks(chunk, sampling, contract), one, "{name}, chunks of {chunk}");
            }
        }
    }
}

/// In larger chunks the sums' order may differ, and the tokens do not, where a margin is far above f64's errors.
#[test]
fn chunks_of_any_size_choose_alike() {
    let want = after(&Decode { chunk: Some(1), ..GREEDY });
    assert!(want.iter().all(|choice| choice.margin > 1e-9));
    for chunk in [None, Some(5), Some(6), Some(7), Some(100)] {
        assert_eq!(tokens(&after(&Decode { chunk, ..GREEDY })), tokens(&want));
    }
}

/// A pass over the prompt, then one a token; none for the last token made.
#[test]
fn a_pass_for_each_chunk_and_each_token() {
    let memory = Memory::random(&tiny(), 1);
    for (chunk, want) in [(None, &[7, 1, 1, 1][..]), (Some(3), &[3, 3, 1, 1, 1, 1])] {
        let (mut seen, mut told) = (Recorder::<f64>::new(false), Vec::new());
        let p = Decode { tokens: 4, chunk, ..GREEDY };
        let mut run = Run::new(RoundingContract::IDEAL, &mut seen);
        let choices = decode(&model(&tiny(), &memory), &PROMPT, &p, &mut run, |choice| told.push(*choice));
        assert_eq!(choices, Ok(told));
        let logits = seen.seen.iter().filter(|(site, _)| *site == Site::Logits);
        assert_eq!(logits.count(), want.len());
        let passes = seen.seen.iter().filter_map(|(site, seen)| match seen {
            Seen::Value(value) if *site == Site::Embedding => Some(value.dim().0),
            _ => None,
        });
        assert_eq!(passes.collect::<Vec<_>>(), want);
    }
}

#[test]
fn fewer_tokens_are_the_first_of_more() {
    let all = after(&GREEDY);
    for tokens in 0..9 {
        assert_eq!(after(&Decode { tokens, ..GREEDY }), all[..tokens]);
    }
}

/// Rows 3 and 7 of the head are one vector, the others its opposite.
#[test]
fn ties_go_to_the_lowest_token() {
    let (mut memory, mut seen) = (Memory::random(&tiny(), 1), Recorder::<f64>::new(false));
    let mut run = Run::new(RoundingContract::IDEAL, &mut seen);
    model(&tiny(), &memory).forward(&PROMPT, &mut KvCache::new(2), &mut run).expect("a good prompt");
    let normed = seen.value(Site::FinalNorm).value.row(PROMPT.len() - 1).to_owned();
    let sign = |token| if token == 3 || token == 7 { 1.0 } else { -1.0 };
    memory.set(Weight::LmHead, &Array2::from_shape_fn((40, 48), |(token, j)| sign(token) * normed[j]));
    let one = Decode { tokens: 1, ..GREEDY };
    let choices = made::<f64>(&model(&tiny(), &memory), &PROMPT, &one, RoundingContract::IDEAL);
    assert_eq!(choices, Ok(vec![Choice { token: 3, margin: 0.0 }]));
    memory.set(Weight::LmHead, &Array2::zeros((40, 48)));
    let choices = made::<f64>(&model(&tiny(), &memory), &PROMPT, &one, RoundingContract::IDEAL);
    assert_eq!(choices, Ok(vec![Choice { token: 0, margin: 0.0 }]));
}

/// The same seed makes the same text, other seeds other texts.
#[test]
fn draws_follow_from_the_seed() {
    let draw = |seed| after(&Decode { sampling: WARM, seed, ..GREEDY });
    let texts: Vec<_> = (0..8).map(draw).collect();
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(*text, draw(i as u64));
        assert!(texts[..i].iter().all(|other| tokens(other) != tokens(text)), "seeds up to {i}");
    }
}

/// Whatever the seed.
#[test]
fn a_draw_from_one_candidate_is_greedy() {
    let random = Random { temperature: 1.0, top_k: None, top_p: 1.0 };
    for random in [Random { top_k: Some(1), ..random }, Random { top_p: 1e-9, ..random }] {
        let p = Decode { sampling: Sampling::Random(random), seed: 5, ..GREEDY };
        assert_eq!(after(&p), after(&GREEDY));
    }
}

fn refused(config: &Config, memory: &Memory, prompt: &[u32], p: &Decode) -> String {
    let made = made::<f64>(&model(config, memory), prompt, p, RoundingContract::IDEAL);
    made.expect_err("against the contract").to_string()
}

#[test]
fn c1_an_empty_prompt() {
    let memory = Memory::random(&tiny(), 1);
    for tokens in [0, 1] {
        let error = refused(&tiny(), &memory, &[], &Decode { tokens, ..GREEDY });
        assert_eq!(error, "decode C1: length of the prompt = 0, expected at least 1");
    }
}

/// The last token made needs no position of its own.
#[test]
fn positions_past_the_last_are_refused() {
    let config = Config { max_position_embeddings: 7, ..tiny() };
    let memory = Memory::random(&config, 1);
    let p = Decode { tokens: 1, ..GREEDY };
    assert!(made::<f64>(&model(&config, &memory), &PROMPT, &p, RoundingContract::IDEAL).is_ok());
    let want = "decoder C3: positions = 8, expected at most max_position_embeddings = 7";
    assert_eq!(refused(&config, &memory, &PROMPT, &Decode { tokens: 2, ..GREEDY }), want);
    let longer = [&PROMPT[..], &[1]].concat();
    assert_eq!(refused(&config, &memory, &longer, &p), want);
}

#[test]
fn tokens_logits_and_draws_that_are_none() {
    let mut memory = Memory::random(&tiny(), 1);
    let error = refused(&tiny(), &memory, &[1, 40], &GREEDY);
    assert_eq!(error, "embedding C2: token 1 = 40, expected below v = 40");
    let cold = Sampling::Random(Random { temperature: 0.0, top_k: None, top_p: 1.0 });
    let error = refused(&tiny(), &memory, &PROMPT, &Decode { sampling: cold, ..GREEDY });
    assert_eq!(error, "sampling C3: temperature = 0, expected above 0");
    memory.set(Weight::LmHead, &Array2::from_elem((40, 48), f64::NAN));
    let error = refused(&tiny(), &memory, &PROMPT, &GREEDY);
    assert_eq!(error, "sampling C2: logit 0 = NaN, expected a number");
    memory.remove(Weight::LmHead);
    assert_eq!(refused(&tiny(), &memory, &PROMPT, &GREEDY), "lm_head.weight: not in memory");
}
