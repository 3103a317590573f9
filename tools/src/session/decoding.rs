//! Decoding on either backend, by the same rules.

pub mod on_device;

use std::collections::VecDeque;

use fixtures::checkpoint::Checkpoint;
use ndarray::Array2;
use optimized::models::capture::Capture;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::decode::Decode;
use reference::media::Media;
use reference::models::decoder::Decoder;
use reference::ops::sampling::{Choice, sample};
use reference::probe::Probe;
use reference::run::Run;
use reference::{Error, Real, RoundingContract, Site, Tracked};

use self::on_device::OnDevice;
use super::kept::Kept;
use super::phases::{Phase, Standing};
use super::precision::named;
use super::progress::{Progress, Watcher, read_of};
use super::recorder::Recorder;
use crate::failure::Failure;

/// What goes with a run of the reference.
pub(super) struct Beside<'b, 'w> {
    /// Where the weights are that it reads.
    pub(super) checkpoint: &'b Checkpoint,
    /// Sees what is computed.
    pub(super) recorder: Option<&'b mut Recorder<'w>>,
    /// Phases that are done, and are kept.
    pub(super) kept: Option<&'b Kept>,
}

/// On the reference, in f64, in f32, or in f64 with the roundings of a contract. Without tokens to make, the prompt is
/// still read.
pub(super) fn decode_reference(
    model: &Decoder<'_>,
    precision: &str,
    (prompt, how): (&[u32], &Decode),
    beside: &mut Beside<'_, '_>,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Choice>, Failure> {
    match precision {
        "f32" => decode_in::<f32>(model, RoundingContract::IDEAL, (prompt, how), beside, watch),
        _ => decode_in::<f64>(model, named(precision)?, (prompt, how), beside, watch),
    }
}

fn decode_in<T: Real>(
    model: &Decoder<'_>,
    contract: RoundingContract,
    (prompt, how): (&[u32], &Decode),
    beside: &mut Beside<'_, '_>,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Choice>, Failure> {
    let mut standing = Standing::<T>::new(model);
    let mut rng = ChaCha8Rng::seed_from_u64(how.seed);
    let mut choices: Vec<Choice> = Vec::with_capacity(how.tokens);
    let chunks = prompt.chunks(how.chunk.unwrap_or(prompt.len()).max(1));
    let mut calls: VecDeque<Vec<u32>> = chunks.map(<[u32]>::to_vec).collect();
    let steps = (calls.len() + how.tokens.saturating_sub(1)) * Phase::of_call(model).count();
    watch(Progress::Begins { what: "running the reference", steps });
    let (mut call, mut first) = (0, 0);
    while let Some(tokens) = calls.pop_front() {
        for phase in Phase::of_call(model) {
            let place = place(model, (phase, choices.len()), how);
            watch(Progress::Place(&read_of(&place, beside.checkpoint)));
            beside.go((model, contract), &mut standing, (call, phase), (first, &tokens), watch)?;
            watch(Progress::Step);
        }
        (call, first) = (call + 1, first + tokens.len());
        if calls.is_empty() && choices.len() < how.tokens {
            let choice = sample(&how.sampling, standing.last(), &mut rng).map_err(Error::from)?;
            choices.push(choice);
            calls.extend((choices.len() < how.tokens).then(|| vec![choice.token]));
        }
    }
    watch(Progress::Ends);
    Ok(choices)
}

/// Where a run is, in words.
fn place(model: &Decoder<'_>, (phase, made): (Phase, usize), how: &Decode) -> String {
    let phase = match phase {
        Phase::Start => "embedding".to_owned(),
        Phase::Layer(layer) => format!("layer {} of {}", layer + 1, model.config().num_hidden_layers),
        Phase::Head => "head".to_owned(),
    };
    if made > 0 { format!("token {} of {}, {phase}", made + 1, how.tokens) } else { phase }
}

impl Beside<'_, '_> {
    /// Goes through a phase of a call: as it was kept, or by running it.
    fn go<T: Real>(
        &mut self,
        (model, contract): (&Decoder<'_>, RoundingContract),
        standing: &mut Standing<T>,
        (call, phase): (usize, Phase),
        (first, tokens): (usize, &[u32]),
        watch: &mut Watcher<'_>,
    ) -> Result<(), Failure> {
        let done = self.kept.map_or(Ok(None), |kept| kept.done(call, phase)).unwrap_or_else(|damaged| {
            watch(Progress::Note(&damaged));
            None
        });
        if let Some(done) = done {
            if let Some(recorder) = &mut self.recorder {
                if phase == Phase::Start {
                    recorder.begin_step(tokens.len());
                }
                done.show(|name, tensor| recorder.hand_on(name, tensor))?;
            }
            let taken = standing.take(model, phase, (first, tokens), (contract, done.left()?));
            return taken.ok_or_else(|| done.is_other());
        }
        self.kept.map_or(Ok(()), |kept| kept.begin(call, phase))?;
        let mut last = Last(tokens.len() - 1);
        let probe: &mut dyn Probe<T> = match &mut self.recorder {
            Some(recorder) => &mut **recorder,
            None => &mut last,
        };
        standing.advance(model, phase, (first, tokens), &mut Run::new(contract, probe))?;
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.require_written())?;
        self.kept.map_or(Ok(()), |kept| kept.end(&standing.left(phase, first)))?;
        self.checkpoint.release_behind();
        Ok(())
    }
}

/// Looks at nothing but a row of the logits.
struct Last(usize);

impl<T> Probe<T> for Last {
    fn visit(&mut self, _: Site, _: &mut Tracked<T>) {}

    fn choose(&mut self, _: Site, _: &Tracked<T>, _: &mut Array2<usize>) {}

    fn rows_of_head(&self) -> Option<Vec<usize>> {
        Some(vec![self.0])
    }
}

/// On the CUDA path, of a prompt and what it shows.
pub fn decode_optimized<M: OnDevice>(
    model: &M,
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
        let choice = model.choose(&logits, &how.sampling, &mut rng)?;
        each(&choice);
        next = vec![choice.token];
        choices.push(choice);
        if choices.len() == how.tokens {
            return Ok(choices);
        }
    }
}
