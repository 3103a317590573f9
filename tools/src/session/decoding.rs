//! Decoding on either backend, by the same rules.

use ndarray::ArrayView1;
use optimized::models::capture::Capture;
use optimized::models::decoder::Decoder as Optimized;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::decode::{Decode, LanguageModel, decode};
use reference::media::Media;
use reference::ops::sampling::{Choice, Sampling, sample};
use reference::probe::Probe;
use reference::run::Run;
use reference::{Error, Real, RoundingContract};

use crate::failure::Failure;
use crate::session::precision::named;

/// On the reference, in f64, in f32, or in f64 with the roundings of a contract. Without tokens to make, the prompt is
/// still read.
pub fn decode_reference<P: Probe<f64> + Probe<f32>>(
    model: &(impl LanguageModel<f64> + LanguageModel<f32>),
    precision: &str,
    prompt: &[u32],
    how: &Decode,
    probe: &mut P,
    each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Failure> {
    let choices = match precision {
        "f32" => decode_in(model, prompt, how, &mut Run::<f32>::new(RoundingContract::IDEAL, probe), each),
        _ => decode_in(model, prompt, how, &mut Run::<f64>::new(named(precision)?, probe), each),
    };
    Ok(choices?)
}

fn decode_in<T: Real>(
    model: &impl LanguageModel<T>,
    prompt: &[u32],
    how: &Decode,
    run: &mut Run<'_, T>,
    each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Error> {
    if how.tokens == 0 {
        model.read(prompt, &mut model.cache(), run)?;
        return Ok(Vec::new());
    }
    decode(model, prompt, how, run, each)
}

/// On the CUDA path, of a prompt and what it shows. Greedy tokens are chosen on the device.
pub fn decode_optimized(
    model: &Optimized,
    (prompt, media): (&[u32], Option<&Media>),
    how: &Decode,
    mut capture: Option<&mut dyn Capture>,
    mut each: impl FnMut(&Choice),
) -> Result<Vec<Choice>, Failure> {
    let mut cache = model.cache(prompt.len() + how.tokens)?;
    let mut rng = ChaCha8Rng::seed_from_u64(how.seed);
    let mut choices: Vec<Choice> = Vec::with_capacity(how.tokens);
    let mut next = prompt.to_vec();
    let mut features = match media {
        Some(media) => model.features(media, capture.as_mut().map(|capture| &mut **capture as &mut dyn Capture))?,
        None => Vec::new(),
    };
    loop {
        let mut logits = None;
        for chunk in next.chunks(how.chunk.unwrap_or(next.len()).max(1)) {
            let seen = capture.as_mut().map(|capture| &mut **capture as &mut dyn Capture);
            logits = Some(model.forward(chunk, &features, &mut cache, seen)?);
        }
        features.clear();
        let logits = logits.expect("there is at least one token");
        if choices.len() == how.tokens {
            return Ok(choices);
        }
        let choice = match how.sampling {
            Sampling::Greedy => {
                let (token, margin) = model.greedy(&logits)?;
                Choice { token, margin: f64::from(margin) }
            }
            Sampling::Random(_) => {
                let last = model.last_row(&logits)?;
                sample(&how.sampling, ArrayView1::from(&last), &mut rng).map_err(Error::from)?
            }
        };
        each(&choice);
        next = vec![choice.token];
        choices.push(choice);
        if choices.len() == how.tokens {
            return Ok(choices);
        }
    }
}
